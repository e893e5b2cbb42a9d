"""Laws of claims: a complete table has all rows, also after the stream has gone on."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec import convert
from msgspec.structs import replace

from noted_time.answers import LedgerPage
from noted_time.client import Question, run
from noted_time.values import MIN_INT64, Mark, StreamSettings, VouchedBy
from noted_time.verdict import Completeness, Requirement
from noted_time_extensions.tables.claim import Claim, ClaimSource
from noted_time_extensions.tables.claim_verdicts import add_writers, judge_claim, list_asked_sources
from noted_time_extensions.tables.pins import Pin, build_inheritance
from noted_time_extensions.tables.table_dataset import ask_claimed_source
from noted_time_extensions.tables.table_history import Commit, TableClaim, TableHistory
from tests.core.acts import WRITERS, Act, Kind, histories, live, streams
from tests.core.test_doors import list_questions
from tests.core.test_verdict import MARKS, make_domain
from tests.core.test_verdict_laws import LATER, observe, witness
from tests.core.test_vouching import TROUBLE, Witness, rows_beyond
from tests.support.judged import Domain

Lost = tuple[str, Requirement, str]
"""A domain, a question, and a writer whose rows are not in a complete table."""


class ClaimedTable(NamedTuple):
    """A table with a commit for each mark that it has; a job's table has the last ones only."""

    history: TableHistory
    marks: dict[str, list[Mark]]


def observe_domains(world: Witness, names: set[str]) -> dict[str, Domain]:
    return {name: observe(world, name, names) for name in world.domains}


def write_table(domain: Domain, *, keeps_late_rows: bool) -> ClaimedTable:
    """Return the table of a query, whose last claim names the writers."""
    claims = list[Claim]()
    marks = domain.history.after(0, LATER)
    source = ClaimSource(domain.stream, domain.domain)
    for mark in marks:
        claim = Claim("rows", mark.lower, "t", "q", mark.seq, id=str(mark.seq), from_time=MIN_INT64)
        claim = replace(claim, keeps_late_rows=keeps_late_rows)
        claims.append(replace(claim, stream=source.stream, domain=source.domain))
    answer = domain.answer(Requirement(to=marks[-1].lower))
    claims[-1] = add_writers(claims[-1], source, answer, None)
    commits: list[Commit] = []
    for number, claim in enumerate(claims):
        parent = commits[-1].id if commits else None
        commits.append(Commit(number, parent, "append", claims={"rows": claim}))
    return ClaimedTable(TableHistory(commits), {domain.domain: [*marks]})


def run_job(sources: list[ClaimedTable], delay_ms: int) -> ClaimedTable:
    """Return the table of a job that has read all rows of its sources, and inherits."""
    written_commit = Commit(0, None, "append")
    pinned_histories = {}
    for number, source in enumerate(sources):
        pinned_histories[Pin.of(f"source{number}", source.history)] = source.history
    record = build_inheritance(
        "days", TableHistory((written_commit,)), "days", "t", pinned_histories, delay_ms=delay_ms
    )
    claim_commit = Commit(1, 0, "none", claims={"days": replace(record, id="days")})
    last_marks = {}
    for source in sources:
        for domain, marks in source.marks.items():
            last_marks[domain] = [marks[-1]]
    return ClaimedTable(TableHistory((written_commit, claim_commit)), last_marks)


def answer_question(domains: dict[str, Domain], question: Question[Any]) -> Any:  # noqa: ANN401 - of the question
    """Answer as a controller does."""
    if question.path.endswith("/completeness"):
        requirement = convert(question.body, Requirement)
        return domains[requirement.domain or ""].answer(requirement)
    reports = [*domains[(question.query or {})["domain"]].late]
    return LedgerPage(entries=(), next=None, late_reports=reports, late_report_count=len(reports))


def judge_claims(
    claim: TableClaim, domains: dict[str, Domain], requirement: Requirement, *, is_later: bool
) -> Completeness:
    sources = list_asked_sources(claim, requirement)
    assert sources is not None
    answers = {}
    for source in sources:
        steps = ask_claimed_source(claim, source, requirement, is_later=is_later)
        answers[source] = run(steps, partial(answer_question, domains))
    return judge_claim("t", claim, requirement.to or 0, requirement, answers)


def judge_table(
    table: ClaimedTable, domains: dict[str, Domain], requirement: Requirement
) -> tuple[Completeness, int]:
    """Return the answer of the first version that has the time, or else of the last one.

    Also returns the place of the version's marks.
    """
    last = table.history.claim()
    assert isinstance(last, TableClaim)
    version = last.version_at(requirement.to or 0)
    first = None if version is None else table.history.cut_at(version)
    claim = last if first is None else first.claim()
    assert isinstance(claim, TableClaim)
    answer = judge_claims(claim, domains, requirement, is_later=False)
    if answer.is_complete and version is not None:
        return answer, -1 if len(table.marks) > 1 else version
    return judge_claims(last, domains, requirement, is_later=version is not None), -1


def list_lost(  # noqa: PLR0913, PLR0917 - the world, and the answer of a table
    world: Witness,
    domains: dict[str, Domain],
    table: ClaimedTable,
    requirement: Requirement,
    names: set[str],
    place: int,
) -> Iterator[Lost]:
    """Yield the writers whose rows a complete table lacks."""
    time = requirement.to or 0
    for domain, marks in table.marks.items():
        mark = marks[place]
        lacking = {*rows_beyond(world, domain, mark, time)}
        if requirement.require_known:
            noted_writers = set()
            for noted_event in world.lacking(domain, mark):
                if noted_event.times[domain] < time:
                    noted_writers.add(noted_event.writer)
            latecomers = set()
            for latecomer in domains[domain].list_latecomers():
                if latecomer.first_seq > mark.seq and latecomer.from_time < time:
                    latecomers.add(latecomer.writer)
            lacking &= noted_writers & latecomers
        else:
            lacking &= names
        for writer in lacking:
            yield domain, requirement, writer


@given(
    settings=streams,
    history=histories(*get_args(Kind)),
    later=TROUBLE,
    names=st.sets(st.sampled_from(WRITERS), min_size=1),
    delay_ms=st.integers(0, 2),
    expired=st.integers(0, 3),
)
def test_complete_table_has_all_required_rows(  # noqa: PLR0913, PLR0917 - drawn
    settings: StreamSettings,
    history: list[Act],
    later: list[Act],
    names: set[str],
    delay_ms: int,
    expired: int,
) -> None:
    """Law: also of a job's table that inherits from two others, after the stream has gone on.

    The first marks may have expired.
    """
    world = witness(settings, history, states_since=True)
    tables = []
    for domain in observe_domains(world, names).values():
        if domain.history:
            tables.append(write_table(domain, keeps_late_rows=True))
    if tables:
        tables.append(run_job(tables, delay_ms))
    live(world, later)
    domains = observe_domains(world, names)
    for domain in domains.values():
        domain.history.forget_through(expired)
    requirements = (
        Requirement(require=tuple(sorted(names))),
        Requirement(require_all=True),
        Requirement(require_known=True),
    )
    complete = 0
    lost_rows = list[Lost]()
    for table in tables:
        last = max(marks[-1].lower for marks in table.marks.values())
        for time in range(last + 2):
            for requirement in requirements:
                question = replace(requirement, to=time)
                answer, place = judge_table(table, domains, question)
                if answer.is_complete:
                    complete += 1
                    lost_rows += list_lost(world, domains, table, question, names, place)
    event(f"complete: {min(complete, 9)}")

    assert lost_rows == []


def silence(history: list[Act]) -> list[Act]:
    """Return a history of writers that declare no event times."""
    acts = []
    for name, parts in history:
        acts.append((name, (*parts[:-1], "nothing") if name == "note" else parts))
    return acts


@given(
    settings=streams,
    history=histories(*get_args(Kind)),
    later=TROUBLE,
    names=st.sets(st.sampled_from(WRITERS), min_size=1),
)
def test_table_of_query_with_state_has_all_required_rows(
    settings: StreamSettings, history: list[Act], later: list[Act], names: set[str]
) -> None:
    """Law: rows that came late to the query are lost, although later marks count them.

    A writer that declares its event times reports late rows itself, so here none declares them.
    """
    world = witness(settings, silence(history), states_since=True)
    live(world, silence(later))
    domains = observe_domains(world, names)
    requirements = (
        Requirement(require=tuple(sorted(names))),
        Requirement(require_all=True),
        Requirement(require_known=True),
    )
    complete = 0
    lost_rows = list[Lost]()
    for domain in domains.values():
        if not domain.history:
            continue
        table = write_table(domain, keeps_late_rows=False)
        marks = table.marks[domain.domain]
        for time in range(marks[-1].lower + 1):
            first = next(place for place, mark in enumerate(marks) if mark.lower >= time)
            for requirement in requirements:
                question = replace(requirement, to=time)
                answer, _ = judge_table(table, domains, question)
                if answer.is_complete:
                    complete += 1
                    lost_rows += list_lost(world, domains, table, question, names, first)
    event(f"complete: {min(complete, 9)}")

    assert lost_rows == []


@given(
    settings=streams,
    history=TROUBLE,
    names=st.sets(st.sampled_from(WRITERS), min_size=1, max_size=2),
)
def test_no_table_is_complete_where_its_stream_is_not(
    settings: StreamSettings, history: list[Act], names: set[str]
) -> None:
    """A table also objects to writers that its claim lacks."""
    world = witness(settings, history, states_since=False)
    questions = 0
    for domain_name in world.domains:
        domain = observe(world, domain_name, names)
        last = domain.history.last
        if last is None or not last.cut.offsets:
            continue  # offsets have no time there
        table = write_table(domain, keeps_late_rows=True)
        for question in list_questions(names, domain.history.after(0, LATER)):
            answer, _ = judge_table(table, {domain.domain: domain}, question)
            questions += 1
            assert not answer.is_complete or domain.answer(question).is_complete, question
    event(f"questions: {min(questions, 9)}")


COUNTS = {"count": 1, "expected": 1, "expected_vouching": 1}


@pytest.mark.parametrize(
    ("fields", "options", "expected", "status"),
    [
        ({}, {"require_all": True}, ("always",), "complete"),
        ({}, {"require_all": True}, ("always", "opened"), "unknown"),
        ({}, {"require": ("always",)}, ("always",), "unknown"),
        ({"missing_writers": None, "vouched": {}}, {"require_all": True}, ("always",), "unknown"),
        (
            {"vouched": COUNTS | {"expected_vouching": 0}},
            {"require_all": True},
            ("always",),
            "unknown",
        ),
    ],
)
def test_counts_of_a_claim_stand_for_expired_marks(
    fields: dict[str, Any], options: dict[str, Any], expected: Sequence[str], status: str
) -> None:
    """They show that all expected writers vouched, while the stream expects as many."""
    domain = make_domain(MARKS[2:], expected=expected)
    claim = Claim("rows", 20, stream="orders", domain="default", missing_writers=(), vouched=COUNTS)
    table = TableClaim(20, 1, {"rows": replace(claim, **fields)})
    requirement = Requirement(to=20, **options)
    (source,) = table.list_sources()
    steps = ask_claimed_source(table, source, requirement, is_later=False)
    answer = run(steps, partial(answer_all, domain))

    assert answer.status == status


def answer_all(domain: Domain, question: Question[Any]) -> Completeness:
    """Answer a question, in a stream whose only vouching writer is the first one."""
    answer = domain.answer(convert(question.body, Requirement))
    return replace(answer, vouched=VouchedBy(1, expected=len(domain.expected)))
