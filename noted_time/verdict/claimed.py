"""Judges a table by the claims in its commits, and by the answers of their streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from noted_time.progress import ReadOffsets
from noted_time.reading import NoClaim, TableClaim
from noted_time.values import MIN_INT64, VOUCHED_FIELDS, Claim, ClaimSource, Rejected, shift_bound
from noted_time.verdict.completeness import (
    Completeness,
    Lack,
    LackKind,
    Requirement,
    VerdictStatus,
    describe_objections,
    find_remedy,
    find_status,
    name_source,
)
from noted_time.verdict.words import describe_first_mark, describe_open

NOT_ASKED = (
    "who vouches is not known, as no controller was asked: name one here (--url), or have the "
    'query ask (controller_url=), or take the table as it is (missing="accept")'
)

NO_DOMAIN = (
    "who vouches is not known, as the claim does not name its time domain: if its query reads "
    'marks="topic", let it read marks="ahead" or marks="committed"; otherwise start it again'
)

Answers = Mapping[ClaimSource, Completeness | Lack]


def find_unanswered(claim: TableClaim, asked: Requirement) -> list[ClaimSource] | None:
    """Return the sources of claims that do not show who vouches.

    Returns `None` if such a claim has no stream.

    >>> web = Claim("a", 5, stream="web", domain="ship")
    >>> claims = {"a": web, "b": Claim("b", 5, missing_writers=())}
    >>> find_unanswered(TableClaim(5, 1, claims), Requirement(require_known=True))
    [ClaimSource(stream='web', domain='ship', lag_ms=0)]
    """
    unanswered = [
        each
        for each in claim.claims.values()
        if asked.require
        or (
            asked.has_no_missing
            and (
                each.missing_writers is None
                or any(source.domain is None for source in each.sources)
            )
        )
        or (asked.require_all and not each.vouched)
    ]
    if not all(each.stream for each in unanswered):
        return None
    return [*dict.fromkeys(source for each in unanswered for source in each.sources)]


def ask_source(claim: TableClaim, source: ClaimSource, asked: Requirement) -> Requirement:
    """Return the question to a source's stream, whose marks the claim has up to its own time."""
    to = None if asked.to is None else asked.to + source.lag_ms
    at_most = claim.complete_to + source.lag_ms
    return replace(
        asked,
        to=to,
        domain=source.domain,
        read=ReadOffsets(at_most=at_most),
        from_time=None,
        wait_ms=0,
    )


def judge_no_claim(table: str, found: NoClaim) -> Completeness:
    sentence = f"nothing is claimed of {table}: {found.why}"
    if found.kind == "ambiguous":
        raise Rejected(sentence)
    status: VerdictStatus = "incomplete" if found.kind == "claim_ended" else "waiting"
    lack = Lack(kind=found.kind, status=status, sentence=sentence)
    return Completeness(status=status, lacks=(lack,), sentence=sentence, remedy="")


def judge_claim(
    table: str, claim: TableClaim, time: int, asked: Requirement, answers: Answers | None
) -> Completeness:
    """Judge a table by its claim. `answers` come from the sources, `None` if not asked."""
    lacks, asked_of = [*_list_objections(claim, asked)], ""
    if answers is None:
        lacks.append(Lack(kind="not_asked", status="unknown", sentence=NOT_ASKED))
    times = [claim.complete_to if find_status(lacks) == "complete" else None]
    for source, each in (answers or {}).items():
        if isinstance(each, Lack):
            lacks.append(each)
            times.append(None)
            continue
        lacks += name_source(each.lacks, source.stream)
        asked_of += f"; {source.stream} was asked: {each.writers_clause}"
        times.append(None if each.complete_to is None else each.complete_to - source.lag_ms)
    known = [asked.tiling.start_of(each) for each in times if each is not None]
    lacks = [*_list_gaps(claim, asked, time), *lacks]
    shown = asked.format(time)
    objections = describe_objections(lacks)
    sentence = f"{table} is not known to be complete to {shown}: {'; '.join(objections)}"
    kinds = {each.kind for each in lacks}
    if find_status(lacks) != "waiting" and not kinds & {"before_first_mark", "rows_deleted"}:
        described = f"{table} is complete to {shown}{claim.describe_lack(asked_of)}"
        sentence = "; ".join([described, *objections])
    return Completeness(
        status=find_status(lacks),
        complete_to=min(known) if len(known) == len(times) else None,
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
    names = tuple(each.writer for each in answer.lacks if each.kind == "missing" and each.writer)
    is_known = not any(
        each.kind in {"ledger_too_short", "before_first_mark"} for each in answer.lacks
    )
    first = MIN_INT64 if answer.sealed else answer.first_lower
    by = answer.vouched
    return replace(
        claim,
        domain=source.domain,
        first_lower=None if first is None else shift_bound(first, -source.lag_ms),
        max_time_ahead_ms=max_time_ahead_ms,
        missing_writers=names if names or is_known else None,
        vouched={} if by is None else {key: getattr(by, key) for key in VOUCHED_FIELDS},
    )


def _list_gaps(claim: TableClaim, asked: Requirement, time: int) -> Iterator[Lack]:
    if time > claim.complete_to:
        sentence = f"it is complete to {asked.format(claim.complete_to)}"
        yield Lack(kind="not_claimed", status="waiting", sentence=sentence)
    if why := describe_first_mark(claim.first_lower, time):
        yield Lack(kind="before_first_mark", status="incomplete", sentence=why)
    if claim.from_time is not None and time <= claim.from_time:
        sentence = f"nothing is claimed to {asked.format(time)}: {claim.gone}"
        yield Lack(kind="rows_deleted", status="incomplete", sentence=sentence)


def _list_objections(claim: TableClaim, asked: Requirement) -> Iterator[Lack]:
    for writer in claim.list_missing():
        is_required = writer in asked.require or asked.has_no_missing
        status: VerdictStatus = "incomplete" if is_required else "complete"
        sentence = f"{writer} is missing"
        yield Lack(kind="missing", status=status, sentence=sentence, writer=writer)
    if asked.has_no_missing and claim.from_time is None:
        yield Lack(kind="since_unknown", status="unknown", sentence=claim.gone)
    if asked.require_all:
        for each in claim.claims.values():
            kind, sentence = _describe_counts(each)
            if sentence:
                yield Lack(kind=kind, status="incomplete", sentence=sentence)


def _describe_counts(claim: Claim) -> tuple[LackKind, str]:
    if not claim.vouched:
        return "not_vouching", ""
    if not claim.vouched["expected"]:
        return "open_stream", describe_open(claim.stream)
    vouching, expected = claim.vouched["expected_vouching"], claim.vouched["expected"]
    if vouching == expected:
        return "not_vouching", ""
    return "not_vouching", f"{vouching} of {expected} expected writers vouched"
