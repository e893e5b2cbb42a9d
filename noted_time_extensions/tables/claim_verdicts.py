"""Judges a table by the claims in its commits, and by the answers of their streams."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from noted_time.extending import (
    MIN_INT64,
    Completeness,
    Lack,
    LackKind,
    LateReport,
    ReadOffsets,
    Rejected,
    Requirement,
    VerdictStatus,
    describe_first_mark,
    describe_objections,
    describe_open,
    find_remedy,
    find_status,
    name_program,
    name_source,
)
from noted_time_extensions.tables.claim import (
    VOUCHED_FIELDS,
    Claim,
    ClaimSource,
    find_least,
    shift_bound,
)
from noted_time_extensions.tables.table_history import NoClaim, TableClaim

NOT_ASKED = (
    "who vouches is not known, as no controller was asked: name one (--url, noted_time_conn_id=), "
    'or take the table as it is (missing="accept")'
)

NO_STREAM = (
    "who vouches is not known, as the claim of {} names no stream: take the table as it is, "
    'without required writers (missing="accept")'
)

MARKS_NOT_KEPT = (
    "who vouches is not known, as the claim does not say which marks of {} its job has read: run "
    "the job and `{} claim inherit` again"
)

ACCEPT_EXPIRED = (
    'take the table as it is, without required writers (missing="accept"); marks are kept for '
    "longer with `{} stream set {} --mark-retention …`"
)

LATE_ROWS_LOST = (
    "its query has state, which drops late rows: repair the windows, then pass "
    "TableClaims(keeps_late_rows=True), or do not require {}"
)

LATE_ROWS_UNKNOWN = (
    "the claim does not say whether its query keeps late rows: claim again, or pass "
    "TableClaims(keeps_late_rows=True) if it does"
)

INCOMPLETE_KINDS = frozenset(("not_claimed", "before_first_mark", "rows_deleted"))
"""With a lack of these kinds, the table lacks rows below the time that was asked."""

Answers = Mapping[ClaimSource, Completeness | Lack]


def list_asked_sources(claim: TableClaim, requirement: Requirement) -> list[ClaimSource] | None:
    """Return the sources of claims whose streams must say who vouches.

    The counts in a claim are not enough: they do not name a writer that joined later with older
    rows. Returns `None` if a claim has no stream.

    >>> web = Claim("a", 5, stream="web", domain="ship", missing_writers=())
    >>> list_asked_sources(TableClaim(5, 1, {"a": web}), Requirement(require_known=True))
    [ClaimSource(stream='web', domain='ship', lag_ms=0, at_most=5)]
    >>> list_asked_sources(TableClaim(5, 1, {"a": web}), Requirement())
    []
    """
    if not requirement.names_writers:
        return []
    if not all(record.stream for record in claim.claims.values()):
        return None
    return claim.list_sources()


def ask_source(source: ClaimSource, requirement: Requirement) -> Requirement:
    """Return the question to a source's stream, whose marks the claim has up to `at_most`."""
    return replace(
        requirement,
        to=None if requirement.to is None else requirement.to + source.lag_ms,
        domain=source.domain,
        read=ReadOffsets(at_most=source.at_most),
        from_time=None,
        wait_ms=0,
    )


def describe_marks_not_kept(source: ClaimSource) -> Lack:
    sentence = MARKS_NOT_KEPT.format(source.stream, name_program())
    return Lack(kind="not_asked", status="unknown", sentence=sentence)


def can_use_counts(
    claim: TableClaim, source: ClaimSource, requirement: Requirement, answer: Completeness
) -> bool:
    """Return whether the claims show that all expected writers vouched at marks that have expired.

    The stream must still expect as many writers. It then only has to know of no latecomer.
    """
    if not requirement.require_all or requirement.require or answer.vouched is None:
        return False
    if not any(lack.kind == "marks_expired" for lack in answer.lacks):
        return False
    for record in claim.claims.values():
        streams = {record_source.stream for record_source in record.sources}
        if source.stream in streams and not _has_all_expected(record, answer.vouched.expected):
            return False
    return True


def _has_all_expected(claim: Claim, expected: int) -> bool:
    if len(claim.sources) > 1 or claim.missing_writers != () or not claim.vouched:
        return False
    return 0 < expected == claim.vouched["expected"] == claim.vouched["expected_vouching"]


def list_late_writers(
    claim: TableClaim, requirement: Requirement, answer: Completeness, *, is_later: bool
) -> set[str]:
    """Return the writers whose late rows the table may lack, although they are required.

    Rows that come late to a query with state are lost there. `is_later` says that an earlier
    version had the time and lacked a writer. If no writer may be missing, its rows came late, too.
    """
    if claim.keeps_late_rows:
        return set()
    late_writers = {lack.writer for lack in answer.lacks if lack.kind == "late" and lack.writer}
    if is_later and requirement.has_no_missing:
        return late_writers
    return late_writers.intersection(requirement.require)


def find_reported_writers(
    names: Collection[str], reports: Sequence[LateReport], count: int, to: int, written_at: int
) -> set[str]:
    """Return which writers had reported rows below a time before the claim's mark was written.

    `reports` are the newest ones of `count`. If there are more, all writers may have reported such.

    >>> report = LateReport("pos", 3, 5, 8, first_seen_at=100, last_seen_at=100)
    >>> [find_reported_writers({"pos"}, [report], 1, to, at) for to, at in ((6, 99), (5, 100))]
    [set(), set()]
    >>> find_reported_writers({"pos"}, [report], 1, 6, 100)
    {'pos'}
    """
    if count > len(reports):
        return {*names}
    return {
        report.writer
        for report in reports
        if report.writer in names and report.first < to and report.first_seen_at <= written_at
    }


def refuse_late_rows(
    claim: TableClaim, answer: Completeness, writers: Collection[str]
) -> Completeness:
    """Return the answer of a stream, as the table lacks the late rows of writers."""
    lacks = []
    for lack in answer.lacks:
        if lack.kind != "late" or lack.writer not in writers:
            lacks.append(lack)
        elif claim.keeps_late_rows is None:
            lacks.append(replace(lack, status="unknown", remedy=LATE_ROWS_UNKNOWN))
        else:
            remedy = LATE_ROWS_LOST.format(lack.writer)
            lacks.append(replace(lack, status="incomplete", remedy=remedy))
    complete_to = None if writers else answer.complete_to
    return replace(answer, lacks=tuple(lacks), complete_to=complete_to)


def judge_no_claim(table: str, no_claim: NoClaim) -> Completeness:
    sentence = f"nothing is claimed of {table}: {no_claim.why}"
    if no_claim.kind == "ambiguous":
        raise Rejected(sentence)
    status: VerdictStatus = "incomplete" if no_claim.kind == "claim_ended" else "waiting"
    lack = Lack(kind=no_claim.kind, status=status, sentence=sentence)
    return Completeness(status=status, lacks=(lack,), sentence=sentence, remedy="")


def judge_claim(
    table: str, claim: TableClaim, time: int, requirement: Requirement, answers: Answers | None
) -> Completeness:
    """Judge a table by its claim. `answers` come from the sources, `None` if not asked."""
    lacks = [*_list_objections(claim, requirement)]
    if answers is None:
        answers = {}
        lacks.append(_describe_not_asked(claim))
    times: list[int | None] = [None]
    if find_status(lacks) == "complete":
        times = [requirement.tiling.start_of(claim.complete_to)]
    asked_streams = ""
    for source, answer in answers.items():
        if isinstance(answer, Lack):
            lacks.append(answer)
            times.append(None)
            continue
        lacks += name_source(_list_lacks(source, answer), source.stream)
        asked_streams += f"; {source.stream} was asked: {answer.writers_clause}"
        if answer.complete_to is None:
            times.append(None)
        else:
            times.append(requirement.tiling.start_of(answer.complete_to - source.lag_ms))
    lacks = [*_list_gaps(claim, requirement, time), *lacks]
    shown_time = requirement.format(time)
    objections = describe_objections(lacks)
    sentence = f"{table} is not known to be complete to {shown_time}: {'; '.join(objections)}"
    kinds = {lack.kind for lack in lacks}
    if find_status(lacks) != "waiting" and not kinds & INCOMPLETE_KINDS:
        # once in a sentence: of the writers that may be missing, or of the rows
        writers = claim.describe_lack(asked_streams, names_gone="since_unknown" not in kinds)
        completeness = f"{table} is complete to {shown_time}{writers}"
        sentence = "; ".join([completeness, *objections])
    complete_to = find_least(times)
    return Completeness(
        status=find_status(lacks),
        complete_to=complete_to,
        complete_to_shown=requirement.show(complete_to),
        lacks=tuple(lacks),
        sentence=sentence,
        remedy=find_remedy(lacks),
        first_lower=claim.first_lower,
        version=claim.version_at(time),
    )


def add_writers(
    claim: Claim, source: ClaimSource, answer: Completeness, max_time_ahead_ms: int | None
) -> Claim:
    """Return the claim of a source's only reader, with the writers that its stream names.

    >>> from noted_time.values import VouchedBy
    >>> by = VouchedBy(2, ("lima", "oslo"), expected=3, expected_vouching=2)
    >>> lack = Lack(kind="missing", status="complete", sentence="", writer="paris")
    >>> answer = Completeness(status="complete", vouched=by, lacks=(lack,), sentence="", remedy="")
    >>> claim = add_writers(Claim("a", 5), ClaimSource("orders", "default"), answer, None)
    >>> claim.missing_writers, claim.vouched
    (('paris',), {'count': 2, 'expected': 3, 'expected_vouching': 2})
    """
    missing_writers: list[str] = []
    is_known = True
    for lack in answer.lacks:
        if lack.kind == "missing" and lack.writer:
            missing_writers.append(lack.writer)
        if lack.kind in {"ledger_too_short", "before_first_mark"}:
            is_known = False
    first_lower = MIN_INT64 if answer.sealed else answer.first_lower
    if first_lower is not None:
        first_lower = shift_bound(first_lower, -source.lag_ms)
    counts: dict[str, int] = {}
    if answer.vouched is not None:
        counts = {field: getattr(answer.vouched, field) for field in VOUCHED_FIELDS}
    return replace(
        claim,
        domain=source.domain,
        first_lower=first_lower,
        max_time_ahead_ms=max_time_ahead_ms,
        missing_writers=tuple(missing_writers) if missing_writers or is_known else None,
        vouched=counts,
    )


def _describe_not_asked(claim: TableClaim) -> Lack:
    sentence = NOT_ASKED
    names_without_stream = [name for name, record in claim.claims.items() if not record.stream]
    if names_without_stream:
        sentence = NO_STREAM.format(", ".join(names_without_stream))
    return Lack(kind="not_asked", status="unknown", sentence=sentence)


def _list_lacks(source: ClaimSource, answer: Completeness) -> Iterator[Lack]:
    remedy = ACCEPT_EXPIRED.format(name_program(), source.stream)
    for lack in answer.lacks:
        if lack.kind == "marks_expired":
            yield replace(lack, remedy=remedy)
        else:
            yield lack


def _list_gaps(claim: TableClaim, requirement: Requirement, time: int) -> Iterator[Lack]:
    if time > claim.complete_to:
        sentence = f"it is complete to {requirement.format(claim.complete_to)}"
        yield Lack(kind="not_claimed", status="waiting", sentence=sentence)
    if why := describe_first_mark(claim.known_first_lower, time):
        yield Lack(kind="before_first_mark", status="incomplete", sentence=why)
    if claim.from_time is not None and time <= claim.from_time:
        sentence = f"nothing is claimed to {requirement.format(time)}: {claim.gone}"
        yield Lack(kind="rows_deleted", status="incomplete", sentence=sentence)


def _list_objections(claim: TableClaim, requirement: Requirement) -> Iterator[Lack]:
    for writer in claim.list_missing():
        is_required = writer in requirement.require or requirement.has_no_missing
        status: VerdictStatus = "incomplete" if is_required else "complete"
        sentence = f"{writer} is missing"
        yield Lack(kind="missing", status=status, sentence=sentence, writer=writer)
    if requirement.has_no_missing and claim.from_time is None:
        yield Lack(kind="since_unknown", status="unknown", sentence=claim.gone)
    if requirement.require_all:
        for record in claim.claims.values():
            kind, sentence = _describe_counts(record)
            if sentence:
                yield Lack(kind=kind, status="incomplete", sentence=sentence)


def _describe_counts(claim: Claim) -> tuple[LackKind, str]:
    """Return why not all expected writers vouched; the sentence is empty if they did."""
    if not claim.vouched:
        return "not_vouching", ""
    expected = claim.vouched["expected"]
    if not expected:
        return "open_stream", describe_open(claim.stream)
    vouching = claim.vouched["expected_vouching"]
    if vouching == expected:
        return "not_vouching", ""
    return "not_vouching", f"{vouching} of {expected} expected writers vouched"
