"""Local time windows of a reader that follows 100,000 marks of 16 segments, in CPU time.

Positions are a reader's, each a little beyond the last, or anywhere, outside of the processor's
caches.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from array import array
from bisect import bisect_right
from contextlib import contextmanager
from time import thread_time_ns
from typing import TYPE_CHECKING

import httpx

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from noted_time import Mark, NotCompleteYet, StreamCut
from noted_time.coding import encode
from noted_time.reading import MarkHistory
from reader_client import ReaderClient

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKS = 100_000
SEGMENTS = 16
POSITIONS = 5_000
STEP = 100
TARGET = Target("value", "at most", 10)
MIB = 1024 * 1024
LONGEST_S = 120.0

Position = dict[int, int]


def measure(run: Run, marks: int = MARKS, positions: int = POSITIONS) -> list[Figure]:
    """Time windows and, in turn, the cheapest search: two bisections of one array."""
    run.say("marks are followed")
    tracemalloc.start()
    history = build_history(marks)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    flat = array("q", range(0, marks * STEP, STEP))
    costs_us: dict[str, list[float]] = {"advancing": [], "anywhere": [], "floor": []}
    with follow(history) as reader:
        for repeat in range(run.repeats(full=9, quick=3)):
            run.say(f"time windows, repeat {repeat + 1}")
            onward = advancing(marks, positions)
            anywhere = [somewhere(random.randrange(marks)) for _ in range(positions)]  # noqa: S311
            costs_us["advancing"].append(_windows_us(reader, onward))
            costs_us["anywhere"].append(_windows_us(reader, anywhere))
            costs_us["floor"].append(_bisections_us(flat, [position[0] for position in anywhere]))
    remark = f"the followed history of {marks:,} marks takes {size / MIB:.1f} MiB"
    return [
        _figure("get_time_window() of a reader that advances", costs_us, "advancing", remark),
        _figure("get_time_window() at positions anywhere", costs_us, "anywhere", ""),
    ]


def _figure(name: str, costs_us: dict[str, list[float]], cost_name: str, remark: str) -> Figure:
    ours = Samples(tuple(costs_us[cost_name]))
    floor = Samples(tuple(costs_us["floor"]))
    return Figure(name, "µs", ours, floor, "two bisections of one array", TARGET, remark)


@contextmanager
def follow(history: MarkHistory) -> Iterator[ReaderClient]:
    """Yield a reader that has followed all marks of `history`."""

    def answer(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/marks"):
            stream: dict[str, object] = {"id": "a", "domains": ["default"], "scale_events": []}
            stream |= {"logs": [], "reader_timeout_ms": 60_000, "max_time_ahead_ms": None}
            stream |= {"writer_retention_ms": 60_000, "seal": None}
            last = {"default": history.mark(history.last_seq)}
            return httpx.Response(200, content=encode({**stream, "marks": last}))
        parameters = request.url.params
        marks_found = history.after(int(parameters["after"]), int(parameters.get("limit", "1000")))
        if not marks_found:
            time.sleep(int(parameters["wait_ms"]) / 1000)
        about = {"stream_id": "a", "scale_events": 0, "sealed": False, "final_cut": None}
        about |= {"quiet": False, "ahead_of_stream": False, "first_lower": None}
        about |= {"logs": [], "has_more": False}
        return httpx.Response(200, content=encode({**about, "marks": marks_found}))

    transport = httpx.MockTransport(answer)
    reader = ReaderClient("s", controller="http://controller", transport=transport, wait_ms=1000)
    try:
        _wait_for(reader, history)
        yield reader
    finally:
        reader.close()


def _wait_for(reader: ReaderClient, history: MarkHistory) -> None:
    last = history.mark(history.last_seq)
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        try:
            reader.cut_at(last.lower)
        except NotCompleteYet:
            time.sleep(0.05)
        else:
            return
    raise WrongResult(f"after {LONGEST_S:g} s the reader has not followed all marks")


def build_history(marks: int) -> MarkHistory:
    """Return a history where each mark raises some of the segments."""
    chance = random.Random(marks)  # noqa: S311 - the same history in every run
    history = MarkHistory()
    cut = dict.fromkeys(range(SEGMENTS), 0)
    for seq in range(1, marks + 1):
        for segment in chance.sample(range(SEGMENTS), SEGMENTS // 2):
            cut[segment] += chance.randrange(4 * STEP)
        history.append(Mark(seq, seq * 1000, seq * 1000 + 500, StreamCut(dict(cut)), seq))
    return history


def advancing(marks: int, positions: int) -> list[Position]:
    """Return the positions of a reader that advances from the middle."""
    begin = random.randrange(marks // 2)  # noqa: S311 - chance is no secret here
    return [somewhere(begin + 4 * step * marks // (10 * positions)) for step in range(positions)]


def somewhere(place: int) -> Position:
    """Return a position near that mark."""
    return {s: place * STEP + random.randrange(50 * STEP) for s in range(SEGMENTS)}  # noqa: S311


def _windows_us(reader: ReaderClient, positions: list[Position]) -> float:
    """Measure all with one reading of the clock, which takes as long as a search."""
    begun_ns = thread_time_ns()
    for position in positions:
        reader.advance(position)
    advanced_ns = thread_time_ns()
    windows = []
    for position in positions:
        reader.advance(position)
        windows.append(reader.get_time_window())
    took = thread_time_ns() - advanced_ns - (advanced_ns - begun_ns)
    bounded_count = sum(window.lower is not None for window in windows)
    if bounded_count < len(positions) // 2:
        raise WrongResult(f"of {len(positions)} positions only {bounded_count} reach a mark")
    return took / 1e3 / len(positions)


def _bisections_us(flat: array[int], offsets: list[int]) -> float:
    begun_ns = thread_time_ns()
    for offset in offsets:
        bisect_right(flat, offset, bisect_right(flat, offset) - 1)
    return (thread_time_ns() - begun_ns) / 1e3 / len(offsets)
