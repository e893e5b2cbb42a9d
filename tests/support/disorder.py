"""Events that are written long after their time, by writers that keep their promise."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from tests.support.noted_stream import NotedStream

Row = tuple[int, str]


@dataclass(frozen=True)
class Step:
    """An append of rows to a segment and a note after it."""

    writer: str
    segment: int
    rows: tuple[Row, ...]
    time: int


def disorder(
    seed: int, *, writers: int = 3, events: int = 60, span_ms: int = 20_000, delay_ms: int = 8_000
) -> list[Step]:
    """Return steps in order; every event has its own name.

    Each event is written up to `delay_ms` after its time. A writer notes the earliest time that it
    has not written yet. Its last note is `delay_ms` after the span.
    """
    chance = random.Random(seed)
    steps: list[tuple[int, Step]] = []
    for index in range(writers):
        times = sorted(chance.randrange(span_ms) for _ in range(events))
        rows = [(time, f"{index}-{number}") for number, time in enumerate(times)]
        timed_rows = sorted((row[0] + chance.randrange(delay_ms), row) for row in rows)
        for first in range(0, events, 5):
            noted_at = timed_rows[min(first + 4, events - 1)][0]
            waiting = [row[0] for _, row in timed_rows[first + 5 :]]
            now = tuple(row for _, row in timed_rows[first : first + 5])
            time = min(waiting, default=span_ms + delay_ms)
            steps.append((noted_at, Step(f"w{index}", index % 2, now, time)))
    steps.sort(key=itemgetter(0))
    return [step for _, step in steps]


def replay(stream: NotedStream, steps: Sequence[Step]) -> None:
    """Let the writers write and note, from the first step on or from any later one."""
    stream.join(*sorted({step.writer for step in steps}))
    for step in steps:
        stream.append(step.segment, *step.rows, writer=step.writer)
        stream.note(step.time, step.writer)
