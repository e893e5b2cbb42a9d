"""Derives ingestion time: when rows became visible in a log.

Rows visible at T are below ends that are read after T (PDP-26). After `max_lag_ms`, a note is due
even without new rows (PDP-26's idle advancer).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noted_time.values import INGESTION_NAME, Note, Recreated, Rejected, check_least, join_into

LEAST_POLL_MS = 10


@dataclass(slots=True)
class GrowingEnds:
    """The ends of a log's segments, which grow unless the log is recreated."""

    seen: dict[int, int] = field(default_factory=dict)
    log: str = "the log"

    def take(self, ends: Mapping[int, int]) -> dict[int, int]:
        """Return the ends above 0, or raise `Recreated` if an end went back."""
        nonzero = {segment: end for segment, end in ends.items() if end}
        for segment, end in self.seen.items():
            new_end = nonzero.get(segment, 0)
            if new_end < end:
                fact = f"segment {segment} ends at {new_end} and ended at {end} before"
                raise Recreated(self.log, fact)
        self.seen = nonzero
        return nonzero

    def reach(self, ends: Mapping[int, int]) -> None:
        ends_so_far = dict(self.seen)
        join_into(ends_so_far, ends)
        self.seen = ends_so_far


@dataclass(slots=True)
class IngestionNotes:
    """Computes the notes of a process that polls a log every `poll_ms`.

    `skew_ms` is subtracted, as the clock may be ahead of others.

    >>> notes = IngestionNotes(poll_ms=1000, max_lag_ms=10_000)
    >>> note = notes.due(5000, {0: 12})
    >>> note.time, note.position
    (5000, {0: 12})
    >>> notes.due(6000, {0: 12}) is None, notes.due(7000, {0: 13}).position
    (True, {0: 13})
    """

    poll_ms: int
    max_lag_ms: int
    skew_ms: int = 0
    domain: str = INGESTION_NAME
    ends: GrowingEnds = field(default_factory=GrowingEnds)
    _last: Note | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_least("poll_ms", self.poll_ms, LEAST_POLL_MS)
        if self.max_lag_ms < self.poll_ms:
            raise Rejected(
                f"max_lag_ms must be at least poll_ms ({self.poll_ms}), not {self.max_lag_ms}"
            )
        check_least("skew_ms", self.skew_ms, 0)

    def due(self, now: int, ends: Mapping[int, int]) -> Note | None:
        """Return the note of a poll at `now` (ms) that found these `ends`, if one is due.

        Raises `Recreated` if an end went back.
        """
        position = self.ends.take(ends)
        time = now - self.skew_ms
        last_note = self._last
        if last_note is not None and last_note.time is not None:
            if time < last_note.time:
                return None
            is_same_position = position == last_note.position
            if is_same_position and time - last_note.time < self.max_lag_ms:
                return None
        self._last = Note(INGESTION_NAME, time, position, self.domain)
        return self._last

    def silence_ms(self) -> int:
        """Return the longest normal silence, which the writer's timeout must exceed."""
        return self.max_lag_ms + self.poll_ms
