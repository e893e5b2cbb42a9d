"""Laws of order, repetition, thinning and restarts."""

from itertools import permutations
from operator import itemgetter
from unittest import mock

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time.rules import Aggregator
from noted_time.values import Accepted, Mark, Note, State, StreamCut, StreamSettings
from tests.core.acts import DOMAINS, WRITERS, Act, histories, make_world, streams
from tests.support.streams import advance_all, deliver, make_stream, restart

times = st.integers(0, 20)
offsets = st.dictionaries(st.integers(0, 3), st.integers(1, 4), max_size=2)
Strides = list[tuple[str, int, dict[int, int]]]
strides = st.lists(st.tuples(st.sampled_from(WRITERS), times, offsets), max_size=20)
resting: st.SearchStrategy[State] = st.sampled_from(("idle", "finished"))


def live_notes(steps: Strides) -> list[Note]:
    states: dict[str, tuple[int, dict[int, int]]] = {}
    notes = []
    for writer, advance_ms, gains in steps:
        time, position = states.get(writer, (0, {}))
        position = {s: position.get(s, 0) + gains.get(s, 0) for s in {*position, *gains}}
        states[writer] = (time + advance_ms % 5, position)
        notes.append(Note(writer, *states[writer]))
    return notes


def end_of(marks: list[Mark]) -> list[tuple[int, StreamCut]]:
    """Return the part of the last mark that no order may change."""
    return [(mark.lower, mark.cut) for mark in marks[-1:]]


@given(
    steps=strides,
    leaves=st.lists(st.tuples(st.sampled_from(WRITERS), resting), unique_by=itemgetter(0)),
)
def test_order_of_leaving_does_not_matter(steps: Strides, leaves: list[tuple[str, State]]) -> None:
    ends = []
    for order in permutations(leaves):
        stream = make_stream(*WRITERS)
        deliver(stream, *live_notes(steps))
        marks = advance_all(stream)
        for writer, state in order:
            deliver(stream, Note(writer, None, {4: ord(writer)}, state=state))
            marks += advance_all(stream)
        ends.append(end_of(marks))

    assert ends == ends[:1] * len(ends)


@given(steps=strides, when=st.sets(st.integers(0, 20)))
def test_rare_and_frequent_advances_end_alike(steps: Strides, when: set[int]) -> None:
    often = make_stream(*WRITERS)
    seldom = make_stream(*WRITERS)
    many = []
    few = []
    for number, note in enumerate(live_notes(steps)):
        deliver(often, note)
        many += advance_all(often)
        deliver(seldom, note)
        few += advance_all(seldom) if number in when else []
    few += advance_all(seldom)

    assert end_of(few) == end_of(many)


def durable(stream: Aggregator) -> list[tuple[object, ...]]:
    """Return all that a restart would find, but the signs of life."""
    facts: list[tuple[object, ...]] = []
    for writer in stream.writers():
        r = stream.record(writer)
        facts.append((r.writer, r.state, r.excluded, r.position, r.times, r.max_times))
    for domain in stream.settings.domains:
        facts.append((domain, stream.domains[domain].last))
    return facts


@given(settings=streams, history=histories("waits", "scales"), upto=st.integers(0, 50))
def test_replay_changes_nothing(settings: StreamSettings, history: list[Act], upto: int) -> None:
    """Repeating live members' live notes moves neither time nor anything durable.

    Changes of state are not replayed, and neither are the numbers of requests, as old ones would be
    refused.
    """
    world = make_world(settings, history)
    notes = []
    for note in world.notes[:upto]:
        author = world.authors[note.writer]
        if note.state == "live" and author.state == "live" and not author.excluded:
            notes.append(replace(note, sequence=None))
    before = durable(world.stream)
    answers = deliver(world.stream, *notes, now=world.now)
    event(f"accepted again: {min(3, sum(isinstance(a, Accepted) for a in answers))}")
    marks = []
    for domain in DOMAINS:
        marks += advance_all(world.stream, domain)

    assert (durable(world.stream), marks) == (before, [])


@given(steps=strides, kept=st.integers(1, 4))
def test_thinning_only_loosens(steps: Strides, kept: int) -> None:
    """The times are the same, and cuts between the tight ones and the latest."""
    notes = live_notes(steps)
    tight = make_stream(*WRITERS)
    latest = StreamCut({})
    wrong = []
    with mock.patch("noted_time.rules.running_cut.OFFSETS_KEPT", kept):
        thinned_stream = make_stream(*WRITERS)
    for note in notes:
        deliver(tight, note)
        with mock.patch("noted_time.rules.running_cut.OFFSETS_KEPT", kept):
            deliver(thinned_stream, note)
        latest = latest.join(StreamCut(note.position))
        for exact, loose in zip(advance_all(tight), advance_all(thinned_stream), strict=True):
            is_equal = (exact.seq, exact.lower, exact.upper) == (
                loose.seq,
                loose.lower,
                loose.upper,
            )
            if not (is_equal and loose.cut.reaches(exact.cut) and latest.reaches(loose.cut)):
                wrong.append((exact, loose))

    assert wrong == []


@given(before=strides, after=strides)
def test_a_restart_only_loosens(before: Strides, after: Strides) -> None:
    """Times, upper and chain continue as if nothing had happened; cuts stay within the latest."""
    notes = live_notes(before + after)
    stream = make_stream(*WRITERS)
    deliver(stream, *notes[: len(before)])
    restarted_stream = restart(stream)
    deliver(stream, *notes[len(before) :])
    deliver(restarted_stream, *notes[len(before) :])
    exact = advance_all(stream)
    loose = advance_all(restarted_stream)
    latest = StreamCut({})
    for note in notes:
        latest = latest.join(StreamCut(note.position))

    for exact_mark, loose_mark in zip(exact, loose, strict=True):
        assert loose_mark.seq == exact_mark.seq
        assert loose_mark.lower == exact_mark.lower
        assert loose_mark.upper == exact_mark.upper
        assert loose_mark.cut.reaches(exact_mark.cut)
        assert latest.reaches(loose_mark.cut)


@given(settings=streams, history=histories("waits", "scales", "restarts"))
def test_record_is_unchanged_by_a_restart(settings: StreamSettings, history: list[Act]) -> None:
    stream = make_world(settings, history).stream

    restarted_stream = restart(stream)

    assert [*restarted_stream.writers()] == [*stream.writers()]
    for writer in stream.writers():
        assert restarted_stream.record(writer) == stream.record(writer)
