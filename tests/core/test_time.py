"""Rules 3, 4 and 5: when time advances, how tight the cut is and what the upper means."""

import pytest

from noted_time import Hold, Mark, Note, Quiet, StreamCut, Waiting
from tests.support.streams import TIMEOUT_MS, deliver, lowers, marks_after, marks_of, stream_of


def cuts(marks: list[Mark]) -> list[StreamCut]:
    """Return the cut of each mark."""
    return [mark.cut for mark in marks]


def test_a_mark_waits_for_the_slowest_live_writer() -> None:
    """The lower is the least of the live members' times."""
    stream = stream_of("UA", "DL", "AA")

    marks = marks_after(stream, Note("UA", 30), Note("DL", 10), Note("AA", 20))

    assert lowers(marks) == [10]


def test_time_stands_while_a_member_is_at_the_last_lower() -> None:
    """Equal is not above."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10), Note("DL", 20))

    marks = marks_after(stream, Note("UA", 10), Note("DL", 30))

    assert (marks, stream.decide("default", now=5)) == (
        [],
        Hold((Waiting("UA", 10, held_for_ms=5, times_out_in_ms=TIMEOUT_MS - 5),), 1),
    )


def test_one_above_the_last_lower_is_enough() -> None:
    """Time is an integer; the next one is above."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10), Note("DL", 20))

    assert lowers(marks_after(stream, Note("UA", 11))) == [11]


def test_the_longest_holder_is_named_first() -> None:
    """Then by name."""
    stream = stream_of("b")
    deliver(stream, Note("c"), Note("a"), now=3)

    decision = stream.decide("default", now=5)

    assert isinstance(decision, Hold)
    assert [(w.writer, w.held_for_ms) for w in decision.waiting_for] == [
        ("b", 5),
        ("a", 2),
        ("c", 2),
    ]


def test_with_no_live_member_left_the_highest_time_is_flushed_once() -> None:
    """Then the stream is quiet."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10), Note("DL", 30))

    marks = marks_after(stream, Note("DL", state="idle"), Note("UA", state="finished"))

    assert (lowers(marks), stream.decide("default", now=0)) == ([30], Quiet())


def test_a_stream_without_notes_is_quiet() -> None:
    """Infinite times do not exist."""
    stream = stream_of("UA")

    marks = marks_after(stream, Note("UA", state="finished"))

    assert (marks, stream.decide("default", now=0)) == ([], Quiet())


def test_the_cut_takes_the_first_note_at_or_above_the_lower() -> None:
    """Not the one before it, and not the latest."""
    stream = stream_of("UA", "DL")
    deliver(stream, *(Note("UA", time, {0: time * 10}) for time in (8, 9, 10, 11)))

    marks = marks_after(stream, Note("DL", 10, {1: 1}))

    assert cuts(marks) == [StreamCut({0: 100, 1: 1})]


def test_the_first_of_two_notes_at_one_time_is_the_tight_one() -> None:
    """The second only means that more was written at or after it."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("UA", 10, {0: 100}), Note("UA", 10, {0: 150}))

    marks = marks_after(stream, Note("DL", 10, {1: 1}))

    assert cuts(marks) == [StreamCut({0: 100, 1: 1})]


def test_what_was_written_between_notes_waits_for_the_next_one() -> None:
    """A position without a time moves no cut until a time is noted on it."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10, {0: 100}), Note("DL", 10))
    deliver(stream, Note("UA", None, {0: 150}), Note("UA", 20, {0: 170}))

    marks = marks_after(stream, Note("DL", 30))

    assert cuts(marks) == [StreamCut({0: 170})]


def test_a_note_of_another_domain_moves_no_cut_of_this_one() -> None:
    """Positions are shared by the domains, the moments at which they count are not."""
    stream = stream_of("UA", "DL", domains=("order", "ship"))
    deliver(
        stream, Note("UA", 10, {0: 100}, domain="order"), Note("UA", 90, {0: 150}, domain="ship")
    )

    deliver(stream, Note("DL", 10, domain="order"))

    assert cuts(marks_of(stream, "order")) == [StreamCut({0: 100})]


def test_a_leaving_writers_last_events_lie_inside_the_next_cut() -> None:
    """Leaving is a note at +infinity with the position given."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10, {0: 100}), Note("DL", 10))
    deliver(stream, Note("UA", None, {0: 140}, state="finished"))

    marks = marks_after(stream, Note("DL", 20))

    assert cuts(marks) == [StreamCut({0: 140})]


def test_an_idle_writer_that_noted_enough_gives_that_position() -> None:
    """+infinity comes after its notes, so the first at or above the lower still counts."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("UA", 10, {0: 100}), Note("UA", None, {0: 140}, state="idle"))

    marks = marks_after(stream, Note("DL", 5)) + marks_after(stream, Note("DL", 20))

    assert cuts(marks) == [StreamCut({0: 100}), StreamCut({0: 140})]


def test_the_entry_of_an_idle_writer_is_withdrawn_when_it_returns() -> None:
    """It promised nothing for what it writes then."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10, {0: 100}), Note("DL", 10))
    deliver(stream, Note("UA", None, {0: 140}, state="idle"), Note("UA", 15, {0: 150}))

    marks = marks_after(stream, Note("DL", 20))

    assert (lowers(marks), cuts(marks)) == ([15], [StreamCut({0: 150})])


def test_thinning_loosens_no_further_than_the_next_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond what is kept every second one waits for the time before its own."""
    monkeypatch.setattr("noted_time.rules.state.running_cut.OFFSETS_KEPT", 8)
    stream = stream_of("UA", "DL")
    deliver(stream, *(Note("UA", time, {0: time}) for time in range(1, 10)))

    marks = marks_after(stream, Note("DL", 3)) + marks_after(stream, Note("DL", 4))

    assert cuts(marks) == [StreamCut({0: 4}), StreamCut({0: 4})]


def test_thinning_ends_where_segments_leave_nothing_to_join(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is kept then is what there is, and it may double before the next time."""
    monkeypatch.setattr("noted_time.rules.state.running_cut.OFFSETS_KEPT", 8)
    stream = stream_of("UA", "DL")
    deliver(stream, *(Note("UA", time, {time: time}) for time in range(1, 41)))

    (mark,) = marks_after(stream, Note("DL", 40))

    assert mark.cut == StreamCut({time: time for time in range(1, 41)})


def test_the_upper_is_the_largest_event_time_declared() -> None:
    """Of all members, not only of those whose notes shaped the cut."""
    stream = stream_of("UA", "DL")

    marks = marks_after(stream, Note("UA", 10, max_time=14), Note("DL", 12, max_time=77))

    assert [mark.upper for mark in marks] == [77]


def test_the_upper_takes_the_noted_time_of_a_writer_that_declares_none() -> None:
    """It is then an estimate."""
    stream = stream_of("UA", "DL")

    marks = marks_after(stream, Note("UA", 10, max_time=14), Note("DL", 50))

    assert [mark.upper for mark in marks] == [50]


def test_the_noted_time_of_a_writer_that_declares_its_events_is_no_upper() -> None:
    """It may be far ahead of what was written."""
    stream = stream_of("UA")

    marks = marks_after(stream, Note("UA", 90, max_time=14))

    assert [(mark.lower, mark.upper) for mark in marks] == [(90, 14)]


def test_keys_make_marks_apart() -> None:
    """Each counts its own seq."""
    stream = stream_of(domains=("order", "ship"))
    for time in (1, 2):
        deliver(stream, Note("UA", time, domain="order"))
        marks_of(stream, "order")

    deliver(stream, Note("UA", 5, domain="ship"))

    assert [m.seq for m in marks_of(stream, "ship")] == [1]


def test_a_decision_names_the_longest_holders_and_counts_all() -> None:
    """Of more than a thousand holders the thousand longest are named."""
    stream = stream_of()
    for n in range(1001):
        stream.note(Note(f"w{n:04}"), now=n)

    decision = stream.decide("default", now=2000)
    assert isinstance(decision, Hold)
    named = [waiting.writer for waiting in decision.waiting_for]
    assert (named, decision.holders) == ([f"w{n:04}" for n in range(1000)], 1001)
