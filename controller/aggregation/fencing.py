"""What a stream knows of the processes that note under one writer's name: two of them are a fault.

A fenced note proves that there are two. It is remembered for an hour and only in memory, as it
changes nothing. So are the takeovers of the last minute: many of them are a fight.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import asdict
from typing import NamedTuple

from controller.store.port import Change
from noted_time import Aggregator
from noted_time.values import Note, Session, format_time

SHOWN_MS = 3_600_000
"""How long a fenced note is shown."""

FENCED_SHOWN = 100
"""Maximum number of writers with a fenced note that are shown."""

MOST_RECORDED = 100
"""Maximum number of takeovers of a stream that are recorded within an hour."""

FIGHT_MS = 60_000
"""How long a takeover is counted."""

FIGHT_TAKEOVERS = 3
"""Minimum number of takeovers of one name in that time that is reported.

A rolling deployment takes a name over once, and once more if its process has to start again.
"""

TAKEOVERS_WATCHED = 1000
"""Maximum number of takeovers of a stream that are counted, the latest."""


class FencedProcess(NamedTuple):
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
        """What happened, worded to follow the writer's name."""
        older, younger = self.label or "one without a label", self.by or "one without a label"
        return (
            f"was noted by two processes: {younger} took the name over at "
            f"{format_time(self.since)}, and {older} last tried to note at {format_time(self.at)}."
        )


class Fences:
    """The fenced notes of one stream; `notes` counts them since the stream was read."""

    def __init__(self) -> None:
        self.notes = 0
        self._last: dict[str, FencedProcess] = {}
        self._recorded = deque[int](maxlen=MOST_RECORDED)
        self._taken = deque[tuple[str, int]](maxlen=TAKEOVERS_WATCHED)

    def refuse(self, note: Note, held: Session, at: int) -> None:
        """Remember a note that was fenced; of too many the oldest goes."""
        labels = {each.id: each.label for each in held.lost}
        label = labels.get(note.session or "") or note.label
        self.notes += 1
        self._last.pop(note.writer, None)
        found = FencedProcess(note.writer, label, held.label, held.since, at)
        self._last[note.writer] = found
        if len(self._last) > FENCED_SHOWN:
            del self._last[next(iter(self._last))]

    def list_recent(self, now: int) -> list[FencedProcess]:
        """Return the last fenced note of each writer within the hour, the latest first."""
        return [each for each in reversed(self._last.values()) if now - each.at < SHOWN_MS]

    def find_fights(self, now: int) -> Iterator[tuple[str, str]]:
        """Yield the names taken over again and again in the last minute, and what that means."""
        taken = Counter(writer for writer, at in self._taken if now - at < FIGHT_MS)
        for writer, times in taken.most_common():
            if times < FIGHT_TAKEOVERS:
                return
            fenced = self._last.get(writer)
            is_proof = fenced is not None and now - fenced.at < FIGHT_MS
            or_one = "" if is_proof else "its process restarts again and again, or "
            yield (
                writer,
                f"was taken over {times} times in a minute: {or_one}two processes use this name.",
            )

    def take_over(self, writer: str, at: int) -> bool:
        """Remember that a live process lost a name; returns whether that may be recorded."""
        self._taken.append((writer, at))
        if len(self._recorded) == MOST_RECORDED and at - self._recorded[0] < SHOWN_MS:
            return False
        self._recorded.append(at)
        return True


class Takeovers:
    """Which live processes of one stream lose their names by the notes of one request."""

    def __init__(self, aggregator: Aggregator) -> None:
        self._aggregator = aggregator
        self._before: dict[str, Session] = {}

    def watch(self, note: Note) -> None:
        """Remember which process has the writer's name, before a note that takes it over."""
        if note.writer in self._aggregator:
            member = self._aggregator.member(note.writer)
            if member.vouches and member.session.id not in {None, note.session}:
                self._before.setdefault(note.writer, member.session)

    def list_changes(self, stream_id: str, at: int, fences: Fences) -> list[Change]:
        """Return the changes to record, of the names that another process has now."""
        pairs = (
            (writer, before, self._aggregator.member(writer).session)
            for writer, before in self._before.items()
        )
        return [
            Change(stream_id, at, "taken_over", writer, asdict(before.held), asdict(after.held))
            for writer, before, after in pairs
            if after.id != before.id and fences.take_over(writer, at)
        ]
