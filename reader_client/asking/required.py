"""Which writers a caller requires, and why an answer that is complete is not what it requires."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from noted_time.client import Json, Question
from noted_time.tables import TableClaim, standing
from noted_time.values import UnknownWriter
from reader_client.asking.answers import CutRead, cut_answer
from reader_client.asking.questions import about_writer, complete_to

NOT_SO_FAR = "the ledger does not reach back so far"

NOT_ASKED = (
    "who is missing is not known, as the query asked no controller: name one here (--url), or have "
    'the query ask (controller_url=), or take the table as it is (missing="accept")'
)


def objections(
    stream: str, cut: CutRead, required: Sequence[str], *, require_all: bool
) -> Generator[Question, Json, list[str]]:
    """Return why a cut is not what was required, empty if it is.

    A required writer that nobody knows is an objection, too. Asks about each required writer.
    """
    found = []
    missing = cut.missing
    named = {each.writer for each in missing.writers}
    for writer in required:
        try:
            row = yield about_writer(stream, writer)
        except UnknownWriter:
            found.append(f"{writer} is {'missing' if writer in named else 'unknown'}")
            continue
        # not all that are missing are named: of the others, what is so now is the best known
        is_unnamed = missing.count > len(named) and row["excluded"] is not None
        if writer in named or is_unnamed:
            found.append(f"{writer} is missing")
    if require_all and missing.count:
        found.append(f"writers that are missing: {missing.count}")
    if (required or require_all) and not missing.is_known:
        why = "that is before the first mark" if cut.before_first_mark else NOT_SO_FAR
        found.append(f"which writers are missing is not known: {why}")
    return found


def first_complete(table: str, claim: TableClaim, time: int, names: Sequence[str]) -> TableClaim:
    """Return the claim of the first version that is complete to a time, as far as it is known.

    Those are missing that it was claimed without: later claims may be without others.
    """
    version = claim.version_at(time)
    first = claim if version is None else standing(table, names or None, at=version)
    return first if isinstance(first, TableClaim) else claim


def unasked(claim: TableClaim) -> list[tuple[str, str | None]] | None:
    """Return streams and domains to ask about, as claims do not say who is missing.

    `None` if a claim does not name its stream either.

    >>> from noted_time.values import Claim
    >>> claims = {"a": Claim("a", 5, stream="web,pos"), "b": Claim("b", 5, missing=())}
    >>> unasked(TableClaim(5, 1, claims))
    [('pos', None), ('web', None)]
    """
    found = [each for each in claim.claims.values() if each.missing is None]
    if not all(each.stream for each in found):
        return None
    pairs = {(stream, each.domain) for each in found for stream in each.stream.split(",")}
    return [(stream, domain or None) for stream, domain in sorted(pairs)]


def table_objections(
    claim: TableClaim, time: int, required: Sequence[str], *, require_all: bool
) -> Generator[Question, Json, list[str]]:
    """Return why a table is not what was required, empty if it is.

    Where claims do not say who is missing, asks about their streams.
    """
    named = sorted({name for each in claim.claims.values() for name in each.missing or ()})
    found = [f"{writer} is missing" for writer in required if writer in named]
    if require_all and named:
        found.append(f"writers that are missing: {len(named)}")
    if require_all and claim.since is None:
        found.append(claim.gone)
    streams = unasked(claim) if required or require_all else []
    if streams is None:
        return [*found, NOT_ASKED]
    for stream, domain in streams:
        cut = cut_answer((yield complete_to(stream, time, domain)))
        objected = yield from objections(stream, cut, required, require_all=require_all)
        found += [f"{stream}: {each}" for each in objected]
    return found
