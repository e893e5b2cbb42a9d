"""Segments that are sealed and followed by others while writers continue: the truth about it."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.chaos.writers import ExcludedWriter, LoadWriter
from tests.support.honest import Log
from tests.trials.facts import Scaling, complete

SEGMENTS = 4
"""How many segments the writers of a stream share at first."""

UNUSED = 10**6
"""From here on segments are numbered that follow those of writers with segments of their own."""

OPEN = range(2, 7)
"""Number of open segments if all writers share them."""


def without_the_sealed(position: Mapping[int, int], scalings: Iterable[Scaling]) -> dict[int, int]:
    """Return the position without the segments that were sealed.

    >>> without_the_sealed({0: 5, 1: 4, 2: 1}, [Scaling({0: 5}, range(2, 3))])
    {1: 4, 2: 1}
    """
    sealed = {segment for scaling in scalings for segment in scaling.sealed}
    return {segment: end for segment, end in position.items() if segment not in sealed}


@dataclass(repr=False)
class ScaledStream(Log):
    """A stream under load, whose segments may be split and merged, and the truth about it.

    Writers share segments, or have one each. `rests` is how often one goes idle or leaves rather
    than write.

    `scalings` holds all of them in order, `heard_at` the moments at which some were acknowledged.
    Writers continue in the successors at once, whether or not any replica knows of it yet. The
    segments open to a writer are numbered without a gap.
    """

    name: str
    domains: tuple[str, ...] = ("default",)
    shared: bool = True
    rests: float = 0.02
    writers: list[LoadWriter] = field(default_factory=list)
    scalings: list[Scaling] = field(default_factory=list)
    heard_at: list[float] = field(default_factory=list)
    shared_now: range = range(SEGMENTS)
    unused: int = UNUSED
    kind: ClassVar[type[LoadWriter]] = LoadWriter

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def writer(self, chance: random.Random) -> LoadWriter:
        """Make a new writer."""
        number = len(self.writers)
        segments = self.shared_now if self.shared else range(number, number + 1)
        made = self.kind(name=f"w{number}", stream=self, segments=segments, chance=chance)
        self.writers.append(made)
        return made

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
        return self.scalings[: sum(at < before for at in self.heard_at)]

    def may_be_read(self, segment: int, read: Mapping[int, int]) -> bool:
        """Whether a reader at this position has read all that comes before the segment."""
        before = complete({segment: 0}, self.scalings)
        return all(read.get(each, 0) >= end for each, end in before.items())

    def _is_known(self, segment: int) -> bool:
        return any(segment in scaling.created for scaling in self.scalings) or any(
            segment in writer.acknowledged_position for writer in self.writers
        )

    def _go_on(self, writer: LoadWriter, scaling: Scaling, segments: range) -> None:
        self.scalings.append(scaling)
        self.unused = max(self.unused, scaling.created[-1] + 1)
        if self.shared:
            self.shared_now = segments
        for each in self.writers if self.shared else [writer]:
            each.segments = segments


@dataclass(repr=False)
class ExcludingStream(ScaledStream):
    """A stream of one domain, with some time between two marks, and `returning_writer` `exclude`.

    (If every note makes a mark, the lower in its answer may be the note's own time.)
    """

    kind = ExcludedWriter


SETTINGS: dict[str, dict[str, Any]] = {
    "flights": {"mark_interval_ms": 0},
    "trains": {"mark_interval_ms": 50},
    "ships": {"mark_interval_ms": 20, "domains": ["order", "arrival"]},
    "trams": {"mark_interval_ms": 200},
    "parcels": {"mark_interval_ms": 100, "domains": ["default", "delivery"]},
    "buses": {"mark_interval_ms": 0},
    "ferries": {"mark_interval_ms": 100, "returning_writer": "exclude"},
    "control": {"mark_interval_ms": 100},
}
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
    made = [
        ScaledStream("flights"),
        ScaledStream("trains", shared=False),
        ScaledStream("ships", ("order", "arrival")),
        ScaledStream("trams"),
        ScaledStream("parcels", ("default", "delivery"), shared=False),
        ScaledStream("buses", shared=False),
        ExcludingStream(EXCLUDING, rests=0.0),
        ScaledStream(CONTROL, rests=0.0),
    ]
    return {stream.name: stream for stream in made}
