"""A local time window over 100,000 followed marks of 16 segments, at varying positions."""

from __future__ import annotations

import random
import tracemalloc
from array import array
from bisect import bisect_right
from time import perf_counter_ns

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from noted_time import Mark, MarkHistory, StreamCut

MARKS = 100_000
SEGMENTS = 16
POSITIONS = 5_000
STEP = 100
TARGET = Target("value", "at most", 10)
MIB = 1024 * 1024

Position = dict[int, int]


def measure(run: Run, marks: int = MARKS, positions: int = POSITIONS) -> list[Figure]:
    """Time windows and, in turn, the least a search can be: two bisections of one array."""
    run.say("marks are followed")
    tracemalloc.start()
    history = followed(marks)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    flat = array("q", range(0, marks * STEP, STEP))
    ours: list[float] = []
    floor: list[float] = []
    for repeat in range(run.repeats(full=9, quick=3)):
        run.say(f"time windows, repeat {repeat + 1}")
        asked = [somewhere(marks) for _ in range(positions)]
        ours.append(_windows_us(history, asked))
        floor.append(_bisections_us(flat, [position[0] for position in asked]))
    return [
        Figure(
            f"a time window over {marks:,} marks of {SEGMENTS} segments",
            "µs",
            Samples(tuple(ours)),
            Samples(tuple(floor)),
            "two bisections of one array",
            TARGET,
            f"the followed history takes {size / MIB:.1f} MiB",
        )
    ]


def followed(marks: int) -> MarkHistory:
    """Return a history in which each mark raises some of the segments by some way."""
    chance = random.Random(marks)  # noqa: S311 - the same history in every run
    history = MarkHistory()
    cut = dict.fromkeys(range(SEGMENTS), 0)
    for seq in range(1, marks + 1):
        for segment in chance.sample(range(SEGMENTS), SEGMENTS // 2):
            cut[segment] += chance.randrange(4 * STEP)
        history.append(Mark(seq, seq * 1000, seq * 1000 + 500, StreamCut(dict(cut)), seq))
    return history


def somewhere(marks: int) -> Position:
    """Return a position that reaches some marks, with each segment a little way further."""
    place = random.randrange(marks)  # noqa: S311 - chance is no secret here
    return {s: place * STEP + random.randrange(50 * STEP) for s in range(SEGMENTS)}  # noqa: S311


def _windows_us(history: MarkHistory, positions: list[Position]) -> float:
    bounded = 0
    begun = perf_counter_ns()
    for position in positions:
        bounded += history.window(position).lower is not None
    took = perf_counter_ns() - begun
    if bounded < len(positions) // 2:
        raise WrongResult(f"of {len(positions)} positions only {bounded} reach a mark")
    return took / 1e3 / len(positions)


def _bisections_us(flat: array[int], offsets: list[int]) -> float:
    begun = perf_counter_ns()
    for offset in offsets:
        bisect_right(flat, offset, bisect_right(flat, offset) - 1)
    return (perf_counter_ns() - begun) / 1e3 / len(offsets)
