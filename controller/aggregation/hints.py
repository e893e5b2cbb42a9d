"""What looks wrong in the notes of a stream: two processes, times in seconds, no position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal

from controller.aggregation.draft import Moment
from controller.aggregation.stream import StreamState
from noted_time.reading import look_like_seconds, seconds_doubt

EXAMINED = 10_000
"""Maximum number of members that are examined, which takes 2 ms."""

NAMED = 10
"""Maximum number of hints of one stream."""


NO_POSITION = "never named a position: no cut covers what it writes."


@dataclass(frozen=True, slots=True)
class Hint:
    """A writer whose notes look wrong; `detail` says how, worded to follow the writer's name.

    Two processes noted under its name within the hour (`fenced`), its time is probably in
    `seconds`, or it noted times and never named a position (`no_position`).
    """

    writer: str
    hint: Literal["fenced", "seconds", "no_position"]
    detail: str


def hints(stream: StreamState, domain: str, now: Moment) -> list[Hint]:
    """Return what looks wrong in `domain`, of the members that joined first.

    The names under which two processes noted within the hour come first.
    """
    fenced = (Hint(each.writer, "fenced", each.detail) for each in stream.fences.shown(now.wall))
    return list(islice(chain(fenced, _doubts(stream, domain)), NAMED))


def _doubts(stream: StreamState, domain: str) -> Iterator[Hint]:
    are_unix_ms = stream.settings.are_unix_ms
    for track in islice(stream.aggregator.domains[domain].tracks(), EXAMINED):
        writer, time = track.member.writer, track.noted
        if time is None or track.member.state != "live":
            continue
        if are_unix_ms and look_like_seconds(time):
            yield Hint(writer, "seconds", f"noted {seconds_doubt(time)}")
        if not track.member.position:
            yield Hint(writer, "no_position", NO_POSITION)
