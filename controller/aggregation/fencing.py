"""What a stream knows of the processes that note under one writer's name: two of them are a fault.

A note that was fenced is the proof of it. That is remembered for an hour and in memory alone, as
such a note changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from controller.store.port import Change
from noted_time.fencing import Session
from noted_time.spelling import spelled
from noted_time.wire import session_to_wire

if TYPE_CHECKING:
    from controller.aggregation.draft import Moment
    from noted_time import Aggregator, Refused
    from noted_time.note import NoteLike

SHOWN_MS = 3_600_000
"""How long a fenced note is shown."""

MOST_SHOWN = 100
"""Maximum number of writers with a fenced note that are shown."""


class Fenced(NamedTuple):
    """The last note of a writer that was fenced: which process sent it, and which has the name.

    Both are named by the labels that they gave. `since` is when the younger took over and `at` when
    the note came, in Unix ms.
    """

    writer: str
    label: str
    by: str
    since: int
    at: int

    @property
    def detail(self) -> str:
        """What happened, to follow the name of the writer."""
        older, younger = self.label or "one without a label", self.by or "one without a label"
        return (
            f"is noted by two processes: {younger} has the name since {spelled(self.since)}, and "
            f"{older} was fenced at {spelled(self.at)}"
        )


class Fences:
    """The fenced notes of one stream; `notes` counts them since the stream was read."""

    def __init__(self) -> None:
        self.notes = 0
        self._last: dict[str, Fenced] = {}

    def refuse(self, note: NoteLike, refused: Refused, moment: Moment, shift: int) -> Refused:
        """Remember a fenced note; returns its answer with the moment in Unix ms."""
        held = refused.last
        assert isinstance(held, Session)  # noqa: S101 - what `fenced` always has
        held = replace(held, since=held.since + shift)
        labels = {each.id: each.label for each in held.lost}
        label = labels.get(note.session or "") or note.label
        self.notes += 1
        self._last.pop(note.writer, None)
        self._last[note.writer] = Fenced(note.writer, label, held.label, held.since, moment.wall)
        if len(self._last) > MOST_SHOWN:
            del self._last[next(iter(self._last))]
        return replace(refused, last=held)

    def shown(self, now: Moment) -> list[Fenced]:
        """Return the last fenced note of each writer within the hour, the latest first."""
        return [each for each in reversed(self._last.values()) if now.wall - each.at < SHOWN_MS]


class Takeovers:
    """Which live processes of one stream lose their names by the notes of one request."""

    def __init__(self, aggregator: Aggregator) -> None:
        self._aggregator = aggregator
        self._before: dict[str, Session] = {}

    def __bool__(self) -> bool:
        return bool(self._before)

    def watch(self, writer: str) -> None:
        """Remember who has the writer's name, before a note that takes it over."""
        if writer in self._aggregator:
            member = self._aggregator.member(writer)
            if member.vouches and member.session.id is not None:
                self._before.setdefault(writer, member.session)

    def changes(self, stream_id: str, moment: Moment, shift: int) -> list[Change]:
        """Return what is to be recorded of the names that another process has now."""
        pairs = (
            (writer, before, self._aggregator.member(writer).session)
            for writer, before in self._before.items()
        )
        return [
            Change(
                stream_id,
                moment.wall,
                "taken_over",
                writer,
                _dated(before, shift),
                _dated(after, shift),
            )
            for writer, before, after in pairs
            if after.id != before.id
        ]


def _dated(session: Session, shift: int) -> dict[str, object]:
    return session_to_wire(replace(session, since=session.since + shift))
