"""Requirements of a dataset, and the answer: complete to a time, or its lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from noted_time.open_enum import OpenEnum, list_names
from noted_time.progress import ReadOffsets
from noted_time.reading import Tiling
from noted_time.values import (
    MAX_INT64,
    Int64,
    Mark,
    Name,
    VouchedBy,
    format_in_zone,
    join_names,
    parse_zone,
)
from noted_time.verdict.words import describe_vouching

VerdictStatus = OpenEnum["complete", "waiting", "unknown", "incomplete"]
"""From the best to the worst. With `waiting`, later marks may complete the dataset."""

LackKind = OpenEnum[
    "no_mark",
    "time_not_reached",
    "not_read",
    "unknown_partition",
    "not_claimed",
    "not_vouching",
    "missing",
    "late",
    "open_stream",
    "unknown_writer",
    "claim_ended",
    "rows_deleted",
    "before_first_mark",
    "times_only",
    "ledger_too_short",
    "marks_expired",
    "not_asked",
    "since_unknown",
]

AWAITED_KINDS = ("missing", "not_vouching")
UNMET_KINDS = (*AWAITED_KINDS, "unknown_writer")
POLICY_KINDS = (*AWAITED_KINDS, "open_stream", "late")

_STATUS_ORDER = list_names(VerdictStatus)


class Requirement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a dataset must be complete, the writers that must vouch, and its reader.

    - `to`: all rows below this time (Unix ms) must be there. If null, the greatest such time is
      the answer, rounded down to a window of `floor_ms`, which are on the clock of the `zone`.
      One window starts at `origin` (ms after 1970-01-01T00:00 there).
    - `require`: these writers must vouch. With `require_all`, all that the stream expects must
      vouch, and with it or `require_known` no writer may be missing that had joined.
    - `from_time`: with `require_all` or `require_known`, no late rows may have known times from
      it on. It is refused without one of them.
    - `read`: how far the dataset has read the stream, if it is not the stream itself.
    - `wait_ms`: how long to wait for a time that is not complete yet.
    """

    to: Int64 | None = None
    domain: Name | None = None
    floor_ms: Annotated[int, Meta(ge=1, le=MAX_INT64)] = 1
    origin: Int64 = 0
    zone: Annotated[str, Meta(max_length=64)] = "UTC"
    require: Annotated[tuple[Name, ...], Meta(max_length=1000)] = ()
    require_all: bool = False
    require_known: bool = False
    from_time: Int64 | None = None
    read: ReadOffsets | None = None
    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0

    @property
    def tiling(self) -> Tiling:
        """The windows that times are rounded down to."""
        return Tiling(self.floor_ms, self.origin, parse_zone(self.zone))

    def format(self, time: int) -> str:
        return format_in_zone(time, parse_zone(self.zone))

    def show(self, time: int | None) -> str | None:
        """Return a time on the clock of the zone, `None` for UTC."""
        if time is None:
            return None
        return self.tiling.show(time)

    @property
    def names_writers(self) -> bool:
        """Whether the writers that vouch are part of the question."""
        return bool(self.require) or self.has_no_missing

    @property
    def has_no_missing(self) -> bool:
        """Whether no writer may be missing."""
        return self.require_all or self.require_known


class Lack(Struct, frozen=True, kw_only=True):
    """One thing that a dataset lacks below the time.

    - `status`: what this means for the answer. If it is `complete`, the lack is a remark.
    - `writer`: the writer that is missing or late, or the first that holds back the watermark.
    - `began_at`: when the writer began to be missing or to hold back the watermark (Unix ms).
    - `from_time`: the least time of late rows.
    - `to_time`: the time to which the writer vouches, or the greatest time of late rows.
    - `source`: the dataset that lacks it, if this is not the one in question.
    """

    kind: LackKind
    status: VerdictStatus
    sentence: str
    writer: str | None = None
    domain: str | None = None
    began_at: Int64 | None = None
    from_time: Int64 | None = None
    to_time: Int64 | None = None
    rows: int | None = None
    remedy: str = ""
    source: str | None = None


class AnsweringMark(Mark, frozen=True, kw_only=True):
    """The first mark that has all rows below the time; `logs` are the ids of its cut's logs."""

    logs: tuple[str, ...]


class Completeness(Struct, frozen=True, kw_only=True):
    """Whether a dataset is complete to a time, and its lacks.

    - `complete_to`: the greatest time (Unix ms) to which it is complete as required, or null.
    - `mark`: the first mark that has all rows below the time, or null.
    - `vouched`: the writers that vouch for the time.
    - `first_lower`: the lower of the domain's first mark. No writer vouches below it.
    - `sentence`, `remedy`: the answer in words, and what to do.
    - `version`: the first version of a table that is complete to the time, or null.
    - `complete_to_shown`: `complete_to` in ISO 8601 on the clock of the `zone` in the question, by
      the zone data that it was rounded by. It is null in UTC.
    """

    status: VerdictStatus
    complete_to: Int64 | None = None
    mark: AnsweringMark | None = None
    vouched: VouchedBy | None = None
    lacks: tuple[Lack, ...]
    sentence: str
    remedy: str
    sealed: bool = False
    first_lower: Int64 | None = None
    version: Int64 | None = None
    complete_to_shown: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the status is `complete`."""
        return self.status == "complete"

    @property
    def writers_clause(self) -> str:
        """The writers that vouch, and the missing ones that no other lack names."""
        writers_clause = ""
        if self.vouched is not None:
            writers_clause = describe_vouching(
                self.vouched, is_sealed=self.sealed, named_elsewhere=list_unmet_writers(self.lacks)
            )
        missing_sentences: list[str] = []
        for lack in self.lacks:
            if lack.status == "complete" and lack.kind == "missing":
                missing_sentences.append(lack.sentence)
        if not missing_sentences:
            return writers_clause
        return f"{writers_clause}, without {join_names(missing_sentences)}"


def find_worst(statuses: Iterable[VerdictStatus]) -> VerdictStatus:
    """Return the worst of several statuses, by default `complete`.

    >>> find_worst(["waiting", "incomplete", "unknown"]), find_worst([])
    ('incomplete', 'complete')
    """
    worst: VerdictStatus = max(statuses, key=_STATUS_ORDER.index, default="complete")
    return worst


def find_status(lacks: Iterable[Lack]) -> VerdictStatus:
    return find_worst(lack.status for lack in lacks)


def apply_policy(answer: Completeness, missing: str, late: str) -> Completeness:
    """Judge missing writers and late rows by a policy for each: wait, warn, accept or fail.

    With `wait`, writers that are missing or do not vouch are waited for. With `warn` and `accept`,
    they are a remark, and so is a stream without expected writers.
    """
    lacks: list[Lack] = []
    for lack in answer.lacks:
        policy = late if lack.kind == "late" else missing
        if lack.kind in POLICY_KINDS and policy in {"warn", "accept"}:
            lacks.append(replace(lack, status="complete"))
        elif lack.kind in AWAITED_KINDS and policy == "wait" and lack.status != "complete":
            lacks.append(replace(lack, status="waiting"))
        else:
            lacks.append(lack)
    return replace(answer, lacks=tuple(lacks), status=find_status(lacks))


def find_remedy(lacks: Iterable[Lack]) -> str:
    """Return the first remedy, or ""."""
    for lack in lacks:
        if lack.remedy:
            return lack.remedy
    return ""


def describe_objections(lacks: Iterable[Lack]) -> list[str]:
    """Return a sentence for each lack that is not only a remark, with its remedy."""
    sentences: list[str] = []
    for lack in lacks:
        if lack.status == "complete":
            continue
        if lack.remedy:
            sentences.append(f"{lack.sentence}: {lack.remedy}")
        else:
            sentences.append(lack.sentence)
    return sentences


def list_unmet_writers(lacks: Iterable[Lack]) -> set[str]:
    """Return the writers whose lacks say that they do not vouch."""
    writers = set[str]()
    for lack in lacks:
        if lack.writer is not None and lack.status != "complete" and lack.kind in UNMET_KINDS:
            writers.add(lack.writer)
    return writers


def name_source(lacks: Iterable[Lack], source: str) -> list[Lack]:
    return [replace(lack, source=source, sentence=f"{source}: {lack.sentence}") for lack in lacks]


def combine(answers_by_source: Mapping[str, Completeness]) -> Completeness:
    """Combine the answers for the sources of one dataset: it has what all of them have.

    >>> from functools import partial
    >>> of = partial(Completeness, status="complete", lacks=(), remedy="")
    >>> orders = of(complete_to=20, first_lower=3, sentence="to 20")
    >>> returns = of(complete_to=10, first_lower=4, sentence="to 10")
    >>> both = combine({"orders": orders, "returns": returns})
    >>> both.complete_to, both.first_lower, both.sentence
    (10, 4, 'to 20; to 10')
    """
    answers = list(answers_by_source.values())
    if len(answers) == 1:
        return answers[0]
    lacks: list[Lack] = []
    for source, answer in answers_by_source.items():
        lacks += name_source(answer.lacks, source)
    complete_to = None
    shown_time = None
    answers_with_time = [answer for answer in answers if answer.complete_to is not None]
    if len(answers_with_time) == len(answers):
        least_complete = min(answers_with_time, key=attrgetter("complete_to"))
        complete_to = least_complete.complete_to
        shown_time = least_complete.complete_to_shown
    first_lower = None
    first_lowers = [answer.first_lower for answer in answers if answer.first_lower is not None]
    if len(first_lowers) == len(answers):
        first_lower = max(first_lowers)
    return Completeness(
        status=find_worst(answer.status for answer in answers),
        complete_to=complete_to,
        complete_to_shown=shown_time,
        lacks=tuple(lacks),
        sentence="; ".join(answer.sentence for answer in answers),
        remedy=find_remedy(lacks),
        sealed=all(answer.sealed for answer in answers),
        first_lower=first_lower,
    )
