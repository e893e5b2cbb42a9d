"""What a sensor awaits and what it makes of one look, without Airflow, a network or a clock."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Literal

from noted_time import NotCompleteYet, UnknownWriter
from noted_time.client import Json, Question
from noted_time.client.waiting import NotYet
from noted_time.tables import NoClaim, standing
from noted_time.values import Missing, UnexpectedAnswer, shown_time
from reader_client.asking.answers import cut_answer, stream_answer
from reader_client.asking.questions import about_stream, about_writer, complete_to
from reader_client.asking.reached import reaches_mark
from reader_client.asking.required import NOT_ASKED, first_complete, objections, unasked

WhileMissing = Literal["fail", "wait", "warn", "accept"]
Status = Literal["complete", "failed", "waiting", "timed out"]

AWAY_FOR_GOOD = ("idle", "finished")
"""States of a writer that nothing waits for, by its own word."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A time (Unix ms) to which a stream, or else the table at a URL, has to be complete.

    With a `group`, that consumer group has to have read the stream's `topic` so far. `missing` says
    what to do if it is complete without a writer that is required: those of `require`, or all.
    """

    complete_to: int
    stream: str = ""
    table: str = ""
    domain: str | None = None
    require: tuple[str, ...] = ()
    require_all: bool = True
    missing: WhileMissing = "fail"
    group: str = ""
    topic: str = ""

    @property
    def shown(self) -> str:
        """What is wanted, as a sentence."""
        by = f", read by group {self.group!r}" if self.group else ""
        return f"{self.table or self.stream} is complete to {shown_time(self.complete_to)}{by}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look found: `status`, and the `sentence` that says why.

    `is_warning`: somebody has to read the sentence, although the sensor succeeds. `found` says
    where to read to. `is_early`: a question may wait for it at the controller.
    """

    status: Status
    sentence: str
    is_warning: bool = False
    found: Json | None = None
    is_early: bool = False


def look_at_stream(wanted: Wanted, wait_ms: int = 0) -> Generator[Any, Any, Verdict]:
    """Ask once whether a stream is complete, and about the writers that are required.

    Where a group has to have read it, that is asked, too, by `UpTo`. The controller waits up to
    `wait_ms` with its answer. Errors of the answers are raised.
    """
    stream = wanted.stream
    try:
        answer = yield complete_to(stream, wanted.complete_to, wanted.domain, wait_ms)
    except NotCompleteYet as error:
        return Verdict("waiting", f"{stream}: {error}", is_early=True)
    cut = cut_answer(answer)
    if cut.mark.lower < wanted.complete_to and not cut.mark.final:  # sealed: nothing more comes
        so_far, asked = shown_time(cut.mark.lower), shown_time(wanted.complete_to)
        raise UnexpectedAnswer(f"{stream}: the answer to {asked} is a mark of {so_far}, before it")
    if wanted.group:
        try:
            yield from reaches_mark(stream, answer, wanted.complete_to, wanted.domain)
        except NotYet as error:
            return Verdict("waiting", f"group {wanted.group!r}: {error}")
    clauses = [wanted.shown, *(each.sentence for each in (cut.missing, cut.late) if each)]
    required = wanted.require
    objected = yield from objections(stream, cut, required, require_all=wanted.require_all)
    found = Verdict(
        "complete",
        "; ".join([", ".join(clauses), *objected]),
        is_warning=bool(cut.late) or (bool(cut.missing) and wanted.missing != "accept"),
        found={"complete_to": wanted.complete_to, "seq": cut.mark.seq, "cut": answer["cut"]},
    )
    if not objected or wanted.missing != "wait" or not cut.missing.is_known:
        return _judged(found, wanted, objected=bool(objected))
    return _once_back(found, (yield from _away(wanted, cut.missing)))


def look_at_table(wanted: Wanted, *, asks: bool) -> Generator[Question, Json, Verdict]:
    """Look once at the claims of a table; raises as `noted_time.tables.standing`.

    And `Rejected` for a time below which the claims say nothing (`TableClaim.since`).

    Those are missing that the first version which is complete was claimed without; one is back
    once a later claim is not without it. Where claims do not say who is missing, the streams are
    asked, if it `asks` a controller.
    """
    table, time = wanted.table, wanted.complete_to
    claim = standing(table)
    if isinstance(claim, NoClaim):
        return Verdict("waiting", f"nothing is claimed of {table}: {claim.why}")
    if claim.complete_to < time:
        so_far = f"{table} is complete to {shown_time(claim.complete_to)}"
        return Verdict("waiting", f"{so_far}, not yet to {shown_time(time)}")
    first = first_complete(table, claim, time, ())
    first.check_since(time)
    missing = sorted({name for each in first.claims.values() for name in each.missing or ()})
    found = Verdict(
        "complete",
        wanted.shown + (f", without {', '.join(missing)}" if missing else ""),
        is_warning=bool(missing) and wanted.missing != "accept",
        found={"complete_to": time, "version": claim.version_at(time)},
    )
    required = [each for each in missing if wanted.require_all or each in wanted.require]
    if required and wanted.missing == "wait":
        now = {name for each in claim.claims.values() for name in each.missing or ()}
        found = _once_back(found, [each for each in required if each in now])
    else:
        found = _judged(found, wanted, objected=bool(required))
    return (yield from _of_streams(found, wanted, unasked(first), asks=asks))


def _of_streams(
    found: Verdict, wanted: Wanted, streams: list[tuple[str, str | None]] | None, *, asks: bool
) -> Generator[Question, Json, Verdict]:
    """Return what a look at a table found, with what its streams answer that did not tell."""
    needed = wanted.require_all or wanted.require
    if found.status != "complete" or wanted.missing == "accept" or not needed:
        return found
    if streams is None or (streams and not asks):
        says = replace(found, sentence=f"{found.sentence}; {NOT_ASKED}")
        return _judged(says, wanted, objected=True)
    for stream, domain in streams:
        one = yield from look_at_stream(replace(wanted, stream=stream, domain=domain, table=""))
        if one.status != "complete" or one.is_warning:
            sentence = f"{found.sentence}; {one.sentence}"
            found = replace(found, status=one.status, sentence=sentence, is_warning=True)
    return found


def _judged(found: Verdict, wanted: Wanted, *, objected: bool) -> Verdict:
    """Return what to do about an answer that is complete, if somebody required is missing in it."""
    if not objected or wanted.missing == "accept":
        return found
    is_failed = wanted.missing != "warn"
    return replace(found, status="failed" if is_failed else "complete", is_warning=True)


def _once_back(found: Verdict, away: list[str]) -> Verdict:
    """Return that it is complete once none of the required writers is away any more."""
    if not away:
        return replace(found, sentence=f"{found.sentence}; none of them is away any more")
    return replace(
        found, status="waiting", sentence=f"{found.sentence}; waits for {', '.join(away)}"
    )


def _away(wanted: Wanted, missing: Missing) -> Generator[Question, Json, list[str]]:
    """Return which required writers have not noted the time themselves since it was passed.

    Those that are idle, finished or removed by an operator are not waited for.
    """
    domain = wanted.domain
    if domain is None:
        domains = stream_answer((yield about_stream(wanted.stream))).domains
        domain = domains[0] if len(domains) == 1 else "default"
    named = [each.writer for each in missing.writers] if wanted.require_all else []
    away = []
    for writer in dict.fromkeys([*named, *wanted.require]):
        try:
            row = yield about_writer(wanted.stream, writer)
        except UnknownWriter:
            away.append(writer)
        else:
            if not _is_back(row, domain, wanted.complete_to):
                away.append(writer)
    unnamed = missing.count - len(missing.writers) if wanted.require_all else 0
    return away + ([f"{unnamed} more"] if unnamed else [])


def _is_back(row: Json, domain: str, time: int) -> bool:
    reason = (row["excluded"] or {}).get("reason")
    noted = row["times"].get(domain)
    is_done = row["state"] in AWAY_FOR_GOOD or reason == "removed"
    return is_done or (noted is not None and noted >= time)
