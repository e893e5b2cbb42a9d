"""Decodes the controller's answers to a reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from noted_time.answers import Cause
from noted_time.client import MISREAD_ERRORS, Json, read_value
from noted_time.client.decoding import SHOWN_CHARACTERS
from noted_time.open_enum import list_names
from noted_time.progress import BacklogState, Reason
from noted_time.values import Mark, ScaleEvent, Succession, UnexpectedAnswer

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class StreamReply:
    """A stream, as readers need it."""

    id: str
    domains: tuple[str, ...]
    scale_events: tuple[ScaleEvent, ...]
    marks: Mapping[str, Mark | None]
    reader_timeout_ms: int
    max_time_ahead_ms: int | None = None
    logs: tuple[str, ...] = ()

    @cached_property
    def succession(self) -> Succession:
        succession = Succession()
        for event in self.scale_events:
            # the controller has checked the event against segments that the answer lacks
            succession.scale(event, known=set(event.sealed))
        return succession

    @property
    def last_seqs(self) -> dict[str, int]:
        return {domain: last.seq if last else 0 for domain, last in self.marks.items()}

    @property
    def are_unix_ms(self) -> bool:
        return self.max_time_ahead_ms is not None


@dataclass(frozen=True, slots=True)
class GroupReply:
    """The position of a reader group, its online readers and its backlog."""

    position: Mapping[int, int]
    readers: Mapping[str, Mapping[int, int]]
    backlog: bool
    because: tuple[Cause, ...]
    since: int | None

    @property
    def state(self) -> BacklogState:
        reasons = {cause.reason for cause in self.because}
        because = tuple(reason for reason in list_names(Reason) if reason in reasons)
        return BacklogState(self.backlog, because, self.since)


def decode_answer(kind: Callable[..., Answer], wire: Json) -> Answer:
    """Decode an answer, or raise `UnexpectedAnswer`.

    >>> from noted_time.answers import MarksAnswer
    >>> decode_answer(MarksAnswer, {"stream_id": "a"})
    Traceback (most recent call last):
        ...
    noted_time.UnexpectedAnswer: an answer of another shape (Rejected: a MarksAnswer without ...
    """
    try:
        return read_value(kind, wire)
    except MISREAD_ERRORS as error:
        why = f"{type(error).__name__}: {error}"
        message = f"an answer of another shape ({why}): {str(wire)[:SHOWN_CHARACTERS]}"
        raise UnexpectedAnswer(message) from error
