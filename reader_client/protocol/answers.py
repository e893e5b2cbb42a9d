"""The parts of the controller's answers that a reader needs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from noted_time.answers import Cause, SealAnswer
from noted_time.open_enum import list_names
from noted_time.progress import BacklogState, Reason
from noted_time.values import Int64, Mark, Offset, ScaleEvent, StatedForm, Succession


class StreamReply(Struct, frozen=True, kw_only=True):
    """A stream, as readers need it."""

    id: str
    domains: tuple[str, ...]
    scale_events: tuple[ScaleEvent, ...]
    marks: Mapping[str, Mark | None]
    reader_timeout_ms: Int64
    writer_retention_ms: Int64
    max_time_ahead_ms: Int64 | None
    seal: SealAnswer | None
    logs: tuple[str, ...]
    event_time_forms: Mapping[str, tuple[StatedForm, ...]] = {}

    def build_succession(self) -> Succession:
        succession = Succession()
        for event in self.scale_events:
            # the controller has checked the event against segments that the answer lacks
            succession.scale(event, known_segments=set(event.sealed))
        return succession

    @property
    def last_seqs(self) -> dict[str, int]:
        seqs = dict.fromkeys(self.marks, 0)
        for domain, last_mark in self.marks.items():
            if last_mark is not None:
                seqs[domain] = last_mark.seq
        return seqs

    @property
    def are_unix_ms(self) -> bool:
        return self.max_time_ahead_ms is not None


class GroupReply(Struct, frozen=True):
    """The position of a reader group, its online readers and its backlog."""

    position: Mapping[Offset, Offset]
    readers: Mapping[str, Mapping[Offset, Offset]]
    backlog: bool
    backlog_causes: tuple[Cause, ...]
    backlog_began_at: Int64 | None

    @property
    def state(self) -> BacklogState:
        reasons = {cause.reason for cause in self.backlog_causes}
        because = tuple(reason for reason in list_names(Reason) if reason in reasons)
        return BacklogState(self.backlog, because, self.backlog_began_at)
