"""Remembers writers whose notes are refused because their times are too far ahead.

A refused note changes nothing, so it is kept in memory only.
"""

from __future__ import annotations

from typing import NamedTuple

from noted_time.values import Note, Refused, format_time, pluralize

SHOWN_MS = 3_600_000

WRITERS_REMEMBERED = 100


class TimeRefusals(NamedTuple):
    """The refused notes of a writer since its last accepted time, and the reason of the last."""

    writer: str
    refused_count: int
    began_at: int
    refused_at: int
    reason: str

    @property
    def detail(self) -> str:
        notes = pluralize(self.refused_count, "note")
        began = format_time(self.began_at)
        last = format_time(self.refused_at)
        sentence = f"had {notes} refused since {began}, the last at {last}: {self.reason}"
        return sentence if sentence.endswith("?") else f"{sentence}."


class RefusedTimes:
    """The writers of one stream whose notes are refused for their times."""

    def __init__(self) -> None:
        self._refusals: dict[str, TimeRefusals] = {}

    def refuse(self, note: Note, refusal: Refused, refused_at: int) -> None:
        earlier = self._refusals.pop(note.writer, None)
        refused_count = 1
        began_at = refused_at
        if earlier is not None:
            refused_count += earlier.refused_count
            began_at = earlier.began_at
        self._refusals[note.writer] = TimeRefusals(
            note.writer, refused_count, began_at, refused_at, refusal.detail or ""
        )
        if len(self._refusals) > WRITERS_REMEMBERED:
            del self._refusals[next(iter(self._refusals))]

    def accept(self, note: Note) -> None:
        """Forget the refusals of a writer whose time is accepted."""
        if self._refusals and note.time is not None:
            self._refusals.pop(note.writer, None)

    def list_recent(self, now: int) -> list[TimeRefusals]:
        return [
            refusals
            for refusals in reversed(self._refusals.values())
            if now - refusals.refused_at < SHOWN_MS
        ]
