"""What a sensor awaits and what it makes of one look, without Airflow, a network or a clock."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from noted_time import NotCompleteYet, OpenStream
from noted_time.client import Json, Question
from noted_time.client.waiting import NotYet
from noted_time.tables import NoClaim, standing
from noted_time.values import UnexpectedAnswer, shown_time
from reader_client.asking.answers import cut_answer
from reader_client.asking.questions import complete_to
from reader_client.asking.reached import reaches_mark
from reader_client.asking.required import (
    NOT_ASKED,
    Requirement,
    first_complete,
    objections,
    table_objections,
    to_ask,
)

WhileMissing = Literal["fail", "wait", "warn", "accept"]
Everyone = Literal["", "all", "known"]
EVERYONE: Mapping[str, Everyone] = {"all": "all", "known": "known"}
Status = Literal["complete", "failed", "waiting", "timed out"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A time (Unix ms) to which a stream, or else the table at a URL, has to be complete.

    With a `group`, that consumer group has to have read the stream's `topic` so far. `missing` says
    what to do if it is complete without a writer that is required: those of `require`, and
    `everyone` that is expected, or ever joined.
    """

    complete_to: int
    stream: str = ""
    table: str = ""
    domain: str | None = None
    require: tuple[str, ...] = ()
    everyone: Everyone = "all"
    missing: WhileMissing = "fail"
    group: str = ""
    topic: str = ""

    @property
    def requirement(self) -> Requirement:
        """The writers that have to vouch, none if whoever is missing is accepted."""
        is_accepted = self.missing == "accept"
        return Requirement() if is_accepted else Requirement(self.require, self.everyone)

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
    """Ask once whether a stream is complete by the writers that are required.

    Where a group has to have read it, that is asked, too, by `UpTo`. The controller waits up to
    `wait_ms` with its answer. Errors of the answers are raised.
    """
    stream, required = wanted.stream, wanted.requirement
    question = complete_to(stream, wanted.complete_to, wanted.domain, wait_ms, required.query)
    try:
        answer = yield question
    except NotCompleteYet as error:
        return Verdict("waiting", f"{stream}: {error}", is_early=True)
    except OpenStream as error:
        if wanted.missing != "warn":
            raise
        found = yield from look_at_stream(replace(wanted, missing="accept"), wait_ms)
        return _judged(found, wanted, [str(error)], may_pass=False)
    cut = cut_answer(answer)
    if cut.mark.lower < wanted.complete_to and not cut.mark.final:  # sealed: nothing more comes
        so_far, asked = shown_time(cut.mark.lower), shown_time(wanted.complete_to)
        raise UnexpectedAnswer(f"{stream}: the answer to {asked} is a mark of {so_far}, before it")
    if wanted.group:
        try:
            yield from reaches_mark(stream, answer, wanted.complete_to, wanted.domain)
        except NotYet as error:
            return Verdict("waiting", f"group {wanted.group!r}: {error}")
    lacks = [each.sentence for each in (cut.missing, cut.late) if each]
    sentence = ", ".join([wanted.shown, cut.vouched.sentence, *lacks])
    found = Verdict(
        "complete",
        sentence,
        is_warning=bool(cut.late) or (bool(cut.missing) and wanted.missing != "accept"),
        found={"complete_to": wanted.complete_to, "seq": cut.mark.seq, "cut": answer["cut"]},
    )
    objected = objections(cut, required)
    may_pass = bool(cut.unmet) and not cut.before_first_mark
    may_pass &= wanted.missing == "wait" or all(each.may_come for each in cut.unmet)
    return _judged(found, wanted, objected, may_pass=may_pass)


def look_at_table(wanted: Wanted, *, asks: bool) -> Generator[Question, Json, Verdict]:
    """Look once at the claims of a table; raises as `noted_time.tables.standing`.

    And `Rejected` for a time below which the claims say nothing (`TableClaim.since`).

    Those are missing that the first version which is complete was claimed without. Where claims do
    not say who vouches, the streams are asked, if it `asks` a controller.
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
    missing, required = first.missing_writers, wanted.requirement
    found = Verdict(
        "complete",
        wanted.shown + first.vouched_by + (f", without {', '.join(missing)}" if missing else ""),
        is_warning=bool(missing) and wanted.missing != "accept",
        found={"complete_to": time, "version": claim.version_at(time)},
    )
    streams = to_ask(first, required)
    if streams is None or (streams and not asks):
        return _judged(found, wanted, [NOT_ASKED], may_pass=False)
    may_pass = wanted.missing == "wait"
    try:
        objected = yield from table_objections(first, time, required)
        if objected and may_pass and not (yield from table_objections(claim, time, required)):
            found = replace(found, found={"complete_to": time, "version": claim.version})
            return replace(found, sentence=f"{found.sentence}; later claims have them")
    except OpenStream as error:
        objected, may_pass = [str(error)], False
    return _judged(found, wanted, objected, may_pass=may_pass)


def _judged(found: Verdict, wanted: Wanted, objected: list[str], *, may_pass: bool) -> Verdict:
    """Return what to do about an answer that is complete, if it is not by all that are required."""
    if not objected or found.status != "complete":
        return found
    sentence = "; ".join([found.sentence, *objected])
    if wanted.missing == "warn":
        return replace(found, sentence=sentence, is_warning=True)
    return replace(found, sentence=sentence, status="waiting" if may_pass else "failed")
