"""Remembers rejected notes and takeovers that show two processes under one writer's name.

A fenced note changes nothing, so it is kept in memory only.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import asdict

from controller.store.records import Change
from noted_time.rules import Aggregator
from noted_time.values import Note, Session, format_time

SHOWN_MS = 3_600_000

FENCED_SHOWN = 100

MOST_RECORDED = 100

FIGHT_MS = 60_000

FIGHT_TAKEOVERS = 3  # a rolling deployment takes a name over once, or twice with a restart

TAKEOVERS_WATCHED = 1000


class FencedProcess(NamedTuple):
    """The last fenced note of a writer, sent by the process `label` while `by` has the name."""

    writer: str
    label: str
    by: str
    began_at: int
    noted_at: int

    @property
    def detail(self) -> str:
        older = self.label or "one without a label"
        younger = self.by or "one without a label"
        began = format_time(self.began_at)
        last_try = format_time(self.noted_at)
        return (
            f"was noted by two processes: {younger} took the name over at {began}, and {older} "
            f"last tried to note at {last_try}."
        )


class Fences:
    """The fenced notes and takeovers of one stream."""

    def __init__(self) -> None:
        self.notes = 0
        self._last: dict[str, FencedProcess] = {}
        self._recorded = deque[int](maxlen=MOST_RECORDED)
        self._takeovers = deque[tuple[str, int]](maxlen=TAKEOVERS_WATCHED)

    def refuse(self, note: Note, owner: Session, refused_at: int) -> None:
        labels = {process.id: process.label for process in owner.lost}
        label = labels.get(note.session or "") or note.label
        self.notes += 1
        self._last.pop(note.writer, None)
        self._last[note.writer] = FencedProcess(
            note.writer, label, owner.label, owner.began_at, refused_at
        )
        if len(self._last) > FENCED_SHOWN:
            del self._last[next(iter(self._last))]

    def list_recent(self, now: int) -> list[FencedProcess]:
        return [
            process
            for process in reversed(self._last.values())
            if now - process.noted_at < SHOWN_MS
        ]

    def find_fights(self, now: int) -> Iterator[tuple[str, str]]:
        counts = Counter(
            writer for writer, taken_over_at in self._takeovers if now - taken_over_at < FIGHT_MS
        )
        for writer, count in counts.most_common():
            if count < FIGHT_TAKEOVERS:
                return
            fenced_process = self._last.get(writer)
            is_proof = fenced_process is not None and now - fenced_process.noted_at < FIGHT_MS
            cause = "" if is_proof else "its process restarts again and again, or "
            yield (
                writer,
                f"was taken over {count} times in a minute: {cause}two processes use this name.",
            )

    def take_over(self, writer: str, taken_over_at: int) -> bool:
        """Return whether to record that a live process lost its name."""
        self._takeovers.append((writer, taken_over_at))
        if len(self._recorded) == MOST_RECORDED and taken_over_at - self._recorded[0] < SHOWN_MS:
            return False
        self._recorded.append(taken_over_at)
        return True


class Takeovers:
    """The live processes that lose their names through one request."""

    def __init__(self, aggregator: Aggregator) -> None:
        self._aggregator = aggregator
        self._before: dict[str, Session] = {}

    def watch(self, note: Note) -> None:
        """Remember the name's process, before the note is accepted."""
        if note.writer in self._aggregator:
            member = self._aggregator.member(note.writer)
            if member.is_active and member.session.id not in {None, note.session}:
                self._before.setdefault(note.writer, member.session)

    def list_changes(
        self, stream_id: str, changed_at: int, served_ms: int, fences: Fences
    ) -> list[Change]:
        if not self._before:  # almost always
            return []
        changes = []
        for writer, old_session in self._before.items():
            session = self._aggregator.member(writer).session
            if session.id == old_session.id or not fences.take_over(writer, changed_at):
                continue
            old_values = asdict(old_session.current)
            new_values = asdict(session.current)
            changes.append(
                Change(
                    stream_id, changed_at, served_ms, "taken_over", writer, old_values, new_values
                )
            )
        return changes
