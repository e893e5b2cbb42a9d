"""Laws of the judge: a complete dataset has all rows, and the greatest time is the greatest."""

from collections.abc import Iterable
from typing import NamedTuple, get_args

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time.progress import ReadOffsets
from noted_time.reading import Commit, MarkHistory, NoClaim, TableClaim, TableHistory
from noted_time.tables.pins import Pin, build_inheritance
from noted_time.values import MIN_INT64, Claim, ClaimSource, Mark, StreamCut, StreamSettings
from noted_time.verdict import (
    Completeness,
    Requirement,
    Verdict,
    add_writers,
    ask_source,
    find_unanswered,
    judge,
    judge_claim,
    judge_time,
)
from tests.core.acts import WRITERS, Act, Kind, histories, live, perform, streams
from tests.core.test_vouching import (
    OPENS_FIRST,
    TROUBLE,
    Witness,
    find_spells,
    find_whole,
    rows_beyond,
)
from tests.support.judged import Domain

LATER = 1000


def observe(world: Witness, domain: str, expected: Iterable[str]) -> Domain:
    """Return a domain of a world, for the judge."""
    from_seq, history = find_whole(world, domain), MarkHistory(world.marks(domain))
    if world.stream.sealed:
        history.seal(world.stream.sealed.final_cut)
    return Domain(
        history,
        world.missing[domain],
        world.late[domain],
        {each: find_spells(world.stream, each, domain, from_seq) for each in WRITERS},
        sorted(expected),
        forgotten_seq=from_seq,
        domain=domain,
    )


def witness(settings: StreamSettings, history: list[Act], *, states_since: bool) -> Witness:
    world = Witness(settings)
    world.states_since = states_since
    live(world, OPENS_FIRST + history if states_since else history)
    return world


def list_requirements(domain: Domain, names: set[str]) -> Iterable[Requirement]:
    """Return the questions of the stream, of readers at the cut of some mark, and of claims.

    Some readers know their offsets up to a time only, as queries with a watermark do. Each writer
    is also asked for alone.
    """
    marks = domain.history.after(0, LATER)
    readers = [ReadOffsets(each.cut.offsets) for each in marks]
    readers += [ReadOffsets(each.cut.offsets, at_most=max(0, each.lower - 1)) for each in marks]
    times = {max(0, each.lower - behind) for each in marks for behind in (0, 1)}
    claims = [ReadOffsets(at_most=each) for each in sorted(times)]
    yield from (Requirement(require=(name,)) for name in sorted(names))
    for read in [None, *readers, *claims]:
        yield Requirement(read=read)
        yield Requirement(read=read, require=tuple(sorted(names)))
        yield Requirement(read=read, require_all=True)


@given(
    settings=streams,
    history=TROUBLE,
    names=st.sets(st.sampled_from(WRITERS), min_size=1),
    states_since=st.booleans(),
)
def test_complete_dataset_has_all_required_rows(
    settings: StreamSettings,
    history: list[Act],
    names: set[str],
    states_since: bool,  # noqa: FBT001 - drawn
) -> None:
    """Law: for every time, requirement and reader; `complete_to` is the greatest such time."""
    world = witness(settings, history, states_since=states_since)
    complete, lost = 0, []
    for each in world.domains:
        domain = observe(world, each, names)
        lowers = [mark.lower for mark in world.marks(each)]
        for asked in list_requirements(domain, names):
            last = max(lowers, default=0)
            found = [judge_time(domain, asked, time) for time in range(last + 2)]
            times = [time for time in range(last + 1) if found[time].status == "complete"]
            greatest = judge(domain, asked).complete_to
            assert greatest == max(times, default=None), (each, asked)
            for one in found:
                complete += one.status == "complete"
                assert one.status != "complete" or _has_mark(domain, one, asked)
                if one.status == "complete" and _lacks_rows(world, each, one, asked, names):
                    lost.append((each, one.time, asked))
    event(f"complete: {min(complete, 9)}")

    assert lost == []


def _has_mark(domain: Domain, verdict: Verdict, asked: Requirement) -> bool:
    """Return whether a reader has read to the mark's cut, and knows its offsets up to the time.

    A claim has the first mark with a lower of its time, and earlier ones.
    """
    read, mark = asked.read or ReadOffsets(), verdict.mark
    if mark is None or verdict.time is None:
        return False
    if read.position is not None:
        has_read = StreamCut(read.position).reaches(mark.cut)
        return has_read and (read.at_most is None or verdict.time <= read.at_most)
    return read.at_most is None or mark.seq <= domain.history.complete_to(read.at_most).seq


def _lacks_rows(
    world: Witness, domain: str, verdict: Verdict, asked: Requirement, names: set[str]
) -> bool:
    if not asked.names_writers or verdict.mark is None or verdict.time is None:
        return False
    required = {*asked.require} or names
    return bool(required & {*rows_beyond(world, domain, verdict.mark, verdict.time)})


class ClaimedTable(NamedTuple):
    """A table with a commit for each mark that it has; a job's table has the last ones only."""

    history: TableHistory
    marks: dict[str, list[Mark]]


def write_table(domain: Domain) -> ClaimedTable:
    """Return the table of a query, whose last claim names the writers."""
    claims, marks = list[Claim](), domain.history.after(0, LATER)
    source = ClaimSource(domain.stream, domain.domain)
    for mark in marks:
        one = Claim("rows", mark.lower, "t", "q", mark.seq, id=str(mark.seq), from_time=MIN_INT64)
        claims.append(replace(one, stream=source.stream, domain=source.domain))
    answer = domain.answer(Requirement(to=marks[-1].lower))
    claims[-1] = add_writers(claims[-1], source, answer, None)
    commits = [
        Commit(number, number - 1 if number else None, "append", claims={"rows": each})
        for number, each in enumerate(claims)
    ]
    return ClaimedTable(TableHistory(commits), {domain.domain: [*marks]})


def run_job(sources: list[ClaimedTable], delay_ms: int) -> ClaimedTable:
    """Return the table of a job that has read all rows of its sources, and inherits."""
    written, pinned = Commit(0, None, "append"), {}
    for number, each in enumerate(sources):
        pinned[Pin.of(f"source{number}", each.history)] = each.history
    record = build_inheritance(
        "days", TableHistory((written,)), "days", "t", pinned, delay_ms=delay_ms
    )
    claimed = Commit(1, 0, "none", claims={"days": replace(record, id="days")})
    marks = {domain: [known[-1]] for each in sources for domain, known in each.marks.items()}
    return ClaimedTable(TableHistory((written, claimed)), marks)


def judge_table(
    table: ClaimedTable, domains: dict[str, Domain], asked: Requirement, time: int
) -> tuple[Completeness, int]:
    """Return the answer of the first version that has the time, and the place of its marks."""
    last = table.history.claim()
    assert isinstance(last, TableClaim)
    version = last.version_at(time)
    first = None if version is None else table.history.cut_at(version)
    claim = last if first is None else first.claim()
    assert not isinstance(claim, NoClaim)
    unanswered = find_unanswered(claim, asked)
    assert unanswered is not None
    answers = {
        each: domains[each.domain or ""].answer(ask_source(claim, each, asked))
        for each in unanswered
    }
    place = -1 if version is None or len(table.marks) > 1 else version
    return judge_claim("t", claim, time, asked, answers), place


@given(
    settings=streams,
    history=histories(*get_args(Kind)),
    later=TROUBLE,
    names=st.sets(st.sampled_from(WRITERS), min_size=1),
    delay_ms=st.integers(0, 2),
)
def test_complete_table_has_all_required_rows(
    settings: StreamSettings, history: list[Act], later: list[Act], names: set[str], delay_ms: int
) -> None:
    """Law: also of a job's table that inherits from two others, after the stream has gone on."""
    world = witness(settings, history, states_since=True)
    seen = {each: observe(world, each, names) for each in world.domains}
    tables = [write_table(each) for each in seen.values() if len(each.history)]
    tables += [run_job(tables, delay_ms)] if tables else []
    live(world, later)
    domains = {each: observe(world, each, names) for each in world.domains}
    complete, lost = 0, []
    for table in tables:
        last = max(known[-1].lower for known in table.marks.values())
        for asked in (Requirement(require=tuple(sorted(names))), Requirement(require_all=True)):
            for time in range(last + 2):
                found, place = judge_table(table, domains, replace(asked, to=time), time)
                if found.is_complete:
                    complete += 1
                    for domain, marks in table.marks.items():
                        rows = rows_beyond(world, domain, marks[place], time)
                        lost += [(domain, time, asked, each) for each in names & {*rows}]
    event(f"complete: {min(complete, 9)}")

    assert lost == []


@given(settings=streams, history=TROUBLE, names=st.sets(st.sampled_from(WRITERS), min_size=1))
def test_waiting_ends_once_writers_note(
    settings: StreamSettings, history: list[Act], names: set[str]
) -> None:
    """Law: if each expected writer notes a later time, nothing waits any more."""
    world = witness(settings, history, states_since=False)
    marks = {each: world.marks(each) for each in world.domains}
    for _ in range(2):
        for writer in WRITERS:
            for each in world.domains:
                perform(world, ("note", (writer, each, LATER, True, "live", "nothing")))
        for each in world.domains:
            while world.advance(each):
                pass

    for each in world.domains:
        domain = observe(world, each, names)
        vouching = {name for name in names if each in world.authors[name].domains}
        for mark in marks[each]:
            asked = Requirement(require=tuple(sorted(vouching)))
            assert judge_time(domain, asked, mark.lower).status in {"complete", "incomplete"}
