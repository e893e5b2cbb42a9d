"""When the upper of a mark is a bound: no event below its cut has a larger time."""

from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from noted_time import (
    Aggregator,
    MarkHistory,
    Note,
    Refused,
    ScaleEvent,
    SealRequest,
    StreamSettings,
)
from noted_time.reading import Tiling, complete_windows
from noted_time.values import MAX_INT64, Beyond
from tests.core.acts import WRITERS, Act, declared_histories, histories, lived, streams
from tests.support.streams import deliver, expiries, marks_after, marks_of, restarted, stream_of

TWO = ("order", "ship")
FORGOTTEN_MS = 6


def bounds(stream: Aggregator, *notes: Note) -> list[bool]:
    """Accept each note and let time advance; return whether the upper of each mark is a bound."""
    return [mark.upper_is_bound for note in notes for mark in marks_after(stream, note)]


def both(stream: Aggregator) -> list[bool]:
    """Let the time of two domains advance; return whether the upper of each mark is a bound."""
    return [mark.upper_is_bound for domain in TWO for mark in marks_of(stream, domain)]


# What is undeclared


def test_what_a_note_gains_is_undeclared_until_the_next_that_declares() -> None:
    """It may have any time, whatever was declared before."""
    assert bounds(
        stream_of(),
        Note("UA", 5, {0: 1}, max_time=6),
        Note("UA", 7, {0: 2}),
        Note("UA", 8),
        Note("UA", 9, max_time=6),
    ) == [True, False, False, True]


def test_what_is_gained_is_undeclared_in_each_domain_that_the_note_does_not_declare() -> None:
    """A client that was killed between its two notes has noted only one domain."""
    stream = stream_of(domains=TWO)
    for time, offset in ((5, 1), (7, 2)):
        for domain in TWO:
            deliver(stream, Note("UA", time, {0: offset}, domain, max_time=time))
    before = both(stream)

    deliver(stream, Note("UA", 9, {0: 3}, "order", max_time=9), Note("UA", 9, {}, "ship"))

    assert (before, both(stream)) == ([True, True], [True, False])


def test_a_note_declares_all_domains_at_once() -> None:
    """Whatever its own domain is."""
    stream = stream_of(domains=TWO)
    deliver(stream, Note("UA", 5, {0: 1}, "order", max_times={"order": 6, "ship": 30}))
    deliver(stream, Note("UA", 5, {}, "ship"))

    marks = {domain: marks_of(stream, domain) for domain in TWO}

    uppers = {k: [(mark.upper, mark.upper_is_bound) for mark in made] for k, made in marks.items()}
    assert uppers == {"order": [(6, True)], "ship": [(30, True)]}


@pytest.mark.parametrize("times", [(6, 8), (8, 6)])
def test_of_two_largest_times_of_one_domain_the_larger_counts(times: tuple[int, int]) -> None:
    """`max_time` is that of the note's own domain, which `max_times` may name as well."""
    own, named = times
    note = Note("UA", 5, {0: 1}, max_time=own, max_times={"default": named})

    (mark,) = marks_after(stream_of(), note)

    assert (mark.upper, mark.upper_is_bound) == (8, True)


def test_largest_times_are_judged_like_any_other() -> None:
    """Domains must be declared, and no time too far ahead; nothing is taken then."""
    stream = stream_of(domains=TWO)

    answers = [
        stream.note(Note("UA", 5, {0: 1}, "order", max_times=times), now=0, largest_time=10)
        for times in ({"order": 9, "pay": 1}, {"ship": 11}, {"ship": -MAX_INT64 - 1})
    ]

    too_far = [Refused("too_far_ahead", 10, Beyond("max_times.ship", 11))]
    too_far += [Refused("too_far_ahead", 10, Beyond("max_times.ship", -MAX_INT64 - 1))]
    assert (answers, len(stream)) == ([Refused("unknown_domain"), *too_far], 0)


def test_a_domain_that_a_writer_does_not_vouch_for_is_undeclared_too() -> None:
    """Its rows are below the cut of that domain; it may declare their times all the same."""
    stream = stream_of("DL", domains=TWO)
    deliver(stream, Note("UA", 5, {0: 1}, "order", 6, domains=("order",)))
    deliver(stream, Note("DL", 5, {1: 1}, "ship", 6))
    before = [mark.upper_is_bound for mark in marks_of(stream, "ship")]

    deliver(stream, Note("UA", 6, {0: 2}, "order", 6, max_times={"ship": 9}))
    deliver(stream, Note("DL", 9, {1: 2}, "ship", 9))

    assert (before, [m.upper_is_bound for m in marks_of(stream, "ship")]) == ([False], [True])


def test_what_is_undeclared_survives_a_restart() -> None:
    """Also if times were declared before."""
    stream = stream_of()
    marks_after(stream, Note("UA", 5, {0: 1}, max_time=6))
    deliver(stream, Note("UA", 7, {0: 2}))

    again = restarted(stream)

    assert again.record("UA").undeclared == ("default",)
    assert [mark.upper_is_bound for mark in marks_of(again)] == [False]
    assert bounds(again, Note("UA", 8, max_time=8)) == [True]


def test_a_removed_writer_that_wrote_nothing_returns_with_nothing_undeclared() -> None:
    """It had noted only a time, which no longer counts."""
    stream = stream_of("UA", "DL", domains=TWO)
    deliver(stream, Note("UA", 1, {0: 7}, domain="order", max_time=2))
    deliver(stream, Note("DL", 0, domain="order"), Note("DL", domains=("ship",)))
    stream.remove("DL", now=0)

    deliver(stream, Note("DL"))

    assert both(stream) == [True]


def test_a_writer_that_is_forgotten_undeclared_leaves_no_bound() -> None:
    """Its rows stay below the cut, also after a restart and once all others have declared."""
    stream = stream_of("UA")
    deliver(stream, Note("UA", 5, {0: 1}, state="finished"), Note("DL", 6, {1: 1}))
    marks_of(stream)
    stream.forget_departed(10**9, 9)

    again = restarted(stream)

    assert (len(again), again.unbounded) == (1, ("default",))
    assert bounds(again, Note("DL", 7, max_time=9)) == [False]


# Segments that two members name


def test_a_cut_of_a_segment_that_two_members_name_bounds_nothing() -> None:
    """It may cover rows of one that only the other has passed."""
    stream = stream_of()

    assert bounds(
        stream,
        Note("UA", 5, {0: 1}, max_time=6),
        Note("DL", 6, {0: 2}, max_time=6),
        Note("UA", 6, {0: 3}, max_time=6),
        Note("DL", 7, max_time=7),
        Note("UA", 7, max_time=7),
    ) == [True, False, False]


def test_a_segment_goes_from_a_writer_that_finished_to_the_next() -> None:
    """The position of the first is final, and the second one begins behind it."""
    stream = stream_of()
    marks_after(stream, Note("UA", 5, {0: 10}, max_time=5), Note("UA", state="finished"))

    for each in (stream, restarted(stream)):
        assert bounds(each, Note("DL", 6, {0: 12}, max_time=6)) == [True]


@pytest.mark.parametrize("state", ["live", "idle"])
def test_a_segment_does_not_go_from_a_writer_that_may_return(state: str) -> None:
    """The position of the other passes what it writes then."""
    stream = stream_of()
    marks_after(stream, Note("UA", 5, {0: 10}, max_time=5), Note("UA", state=state))  # type: ignore[arg-type]
    expiries(stream, 10**9)

    assert bounds(stream, Note("DL", 6, {0: 12}, max_time=6)) == [False]


def test_a_writer_that_finished_and_returns_shares_what_went_to_another() -> None:
    """From then on both write."""
    stream = stream_of()
    marks_after(stream, Note("UA", 5, {0: 10}, max_time=5), Note("UA", state="finished"))
    marks_after(stream, Note("DL", 6, {0: 12}, max_time=6))
    deliver(stream, Note("UA", 7))

    assert bounds(stream, Note("DL", 8, max_time=8)) == [False]


def test_a_successor_passes_its_predecessor_until_the_writer_of_that_is_at_its_end() -> None:
    """To name a successor is not to write to what was sealed."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 5, {0: 10}, max_time=5))
    stream.scale(ScaleEvent({0: 12}, {1: (0,)}))

    passed = bounds(stream, Note("DL", 6, {1: 3}, max_time=6), Note("UA", 6, {0: 11}, max_time=6))
    noted = bounds(stream, Note("UA", 7, {0: 12}, max_time=7), Note("DL", 7, {1: 4}, max_time=7))

    assert (passed, noted) == ([False], [True])


def test_a_successor_that_is_only_named_leaves_nothing_undeclared() -> None:
    """Whichever writer wrote the predecessor declared it."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 5, {0: 12}, max_time=5))
    stream.scale(ScaleEvent({0: 12}, {1: (0,)}))
    deliver(stream, Note("DL", None, {1: 0}), Note("DL", 6))

    assert bounds(stream, Note("UA", 6, max_time=5), Note("DL", 6, max_time=6)) == [False]
    assert not stream.domains["default"].undeclared


def test_a_writer_that_died_is_remembered_as_long_as_it_alone_wrote_to_a_segment() -> None:
    """A writer that continues there passes rows it may not have noted, also after a restart."""
    stream = stream_of()
    marks_after(stream, Note("UA", 5, {0: 10}, max_time=5))
    marks_after(stream, Note("DL", 6, {1: 10}, max_time=6))
    expiries(stream, 10**6)
    marks_after(stream, Note("DL", 7, max_time=7), now=10**6)
    stream.forget_departed(10**9, 9)

    again = restarted(stream)

    assert bounds(again, Note("DL", 8, {0: 12}, max_time=8)) == [False]
    again.forget_departed(10**9, 9)
    assert (list(again.writers()), again.unbounded) == (["DL"], ("default",))


def test_a_segment_does_not_go_to_a_writer_that_begins_before_the_end_of_the_first() -> None:
    """It wrote beside it, and the cut passes what it has still to note."""
    stream = stream_of()
    marks_after(stream, Note("UA", 5, {0: 10}, max_time=5), Note("UA", state="finished"))

    assert bounds(stream, Note("DL", 6, {0: 8}, max_time=6)) == [False]


# Laws


@given(settings=streams, history=declared_histories(), seals=st.booleans())
def test_no_event_below_the_cut_is_above_a_bound(
    settings: StreamSettings, history: list[Act], *, seals: bool
) -> None:
    """Through lost answers, kills, narrowing, shared segments, removals, in two domains."""
    world = lived(replace(settings, writer_retention_ms=FORGOTTEN_MS), history, names_first=True)
    made = [(each.domain, each.mark, each.unbound) for each in world.made]
    if seals:
        world.stream.seal(SealRequest(), now=world.now, written_at=0)
        lasts = [(domain, world.stream.domains[domain].last) for domain in world.domains]
        made += [(k, last, world.unbound(k, last)) for k, last in lasts if last and last.final]
    bounded = sum(mark.upper_is_bound and bool(mark.cut.offsets) for _, mark, _ in made)
    event(f"bounds of a cut: {min(5, bounded)}")

    assert [each for each in made if each[1].upper_is_bound and each[2]] == []


@given(settings=streams, history=declared_histories(), size=st.integers(1, 9))
def test_an_exact_window_has_all_its_rows(
    settings: StreamSettings, history: list[Act], size: int
) -> None:
    """None of its rows lies below the cut it begins with, no matter which writer wrote it."""
    world = lived(replace(settings, writer_retention_ms=FORGOTTEN_MS), history, names_first=True)
    lost = []
    for domain in world.domains:
        marks = MarkHistory(made.mark for made in world.made if made.domain == domain)
        for window in complete_windows(marks, Tiling(size), after=0, limit=99):
            before = window.from_cut.offsets
            lost += [
                (window, row)
                for row in world.events
                if window.exact
                and window.start <= row.times[domain] < window.end
                and row.offset < before.get(row.segment, 0)
            ]

    assert lost == []


@given(settings=streams, history=histories("waits", "restarts", "late"))
def test_the_upper_is_a_bound_if_all_declare_and_share_no_segment(
    settings: StreamSettings, history: list[Act]
) -> None:
    """No mark is needlessly without one: each writer has a segment, and declares all domains."""
    own: list[Act] = [("write", (writer, 0, {})) for writer in WRITERS]
    own += [act for act in history if act[0] != "note" or act[1][-1] == "all"]
    world = lived(settings, [_alone(*act) for act in own], segments=len(WRITERS))

    assert [made for made in world.made if made.unbound or not made.mark.upper_is_bound] == []


def _alone(name: str, parts: tuple[object, ...]) -> Act:
    if name == "write":
        parts = (parts[0], WRITERS.index(str(parts[0])), parts[2])
    return name, parts
