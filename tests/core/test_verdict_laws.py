"""Laws of the judge: a complete dataset has all rows, and the greatest time is the greatest."""

from collections.abc import Iterable

from hypothesis import event, example, given
from hypothesis import strategies as st

from controller.aggregation.views.vouching import find_latecomers
from noted_time.progress import ReadOffsets
from noted_time.reading import MarkHistory
from noted_time.values import Mark, StreamCut, StreamSettings
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
        {writer: find_spells(world.stream, writer, domain, from_seq) for writer in WRITERS},
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


def list_times_at_lowers(marks: list[Mark]) -> list[int]:
    """Return the lowers of the marks, and the times just below them."""
    times = set()
    for mark in marks:
        times |= {max(0, mark.lower), max(0, mark.lower - 1)}
    return sorted(times)


def list_requirements(domain: Domain, names: set[str]) -> Iterable[Requirement]:
    """Return the questions of the stream, of readers at the cut of some mark, and of claims.

    Some readers know their offsets up to a time only, as queries with a watermark do. Each writer
    is also asked for alone.
    """
    marks = domain.history.after(0, LATER)
    readers = []
    for mark in marks:
        readers.append(ReadOffsets(mark.cut.offsets))
        readers.append(ReadOffsets(mark.cut.offsets, at_most=max(0, mark.lower - 1)))
    claims = [ReadOffsets(at_most=time) for time in list_times_at_lowers(marks)]
    for name in sorted(names):
        yield Requirement(require=(name,))
    yield Requirement(require_known=True, from_time=1)
    yield Requirement(require_known=True, from_time=3)
    for offsets in [None, *readers, *claims]:
        yield Requirement(read=offsets)
        yield Requirement(read=offsets, require=tuple(sorted(names)))
        yield Requirement(read=offsets, require_all=True)
        yield Requirement(read=offsets, require_known=True)


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
    lost_rows = []
    for domain_name in world.domains:
        domain = observe(world, domain_name, names)
        lowers = [mark.lower for mark in world.marks(domain_name)]
        for requirement in list_requirements(domain, names):
            last = max(lowers, default=0)
            verdicts = [judge_time(domain, requirement, time) for time in range(last + 2)]
            times = [time for time in range(last + 1) if verdicts[time].status == "complete"]
            greatest = judge(domain, requirement).complete_to
            assert greatest == max(times, default=None), (domain_name, requirement)
            for verdict in verdicts:
                complete += verdict.status == "complete"
                assert verdict.status != "complete" or _has_mark(domain, verdict, requirement)
                if verdict.status == "complete" and _lacks_rows(
                    world, domain_name, verdict, requirement, names
                ):
                    lost_rows.append((domain_name, verdict.time, requirement))
    event(f"complete: {min(complete, 9)}")

    assert lost_rows == []


def _has_mark(domain: Domain, verdict: Verdict, requirement: Requirement) -> bool:
    """Return whether a reader has read to the mark's cut, and knows its offsets up to the time.

    A claim has the first mark with a lower of its time, and earlier ones.
    """
    offsets = requirement.read or ReadOffsets()
    mark = verdict.mark
    if mark is None or verdict.time is None:
        return False
    if offsets.position is not None:
        has_read = StreamCut(offsets.position).reaches(mark.cut)
        return has_read and (offsets.at_most is None or verdict.time <= offsets.at_most)
    return offsets.at_most is None or mark.seq <= domain.history.complete_to(offsets.at_most).seq


def _lacks_rows(
    world: Witness, domain: str, verdict: Verdict, requirement: Requirement, names: set[str]
) -> bool:
    if not requirement.names_writers or verdict.mark is None or verdict.time is None:
        return False
    if requirement.require_known:  # which members joined is the question of another law
        return False
    required_writers = {*requirement.require} or names
    return bool(required_writers & {*rows_beyond(world, domain, verdict.mark, verdict.time)})


@given(settings=streams, history=TROUBLE, names=st.sets(st.sampled_from(WRITERS), min_size=1))
def test_waiting_ends_once_writers_note(
    settings: StreamSettings, history: list[Act], names: set[str]
) -> None:
    """Law: if each expected writer notes a later time, nothing waits any more."""
    world = witness(settings, history, states_since=False)
    marks = {domain: world.marks(domain) for domain in world.domains}
    for _ in range(2):
        for writer in WRITERS:
            for domain_name in world.domains:
                perform(world, ("note", (writer, domain_name, LATER, True, "live", "nothing")))
        for domain_name in world.domains:
            while world.advance(domain_name):
                pass

    for domain_name in world.domains:
        domain = observe(world, domain_name, names)
        vouching = {name for name in names if domain_name in world.authors[name].domains}
        for mark in marks[domain_name]:
            requirement = Requirement(require=tuple(sorted(vouching)))
            assert judge_time(domain, requirement, mark.lower).status in {"complete", "incomplete"}
