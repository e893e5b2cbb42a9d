"""Which writers a caller requires, and which of them do not vouch."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from noted_time.answers import CutAnswer, WritersPage
from noted_time.client import Question, stream_path
from noted_time.reading.claims import BEFORE_FIRST_MARK
from noted_time.tables import TableClaim, standing
from noted_time.values import (
    INGESTION_NAME,
    Claim,
    ClaimSource,
    OpenStream,
    Rejected,
    format_duration,
    format_time,
    suggest_ending,
    suggest_names,
)
from reader_client.protocol.questions import ask_cut, ask_stream

WRITERS_COMPARED, SIMILARITY_CUTOFF = 1000, 0.75

NOT_SO_FAR = "the ledger does not reach back so far"

NOT_ASKED = (
    "who vouches is not known, as no controller was asked: name one here (--url), or have the "
    'query ask (controller_url=), or take the table as it is (missing="accept")'
)

NO_DOMAIN = (
    "who vouches is not known, as the claim does not name its time domain: if its query reads "
    'marks="topic", let it read marks="ahead" or marks="committed"; otherwise start it again'
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """The writers that must vouch: `writers`, and all expected (`all`) or ever joined (`known`).

    >>> Requirement(("lima",), "known").query
    {'require': ['lima'], 'require_known': True}
    """

    writers: Sequence[str] = ()
    everyone: Literal["", "all", "known"] = ""

    def __bool__(self) -> bool:
        return bool(self.writers or self.everyone)

    @property
    def query(self) -> dict[str, object]:
        writers = {"require": list(self.writers)} if self.writers else {}
        return writers | ({f"require_{self.everyone}": True} if self.everyone else {})


FORGOTTEN = (
    "{stream} forgets a writer that finished or was excluded more than its --writer-retention ago "
    "({retention}): let the writer note again, or expect only the others. With a longer "
    "--writer-retention the stream keeps it"
)


def find_objections(
    stream: str, domain: str | None, cut: CutAnswer, required: Requirement
) -> Generator[Question[Any], Any, list[str]]:
    objections = [f"{each.sentence} does not vouch" for each in cut.unmet]
    for number, each in enumerate(cut.unmet):
        if each.reason == "narrowed":
            objections[number] += f": {suggest_ending(stream, each.writer, domain or 'default')}"
    if cut.before_first_mark and cut.first_lower is not None:
        objections.append(BEFORE_FIRST_MARK.format(format_time(cut.first_lower)))
    elif required.everyone and not cut.missing.is_known:
        objections.append(f"which writers are missing is not known: {NOT_SO_FAR}")
    unknown = [each.writer for each in cut.unmet if each.reason == "unknown"]
    if not unknown:
        return objections
    path, query = stream_path(stream, "writers"), {"limit": WRITERS_COMPARED}
    page: WritersPage = yield Question("GET", path, query, answer=WritersPage)
    known = [each.writer for each in page.writers]
    alike = (get_close_matches(each, known, cutoff=SIMILARITY_CUTOFF) for each in unknown)
    suggested = [*filter(None, map(suggest_names, alike))]
    if suggested:
        objections += suggested
    else:
        retention_ms = (yield ask_stream(stream)).writer_retention_ms
        objections.append(FORGOTTEN.format(stream=stream, retention=format_duration(retention_ms)))
    return objections


def find_first_complete(
    table: str, claim: TableClaim, time: int, names: Sequence[str]
) -> TableClaim:
    """Return the first claim to a time; later ones may have other missing writers."""
    version = claim.version_at(time)
    first = claim if version is None else standing(table, names or None, at=version)
    return first if isinstance(first, TableClaim) else claim


def find_unanswered(claim: TableClaim, required: Requirement) -> list[ClaimSource] | None:
    """Return the sources of claims that do not show who vouches.

    Returns `None` if such a claim has no stream.

    >>> from noted_time.values import Claim
    >>> claims = {"a": Claim("a", 5, stream="web", domain="ship"), "b": Claim("b", 5, missing=())}
    >>> find_unanswered(TableClaim(5, 1, claims), Requirement(everyone="known"))
    [ClaimSource(stream='web', domain='ship', lag_ms=0)]
    """
    unanswered = [
        each
        for each in claim.claims.values()
        if required.writers
        or (required.everyone and (each.missing is None or each.has_unknown_domain))
        or (required.everyone == "all" and not each.vouched)
    ]
    if not all(each.stream for each in unanswered):
        return None
    return [*dict.fromkeys(source for each in unanswered for source in each.sources)]


def find_domain(source: ClaimSource) -> Generator[Question[Any], Any, str]:
    """Return the domain of a source, by default the only one that its stream has ever had.

    Raises `Rejected` if the stream has several.
    """
    if source.domain is not None:
        return source.domain
    domains: tuple[str, ...] = (yield ask_stream(source.stream)).domains
    if len(domains) > 1 or domains[0] == INGESTION_NAME:  # whose lag is not known
        raise Rejected(NO_DOMAIN)
    return domains[0]


class TableAnswer(NamedTuple):
    """The objections to a table, and what the streams answered, as the end of a sentence.

    `may_come` is true if later marks and claims may meet all objections.
    """

    objections: list[str]
    asked: str = ""
    may_come: bool = False


def find_table_objections(
    claim: TableClaim, time: int, required: Requirement
) -> Generator[Question[Any], Any, TableAnswer]:
    named = claim.missing_writers
    objections = [f"{writer} is missing" for writer in required.writers if writer in named]
    if required.everyone:
        objections += [f"writers that are missing: {len(named)}"] if named else []
        objections += [claim.gone] if claim.since is None else []
    if required.everyone == "all":
        objections += filter(None, map(_describe_missing, claim.claims.values()))
    sources = find_unanswered(claim, required)
    if sources is None:
        return TableAnswer([*objections, NOT_ASKED])
    asked, may_come = "", not objections
    for source in sources:
        found = yield from _judge_source(source, claim, time, required)
        objections += [f"{source.stream}: {each}" for each in found.objections]
        asked += found.asked
        may_come &= found.may_come
    return TableAnswer(objections, asked, may_come)


def _judge_source(
    source: ClaimSource, claim: TableClaim, time: int, required: Requirement
) -> Generator[Question[Any], Any, TableAnswer]:
    stream, time = source.stream, time + source.lag_ms
    try:
        domain = yield from find_domain(source)
    except Rejected as error:
        return TableAnswer([str(error)])
    cut: CutAnswer = yield ask_cut(stream, time, domain, required=required.query)
    objections = yield from find_objections(stream, domain, cut, required)
    may_come = [each.may_come for each in cut.unmet] == [True] * len(objections)
    if cut.lower > claim.complete_to + source.lag_ms:  # the query has read only the first mark
        first: CutAnswer = yield ask_cut(stream, time, domain)
        if first.seq < cut.seq:
            objections.append(f"they vouch from {format_time(cut.lower)} on")
    answer = f"{cut.vouched.sentence}, {cut.missing.sentence}"
    return TableAnswer(objections, f"; {stream} was asked: {answer}", may_come)


def _describe_missing(claim: Claim) -> str:
    if not claim.vouched:
        return ""
    if not claim.vouched["expected"]:
        return str(OpenStream(claim.stream))
    vouching, expected = claim.vouched["expected_vouching"], claim.vouched["expected"]
    return "" if vouching == expected else f"{vouching} of {expected} expected writers vouched"
