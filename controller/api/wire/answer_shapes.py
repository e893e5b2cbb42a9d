"""The answers that differ from the values that they are made of; the others are those values.

OpenAPI shows both as they are declared, see `replies.shape`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self, TypeVar, get_type_hints

import msgspec

from controller.aggregation.shown.segments import SegmentRow
from controller.store.port import Action, StreamSummary
from noted_time import Mark, ScaleEvent, StreamSettings
from noted_time.values import Absence, LateReport

A = TypeVar("A")


@cache
def _names(answer: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(get_type_hints(answer))


def made_of(answer: Callable[..., A], value: object, **more: object) -> A:
    """Return an answer with these fields, and its others as the value has them.

    >>> from noted_time import Waiting
    >>> made_of(Waiting, Waiting("UA", 5, 20, 80), time=None)
    Waiting(writer='UA', time=None, held_for_ms=20, times_out_in_ms=80)
    """
    names = _names(answer)
    return answer(**{name: getattr(value, name) for name in names if name not in more}, **more)


class SealAnswer(msgspec.Struct):
    """When (Unix ms) a stream was sealed, and its final cut."""

    at: int
    cut: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class StreamAnswer(StreamSettings):
    """A stream: its creation id, settings, last mark per domain, scale events, and its seal.

    `logs` are the ids of the logs that its positions are of, the present one last.
    """

    name: str
    id: str
    marks: Mapping[str, Mark | None]
    scale_events: Sequence[ScaleEvent]
    seal: SealAnswer | None
    logs: Sequence[str]

    def __post_init__(self) -> None:
        """Check nothing: the settings were checked when they were made."""

    @classmethod
    def of(cls, summary: StreamSummary, **more: Any) -> Self:  # noqa: ANN401 - further fields
        """Return the answer of a stream."""
        record = summary.record
        return made_of(
            cls,
            record.settings,
            name=record.name,
            id=record.id,
            marks={each: summary.last_marks.get(each) for each in record.settings.domains},
            scale_events=summary.scales,
            seal=record.seal and SealAnswer(record.seal.at, record.seal.final_cut),
            logs=record.logs,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class DroppedAnswer(StreamAnswer):
    """The stream; how many marks of each domain were dropped, or would be."""

    dropped: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class TruncatedAnswer(DroppedAnswer):
    """`beyond` says that the cut is beyond the last mark of some domain."""

    beyond: bool


@dataclass(frozen=True, kw_only=True)
class SealedAnswer(StreamAnswer):
    """The stream; `never_noted` has members that joined and noted no time, at most 1000."""

    never_noted: Sequence[str]


class StreamsPage(msgspec.Struct):
    """A page of streams by name; `next` is the `after` of the next page."""

    streams: Sequence[StreamAnswer]
    next: str | None


class EntryAnswer(msgspec.Struct, rename={"from_lower": "from", "to_lower": "to"}):
    """One mark of the ledger, `at` in Unix ms; `by` is who removed a writer.

    `returned` names the writers that are missing no longer as of this mark.
    """

    seq: int
    at: int
    from_lower: int | None
    to_lower: int
    writers: Sequence[Absence]
    by: str | None
    returned: Sequence[str]


class LedgerPage(msgspec.Struct):
    """A page of the ledger by seq; `next` is the `after` of the next page, in the same order.

    `late` has the rows written below the lower, merged by writer and by hours, the last reported
    first: at most 100 of `late_count`.
    """

    entries: Sequence[EntryAnswer]
    next: int | None
    late: Sequence[LateReport]
    late_count: int


class ChangeAnswer(msgspec.Struct, rename={"became": "is"}):
    """A change of an operator, `at` in Unix ms: `by` whom, and the reason if one was given.

    For changed settings, `was` and `is` have those that changed.
    """

    number: int
    at: int
    action: Action
    writer: str | None
    was: Mapping[str, Any] | None
    became: Mapping[str, Any] | None
    by: str | None
    comment: str | None


class ChangesPage(msgspec.Struct):
    """A page of the changes, the newest first; `next` is the `before` of the next page."""

    changes: Sequence[ChangeAnswer]
    next: int | None


class SegmentsPage(msgspec.Struct):
    """A page of segments by number; `next` is the `start` of the next page."""

    now: int
    segments: Sequence[SegmentRow]
    next: int | None


class ControllerAnswer(msgspec.Struct):
    """A controller of the database: where others reach it, its version, the revision of its tables.

    The version is null if noted-time is not installed. It connected at `since` (Unix ms), which is
    null for the only controller of a file.
    """

    url: str
    version: str | None
    revision: str
    since: int | None
    buckets: int


class ControllersAnswer(msgspec.Struct):
    """The controllers that share the database, by their URLs.

    `risk` says why what was acknowledged may be lost, by a power cut or as the database is damaged,
    and the remedy; else it is null.
    """

    controllers: Sequence[ControllerAnswer]
    risk: str | None


class AccessAnswer(msgspec.Struct):
    """Whether tokens are required, the id of the one that was shown, and what it permits.

    `read`, `write` and `writers` are the patterns of names to which it is narrowed; who may
    `administer` needs none. `version` is that of the controller.
    """

    version: str
    tokens: bool
    token: str | None
    administer: bool
    read_all: bool
    read: Sequence[str]
    write: Sequence[str]
    writers: Sequence[str]
