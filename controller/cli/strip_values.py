"""What a time strip shows, taken from the controller's answers: values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """One writer: what it noted, and how it stands to the watermark.

    `noted` is its time in the domain; moments are ms before or after the answer. `held_ms` is
    `None` for whoever does not hold the watermark; a holder without a timeout has no
    `times_out_ms`. `without` is the lower that the stream would have without the holder.
    """

    writer: str
    state: str
    noted: int | None
    heard_ms: int
    held_ms: int | None = None
    times_out_ms: int | None = None
    without: int | None = None


@dataclass(frozen=True, slots=True)
class Strip:
    """One domain of a stream at a moment: the watermark, who holds it, and each writer's bar.

    `now` is the moment of the answer in Unix ms, `states` counts all writers, of which `bars` are
    some, the longest holder first; `shown_domain` is empty where the stream has but one.
    """

    stream: str
    shown_domain: str
    now: int
    lower: int | None
    decision: str
    next_lower: int | None
    holders: int
    states: Mapping[str, int]
    bars: tuple[Bar, ...]

    @property
    def total(self) -> int:
        """How many writers the stream has."""
        return sum(self.states.values())

    @property
    def axis(self) -> tuple[int, int] | None:
        """Where the bars begin and end: at the watermark, and at the latest time that is shown.

        Before the first mark they begin at the earliest time; `None` where there is none at all.
        """
        times = [time for bar in self.bars for time in (bar.noted, bar.without) if time is not None]
        if self.lower is not None:
            times = [self.lower, *(time for time in times if time > self.lower)]
        return (min(times), max(times)) if times else None


def domain_of(stream: Json, domain: str | None) -> str:
    """Return the domain asked for, by default the only one or `default`, as for the controller."""
    domains: list[str] = stream["domains"]
    return domain or (domains[0] if len(domains) == 1 else "default")


def strip_of(stream: Json, explained: Json, writers: Json, domain: str) -> Strip:
    """Put the answers on a stream, its decision and its writers together."""
    now = writers["now"]
    waiting = {each["writer"]: each for each in explained["waiting_for"]}
    without = explained["lower_without"]
    return Strip(
        stream=stream["name"],
        shown_domain=domain if len(stream["domains"]) > 1 else "",
        now=now,
        lower=explained["lower"],
        decision=explained["decision"],
        next_lower=explained["next_lower"],
        holders=explained["holders"],
        states=writers["states"],
        bars=tuple(
            _bar(row, waiting.get(row["writer"]), without.get(row["writer"]), domain, now)
            for row in _holders_first(writers["writers"], waiting)
        ),
    )


def _holders_first(rows: list[Json], waiting: Mapping[str, Json]) -> list[Json]:
    """Return the rows in their order, those that hold this domain before the others."""
    order = {writer: number for number, writer in enumerate(waiting)}
    return sorted(rows, key=lambda row: order.get(row["writer"], len(order)))


def _bar(row: Json, waiting: Json | None, without: int | None, domain: str, now: int) -> Bar:
    held = waiting or {}
    return Bar(
        writer=row["writer"],
        state=row["state"],
        noted=row["times"].get(domain),
        heard_ms=max(0, now - row["noted_at"]),
        held_ms=held.get("held_for_ms"),
        times_out_ms=held.get("times_out_in_ms"),
        without=without,
    )
