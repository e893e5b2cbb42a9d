"""Laws of the judge: a complete dataset has all rows, and the greatest time is the greatest."""

from collections.abc import Iterable

from hypothesis import event, example, given
from hypothesis import strategies as st

from controller.aggregation.views.vouching import find_latecomers
from noted_time.progress import ReadOffsets
from noted_time.reading import MarkHistory
from noted_time.values import StreamCut, StreamSettings
from noted_time.verdict import Requirement, Verdict, judge, judge_time
from tests.core.acts import DOMAINS, WRITERS, Act, live, perform, streams
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
    from_seq = find_whole(world, domain)
    history = MarkHistory(world.marks(domain))
    members = [world.stream.member(writer) for writer in world.stream.writers()]
    number = world.stream.domains.numbers[domain]
    if world.stream.sealed:
        history.seal(world.stream.sealed.final_cut)
    return Domain(
        history,
        world.missing[domain],
        world.late[domain],
        {each: find_spells(world.stream, each, domain, from_seq) for each in WRITERS},
        sorted(expected),
        latecomers=[*find_latecomers(members, number, world.late[domain])],
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
    readers = [ReadOffsets(mark.cut.offsets) for mark in marks]
    readers += [ReadOffsets(mark.cut.offsets, at_most=max(0, mark.lower - 1)) for mark in marks]
    times = {max(0, mark.lower - behind) for mark in marks for behind in (0, 1)}
    claims = [ReadOffsets(at_most=time) for time in sorted(times)]
    yield from (Requirement(require=(name,)) for name in sorted(names))
    yield from (Requirement(require_known=True, from_time=each) for each in (1, 3))
    for read in [None, *readers, *claims]:
        yield Requirement(read=read)
        yield Requirement(read=read, require=tuple(sorted(names)))
        yield Requirement(read=read, require_all=True)
        yield Requirement(read=read, require_known=True)


LATECOMER: list[Act] = [("note", ("b", "order", 1, True, "live", "nothing"))]
"""A writer first notes below the lower, and states where its rows begin."""


@given(
    settings=streams,
    history=TROUBLE,
    names=st.sets(st.sampled_from(WRITERS), min_size=1),
    states_since=st.booleans(),
)
@example(
    settings=StreamSettings(domains=DOMAINS), history=LATECOMER, names={"a"}, states_since=True
)
def test_complete_dataset_has_all_required_rows(
    settings: StreamSettings,
    history: list[Act],
    names: set[str],
    states_since: bool,  # noqa: FBT001 - drawn
) -> None:
    """Law: for every time, requirement and reader; `complete_to` is the greatest such time."""
    world = witness(settings, history, states_since=states_since)
    complete = 0
    lost = []
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
    read = asked.read or ReadOffsets()
    mark = verdict.mark
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
    if asked.require_known:  # which members joined is the question of another law
        return False
    required = {*asked.require} or names
    return bool(required & {*rows_beyond(world, domain, verdict.mark, verdict.time)})


@given(settings=streams, history=TROUBLE, names=st.sets(st.sampled_from(WRITERS), min_size=1))
def test_waiting_ends_once_writers_note(
    settings: StreamSettings, history: list[Act], names: set[str]
) -> None:
    """Law: if each expected writer notes a later time, nothing waits any more."""
    world = witness(settings, history, states_since=False)
    marks = {domain: world.marks(domain) for domain in world.domains}
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
