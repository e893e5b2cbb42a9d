"""Streams under load, whose segments are split and merged, and writers that keep promises."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from noted_time.client import Json
from noted_time.values.settings import ReturningWriter
from tests.support.honest import HonestWriter, Log
from tests.trials.facts import Scaling, complete

SEGMENTS = 4
"""How many segments the writers of a stream share at first."""

UNUSED = 10**6
"""From here on segments are numbered that follow those of writers with segments of their own."""

OPEN = range(2, 7)
"""Number of open segments if all writers share them."""

WRITER_TIMEOUT_S = 6.0
"""Longer than a writer needs to retry."""


def without_the_sealed(position: Mapping[int, int], scalings: Iterable[Scaling]) -> dict[int, int]:
    """Return the position without the segments that were sealed.

    >>> without_the_sealed({0: 5, 1: 4, 2: 1}, [Scaling({0: 5}, range(2, 3))])
    {1: 4, 2: 1}
    """
    sealed_segments = set[int]()
    for scaling in scalings:
        sealed_segments.update(scaling.sealed)
    return {segment: end for segment, end in position.items() if segment not in sealed_segments}


@dataclass(repr=False)
class ScaledStream(Log):
    """A stream under load, whose segments may be split and merged, and the truth about it.

    Writers share segments, or have one each. `rests` is how often one goes idle or leaves rather
    than write. A stream that excludes returning writers has some time between two marks: if every
    note makes a mark, the lower in its answer may be the note's own time.

    `scalings` holds all of them in order, `heard_at` the moments at which some were acknowledged.
    Writers continue in the successors at once, whether or not any replica knows of it yet. The
    segments open to a writer are numbered without a gap.
    """

    name: str
    domains: tuple[str, ...] = ("default",)
    shared: bool = True
    mark_interval_ms: int = 0
    returning_writer: ReturningWriter = "wait"
    rests: float = 0.02
    writers: list[LoadWriter] = field(default_factory=list)
    scalings: list[Scaling] = field(default_factory=list)
    heard_at: list[float] = field(default_factory=list)
    shared_now: range = range(SEGMENTS)
    unused: int = UNUSED

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def writer(self, chance: random.Random) -> LoadWriter:
        """Make a new writer."""
        number = len(self.writers)
        segments = self.shared_now if self.shared else range(number, number + 1)
        kind = LoadWriter if self.returning_writer == "wait" else ExcludedWriter
        new_writer = kind(name=f"w{number}", stream=self, segments=segments, chance=chance)
        self.writers.append(new_writer)
        return new_writer

    def scale(self, chance: random.Random) -> Scaling | None:
        """Seal the first segments of a writer; it continues in as many, more or fewer others.

        Returns `None` if no replica can know of them yet, as no note that named them was answered.
        """
        writer = chance.choice(self.writers)
        before = writer.segments
        count = chance.choice((1, 2)) if self.shared else len(before)
        if not all(self._is_known(segment) for segment in before[:count]):
            return None
        sizes = [n for n in (1, 2) if not self.shared or len(before) - count + n in OPEN]
        first = before.stop if self.shared else self.unused
        scaling = Scaling(
            {segment: self.ends[segment] for segment in before[:count]},
            range(first, first + chance.choice(sizes)),
        )
        self._go_on(writer, scaling, range((*before[count:], first)[0], scaling.created[-1] + 1))
        return scaling

    def list_known(self, before: float) -> list[Scaling]:
        """Return the scalings that were acknowledged before that moment."""
        return self.scalings[: sum(heard_at < before for heard_at in self.heard_at)]

    def may_be_read(self, segment: int, read_offsets: Mapping[int, int]) -> bool:
        """Whether a reader at this position has read all that comes before the segment."""
        before = complete({segment: 0}, self.scalings)
        return all(read_offsets.get(predecessor, 0) >= end for predecessor, end in before.items())

    def _is_known(self, segment: int) -> bool:
        return any(segment in scaling.created for scaling in self.scalings) or any(
            segment in writer.acknowledged_position for writer in self.writers
        )

    def _go_on(self, writer: LoadWriter, scaling: Scaling, segments: range) -> None:
        self.scalings.append(scaling)
        self.unused = max(self.unused, scaling.created[-1] + 1)
        if self.shared:
            self.shared_now = segments
        for writer_of_segment in self.writers if self.shared else [writer]:
            writer_of_segment.segments = segments


LEAVES = 0.2
"""How often a writer leaves rather than go idle."""


@dataclass(kw_only=True)
class LoadWriter(HonestWriter):
    """One writer that writes only what its notes leave open.

    A 200 confirmed the promises in `acknowledged`. It writes while a live note is acknowledged
    and no note that ends this is sent. Unless it `is_settled`, it stays live or idle.
    """

    stream: ScaledStream
    segments: range
    chance: random.Random
    acknowledged: dict[str, int] = field(default_factory=dict)
    acknowledged_position: dict[int, int] = field(default_factory=dict)
    lowers: dict[str, int] = field(default_factory=dict)
    state: str = "new"
    is_settled: bool = True

    def next_notes(self) -> list[Json]:
        """Write some events if that is allowed, then return the note about them."""
        if self.state == "idle" and not self.is_settled:
            return []
        if self.state != "live":  # the answers give since when it may write, for each domain
            return [self._note(domain, None) for domain in self.stream.domains]
        if self.chance.random() < self.stream.rests and self.is_settled:
            return [self._rest()]
        for _ in range(self.chance.randrange(4)):
            self._write_some()
        domain = self.chance.choice(self.stream.domains)
        return [self._note(domain, self._next_time(domain))]

    def last_notes(self, time: int) -> list[Json]:
        """Return the note of a live writer that will write nothing below that time."""
        return [self._note(domain, time) for domain in self.stream.domains]

    def take_answer(self, note: Json, result: Json) -> None:
        """Take in that the note is durable; raises `AssertionError` if it was refused."""
        assert result["status"] == "accepted", (note, result)
        domain = note["domain"]
        lower = result["lower"]
        if lower is not None:
            self.lowers[domain] = max(lower, self.lowers.get(domain, lower))
        if "time" in note:
            self.acknowledged[domain] = note["time"]
        self.acknowledged_position.update({int(s): end for s, end in note["position"].items()})
        self.state = note["state"]

    def _write_some(self) -> None:
        times = {
            domain: self._floor(domain) + self.chance.randrange(300)
            for domain in self.stream.domains
        }
        self.write(self.stream, self.chance.choice(self.segments), times)

    def _floor(self, domain: str) -> int:
        return max(self.promised.get(domain, 0), self.lowers.get(domain, 0))

    def _next_time(self, domain: str) -> int:
        return max(self._floor(domain), time.time_ns() // 1_000_000 - self.chance.randrange(100))

    def _rest(self) -> Json:
        """Go idle, or leave and never come back."""
        state = "finished" if self.chance.random() < LEAVES else "idle"
        self.state = state
        return self._note(self.stream.domains[0], None) | {"state": state}

    def _note(self, domain: str, time: int | None) -> Json:
        position = {str(segment): end for segment, end in self.position.items()}
        note: Json = {"writer": self.name, "domain": domain, "position": position, "state": "live"}
        if time is not None:
            note["time"] = self.promised[domain] = time
        if domain in self.largest:
            note["max_time"] = self.largest[domain]
        return note


@dataclass(kw_only=True)
class ExcludedWriter(LoadWriter):
    """A writer that is not waited for by joining: it has to note a time above the lower.

    So it writes nothing before an answer confirms that it did. Every note has a time, as the answer
    to one without might have a lower that has passed the writer.
    """

    is_counted: bool = False

    def next_notes(self) -> list[Json]:
        """Write and note if time waits for it, else note what may bring it back."""
        if self.state == "live" and self.is_counted:
            return super().next_notes()
        return [self._note(domain, self._next_time(domain)) for domain in self.stream.domains]

    def take_answer(self, note: Json, result: Json) -> None:
        """Take in that the note is durable, and whether time waits for its writer from there."""
        super().take_answer(note, result)
        lower = result["lower"]
        self.is_counted = "time" in note and (lower is None or note["time"] > lower)


CONTROL = "control"
"""The stream of a writer that falls silent; time stands there until it is excluded."""
EXCLUDING = "ferries"
"""The stream that advances without a returning writer."""
SCALED = ("flights", "ships", "buses")
"""The streams whose segments are split and merged."""
TRUNCATED = ("flights", "trains", "ships")
"""The streams whose marks are dropped once readers have passed them."""
SEALED = "parcels"
"""The stream that is sealed in the end."""
UNNUMBERED = "trams"
"""The stream whose writers do not number their requests, as other clients may not either."""


def streams() -> dict[str, ScaledStream]:
    """Return the streams: some with two domains, some whose writers share segments."""
    streams = [
        ScaledStream("flights"),
        ScaledStream("trains", shared=False, mark_interval_ms=50),
        ScaledStream("ships", ("order", "arrival"), mark_interval_ms=20),
        ScaledStream("trams", mark_interval_ms=200),
        ScaledStream("parcels", ("default", "delivery"), shared=False, mark_interval_ms=100),
        ScaledStream("buses", shared=False),
        ScaledStream(EXCLUDING, rests=0.0, mark_interval_ms=100, returning_writer="exclude"),
        ScaledStream(CONTROL, rests=0.0, mark_interval_ms=100),
    ]
    return {stream.name: stream for stream in streams}
