"""The CPU time of the pure aggregator, by the number of members.

Members note in two ways. *In rounds*: all note in permuted order, then time advances once past all.
*In turn*: the member that holds time notes, and time advances at every note.
"""

from __future__ import annotations

import gc
import math
import random
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import thread_time_ns
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from noted_time.rules import Aggregator
from noted_time.values import Accepted, Note, StreamSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = (100, 10_000, 100_000)
SEGMENTS = 16
NOTES = 20_000
KEY = "default"


@dataclass(slots=True)
class Stream:
    """An aggregator with its members, and its cost in µs per call."""

    members: int
    aggregator: Aggregator = field(default_factory=lambda: Aggregator(StreamSettings()))
    times: list[int] = field(default_factory=list)
    in_rounds: list[float] = field(default_factory=list)
    in_turn: list[float] = field(default_factory=list)
    advances: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.times = list(range(self.members))
        for writer in range(self.members):
            self._take(self._note(writer))
        self._advance()

    def note_in_rounds(self, notes: int) -> None:
        """Measure a note with its share of the mark that follows, in rounds."""
        rounds = max(1, notes // self.members)
        rounds_of_notes = [self._round() for _ in range(rounds)]
        gc.freeze()  # a server's notes do not wait for the collector
        begun_ns = thread_time_ns()
        for notes_of_round in rounds_of_notes:
            for note in notes_of_round:
                self._take(note)
            self._advance()
        self.in_rounds.append((thread_time_ns() - begun_ns) / 1e3 / rounds / self.members)

    def note_in_turn(self, notes: int) -> None:
        """Measure a note and its advance separately, without the clock's own cost."""
        noting = advancing = reading = 0
        for _ in range(notes):
            (holder,) = self.aggregator.domains["default"].holding_back
            note = self._later(int(holder))
            begun_ns = thread_time_ns()
            self._take(note)
            noted_ns = thread_time_ns()
            self._advance()
            advanced_ns = thread_time_ns()
            reading += thread_time_ns() - advanced_ns
            noting += noted_ns - begun_ns
            advancing += advanced_ns - noted_ns
        self.in_turn.append((noting - reading) / 1e3 / notes)
        self.advances.append((advancing - reading) / 1e3 / notes)

    def _round(self) -> list[Note]:
        highest = max(self.times)
        order = random.sample(range(self.members), self.members)
        for place, writer in enumerate(order, start=1):
            self.times[writer] = highest + place
        return [self._note(writer) for writer in random.sample(order, self.members)]

    def _later(self, writer: int) -> Note:
        """Return a note of `writer` with a unique time, anywhere among the others.

        Times are multiples of the number of members, plus the writer's number.
        """
        ahead = 1 + random.randrange(2 * self.members)  # noqa: S311 - chance is no secret here
        step = self.times[writer] // self.members + ahead
        self.times[writer] = step * self.members + writer
        return self._note(writer)

    def _note(self, writer: int) -> Note:
        time = self.times[writer]
        position = {writer % SEGMENTS: time, (writer + 5) % SEGMENTS: time}
        return Note(str(writer), time, position, max_time=time)

    def _take(self, note: Note) -> None:
        if type(self.aggregator.note(note, 0)) is not Accepted:
            raise WrongResult(f"refused: {note}")

    def _advance(self) -> None:
        while self.aggregator.advance(KEY, now=0, written_at=0) is None:
            if self.aggregator.settle_members(KEY) and not self.aggregator.may_advance(KEY):
                raise WrongResult("time does not advance")


def measure(run: Run, sizes: tuple[int, ...] = SIZES, notes: int = NOTES) -> list[Figure]:
    run.say("members join")
    streams = [Stream(size) for size in sizes]
    with tune_collector():
        for stream in streams:
            stream.note_in_rounds(notes)  # the first round allocates memory
            stream.in_rounds.clear()
        for repeat in range(run.repeats(full=5, quick=2)):
            run.say(f"aggregation, repeat {repeat + 1}")
            for stream in streams:
                stream.note_in_rounds(notes)
        for _ in range(run.repeats(full=5, quick=2)):
            for stream in streams:
                stream.note_in_turn(notes // 4)
    smallest_stream, *larger_streams = streams
    figures: list[Figure] = []
    for stream in larger_streams:
        figures += _figures(stream, smallest_stream)
    return figures


@contextmanager
def tune_collector() -> Iterator[None]:
    """Let the collector run as in a server with loaded streams."""
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def _figures(stream: Stream, smallest: Stream) -> list[Figure]:
    growth = math.log(stream.members) / math.log(smallest.members)
    target = Target("ratio", "at most", round(growth, 2))
    measurements = (
        ("a note and its share of a mark", stream.in_rounds, smallest.in_rounds),
        ("a note when each is followed by a mark", stream.in_turn, smallest.in_turn),
        ("an advance when each note allows one", stream.advances, smallest.advances),
    )
    return [
        Figure(
            f"{subject}, {stream.members:,} members",
            "µs",
            Samples(tuple(ours)),
            Samples(tuple(floor)),
            f"{smallest.members} members",
            target,
        )
        for subject, ours, floor in measurements
    ]
