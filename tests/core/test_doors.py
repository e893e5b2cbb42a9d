"""Law: one state, one answer, from each door that has read all rows of the stream."""

from collections.abc import Iterator

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time.progress import ReadOffsets
from noted_time.values import Mark, StreamSettings
from noted_time.verdict import Requirement, VerdictStatus
from tests.core.acts import WRITERS, Act, streams
from tests.core.test_verdict_laws import LATER, list_times_at_lowers, observe, witness
from tests.core.test_vouching import TROUBLE
from tests.support.judged import Domain


def list_questions(names: set[str], marks: list[Mark]) -> Iterator[Requirement]:
    """Yield questions about times that the last mark has reached."""
    for time in list_times_at_lowers(marks):
        yield Requirement(to=time)
        for name in sorted(names):
            yield Requirement(to=time, require=(name,))
        yield Requirement(to=time, require_known=True)
        yield Requirement(to=time, require_all=True)


def ask_doors(domain: Domain, requirement: Requirement, last: Mark) -> dict[str, VerdictStatus]:
    """Return the status that each door answers with. Each has read up to the last mark."""
    readers = {
        "group": ReadOffsets(last.cut.offsets),
        "checkpoint": ReadOffsets(last.cut.offsets, at_most=last.lower),
        "claim": ReadOffsets(at_most=last.lower),
    }
    return {
        name: domain.answer(replace(requirement, read=offsets)).status
        for name, offsets in readers.items()
    }


@given(
    settings=streams,
    history=TROUBLE,
    names=st.sets(st.sampled_from(WRITERS), min_size=1, max_size=2),
)
def test_each_door_gives_the_answer_of_the_stream(
    settings: StreamSettings, history: list[Act], names: set[str]
) -> None:
    """The sensor, `why` and batch reads ask the stream's question."""
    world = witness(settings, history, states_since=False)
    asked_doors = 0
    for name in world.domains:
        domain = observe(world, name, names)
        last = domain.history.last
        if last is None or not last.cut.offsets:
            continue  # offsets have no time there
        for requirement in list_questions(names, domain.history.after(0, LATER)):
            expected = domain.answer(requirement).status
            statuses = ask_doors(domain, requirement, last)
            asked_doors += 1
            assert statuses == dict.fromkeys(statuses, expected), requirement
    event(f"doors: {min(asked_doors, 9)}")
