"""The condition of a sensor and the verdict of one poll, without Airflow, I/O or a clock."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Literal

from noted_time import NotCompleteYet, OpenStream, Rejected
from noted_time.answers import CutAnswer
from noted_time.client import Json, Question, position_to_wire
from noted_time.client.waiting import PAUSE_S, NotYet
from noted_time.tables import NoClaim, standing
from noted_time.values import UnexpectedAnswer, format_time
from reader_client.protocol.completeness import check_reached
from reader_client.protocol.questions import ask_cut
from reader_client.protocol.requirements import (
    NOT_ASKED,
    Requirement,
    find_first_complete,
    find_objections,
    find_table_objections,
    find_unanswered,
)

WhileMissing = Literal["fail", "wait", "warn", "accept"]
Everyone = Literal["all", "known"]
Status = Literal["complete", "failed", "waiting", "timed out"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The condition of a sensor, which can be passed to another process."""

    complete_to: int

    stream: str = ""
    table: str = ""
    domain: str | None = None
    require: list[str] | Everyone = "all"
    missing: WhileMissing = "fail"

    conn_id: str = ""
    poke_interval: float = 1.0
    group: str = ""
    topic: str = ""
    kafka_conn_id: str = ""

    @property
    def requirement(self) -> Requirement:
        """The writers that must vouch, empty if missing writers are accepted."""
        if self.missing == "accept":
            return Requirement()
        if isinstance(self.require, str):
            return Requirement(everyone=self.require)
        return Requirement(self.require)

    @property
    def shown(self) -> str:
        by = f", read by group {self.group!r}" if self.group else ""
        return f"{self.table or self.stream} is complete to {format_time(self.complete_to)}{by}"

    def not_yet(self, why: str) -> NotYet:
        return NotYet(why, self.poke_interval)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a wait; `found` is the XCom."""

    status: Status
    sentence: str
    is_warning: bool = False
    found: Json | None = None


def look_at_stream(wanted: Wanted, wait_ms: int = 0) -> Generator[Any, Any, Verdict]:
    """Return the verdict on a stream that is complete by the required writers."""
    stream, required = wanted.stream, wanted.requirement
    question = ask_cut(stream, wanted.complete_to, wanted.domain, wait_ms, required.query)
    try:
        cut: CutAnswer = yield question
    except NotCompleteYet as error:
        raise NotYet(f"{stream}: {error}", PAUSE_S) from error
    except OpenStream as error:
        if wanted.missing != "warn":
            raise
        found = yield from look_at_stream(replace(wanted, missing="accept"), wait_ms)
        return _judge(found, wanted, [str(error)], may_pass=False)
    if cut.lower < wanted.complete_to and not cut.final:
        so_far, asked = format_time(cut.lower), format_time(wanted.complete_to)
        raise UnexpectedAnswer(f"{stream}: the answer to {asked} is a mark of {so_far}, before it")
    lacks = [each.sentence for each in (cut.missing, cut.late) if each]
    if wanted.group:
        try:
            read = yield from check_reached(stream, cut, wanted.complete_to, wanted.domain)
            lacks += read.remarks
        except NotYet as error:
            raise wanted.not_yet(f"group {wanted.group!r}: {error}") from error
    sentence = ", ".join([wanted.shown, cut.vouched.sentence, *lacks])
    verdict = Verdict(
        "complete",
        sentence,
        is_warning=bool(cut.late) or (bool(cut.missing) and wanted.missing != "accept"),
        found={
            "complete_to": wanted.complete_to,
            "seq": cut.seq,
            "cut": position_to_wire(cut.cut.offsets),
        },
    )
    objections = yield from find_objections(stream, wanted.domain, cut, required)
    may_pass = bool(cut.unmet) and not cut.before_first_mark
    may_pass &= wanted.missing == "wait" or all(each.may_come for each in cut.unmet)
    return _judge(verdict, wanted, objections, may_pass=may_pass)


def look_at_table(wanted: Wanted, *, asks: bool) -> Generator[Question[Any], Any, Verdict]:
    """Return the verdict on a table whose claims are complete by the required writers.

    The first complete version decides which writers are missing. If it `asks`, a controller names
    the writers that claims do not name.
    """
    table, time = wanted.table, wanted.complete_to
    claim = standing(table)
    if isinstance(claim, NoClaim):
        raise wanted.not_yet(f"nothing is claimed of {table}: {claim.why}")
    if claim.complete_to < time:
        so_far = f"{table} is complete to {format_time(claim.complete_to)}"
        raise wanted.not_yet(f"{so_far}, not yet to {format_time(time)}")
    first = find_first_complete(table, claim, time, ())
    first.check_since(time)
    if lack := claim.describe_first_mark(time):
        raise Rejected(f"{table}: {lack}")
    missing, required = first.missing_writers, wanted.requirement
    verdict = Verdict(
        "complete",
        wanted.shown + first.vouched_by + (f", without {', '.join(missing)}" if missing else ""),
        is_warning=bool(missing) and wanted.missing != "accept",
        found={"complete_to": time, "version": claim.version_at(time)},
    )
    streams = find_unanswered(first, required)
    if streams is None or (streams and not asks):
        return _judge(verdict, wanted, [NOT_ASKED], may_pass=False)
    may_pass = wanted.missing == "wait"
    try:
        objections, asked, _ = yield from find_table_objections(first, time, required)
        verdict = replace(verdict, sentence=verdict.sentence + asked)
        may_wait = objections and may_pass
        if may_wait and not (yield from find_table_objections(claim, time, required)).objections:
            verdict = replace(verdict, found={"complete_to": time, "version": claim.version})
            return replace(verdict, sentence=f"{verdict.sentence}; later claims have them")
    except OpenStream as error:
        objections, may_pass = [str(error)], False
    return _judge(verdict, wanted, objections, may_pass=may_pass)


def _judge(verdict: Verdict, wanted: Wanted, objections: list[str], *, may_pass: bool) -> Verdict:
    if not objections:
        return verdict
    sentence = "; ".join([verdict.sentence, *objections])
    if wanted.missing == "warn":
        return replace(verdict, sentence=sentence, is_warning=True)
    raise wanted.not_yet(sentence) if may_pass else Rejected(sentence)
