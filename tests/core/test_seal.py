"""The end of a stream: the final cut, the last marks, and what holds after them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time.reading import MarkHistory
from noted_time.values import LARGEST_TIME, Mark, Note, Sealed, StreamCut, StreamSettings, reaches
from tests.core.acts import DOMAINS, Act, histories, make_world, streams
from tests.core.model import NEVER
from tests.core.twins import Step, Twins, starts, steps
from tests.core.world import World
from tests.support.honest import Event
from tests.support.streams import advance_after, make_stream, restart, seal

ALL_TROUBLE = histories("waits", "scales", "restarts", "late")


def test_a_window_at_the_final_cut_is_sealed() -> None:
    stream = make_stream("UA")
    (mark,) = advance_after(stream, Note("UA", 5, {0: 50}, max_time=8))
    final_cut = seal(stream, {0: 70}).final_cut
    last = stream.domains["default"].last
    assert last is not None
    history = MarkHistory([mark, last])
    history.seal(final_cut)

    windows = [history.window({0: offset}) for offset in (69, 70, 71)]

    assert [window.sealed for window in windows] == [False, True, True]
    assert [history.complete_to(time) for time in (5, 9, 10, LARGEST_TIME)] == [mark, *[last] * 3]
    assert (history.latest(1).last, history.latest(1).window({0: 70}).sealed) == (last, True)
    with pytest.raises(ValueError, match="does not follow"):
        history.append(Mark(3, 99, 99, StreamCut({0: 99})))


def has_declared(world: World, event: Event, domain: str) -> bool:
    """Whether its writer noted a position beyond the event with its largest time in the domain."""
    return any(
        note.writer == event.writer
        and (
            (note.domain == domain and note.max_time is not None)
            or domain in (note.max_times or ())
        )
        and note.position.get(event.segment, 0) > event.offset
        for note in world.notes
    )


@given(settings=streams, history=ALL_TROUBLE)
def test_declared_events_lie_before_the_end(settings: StreamSettings, history: list[Act]) -> None:
    world = make_world(settings, history)
    lowers = {domain: world.lower(domain) for domain in DOMAINS}
    final_cut = seal(world.stream).final_cut

    outside = [
        (domain, event)
        for domain in DOMAINS
        for event in world.events
        if has_declared(world, event, domain)
        and not (
            event.offset < final_cut.get(event.segment, 0)
            and event.times[domain] < world.lower(domain)
        )
    ]

    assert outside == []
    assert all(world.lower(domain) >= lower for domain, lower in lowers.items())


@given(settings=starts, history=steps, restarts=st.booleans())
def test_after_any_history_a_seal_ends_the_stream(
    settings: StreamSettings, history: list[Step], *, restarts: bool
) -> None:
    twins = Twins.replay(settings, history)
    code, model = twins.code, twins.model
    before = {domain: code.domains[domain].last for domain in model.marks}
    if restarts:
        code = restart(code, twins.appended_at, twins.declared_at)

    final_cut = seal(code).final_cut

    assert reaches(final_cut, model.complete(dict(final_cut)))
    assert all(reaches(final_cut, writer.position) for writer in model.writers.values())
    for domain, last in before.items():
        mark = code.domains[domain].last
        assert mark is not None
        if mark == last:
            assert model.upper[domain] < mark.lower
            assert reaches(mark.cut.offsets, final_cut)
        else:
            assert (mark.final, mark.cut.offsets) == (True, final_cut)
            assert mark.seq == (last.seq if last else 0) + 1
            assert mark.lower == max(mark.upper, last.lower if last else mark.upper) + 1
            live = {name for name, each in model.writers.items() if each.counts(domain)}
            silent = {name for name in live if model.writers[name].time(domain) == NEVER}
            assert live & {*mark.excluded} == silent
        assert code.decide(domain, twins.now) == Sealed()
        assert not code.may_advance(domain)
    assert {code.record(writer).state for writer in code.writers()} <= {"finished"}
    assert code.expire(twins.now + 10**9) == ()
