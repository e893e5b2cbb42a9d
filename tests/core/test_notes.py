"""Rules 1 and 2: which notes are accepted, and what makes a member."""

from typing import Any

import pytest

from noted_time import Accepted, Note, Quiet, Refused, State
from noted_time.values import Beyond
from tests.support.streams import (
    TIMEOUT_MS,
    deliver,
    lowers,
    marks_after,
    marks_of,
    restarted,
    stream_of,
    waiting,
)


def test_a_time_below_the_writers_last_is_refused_with_the_stored_value() -> None:
    """One below is too low, and the answer gives the value it fell behind."""
    stream = stream_of("UA")

    answers = deliver(stream, Note("UA", 10), Note("UA", 9))

    assert answers == [Accepted(None), Refused("invalid_time", 10)]


def test_an_equal_time_at_an_equal_position_is_accepted() -> None:
    """A replay is a note like any other."""
    stream = stream_of("UA")

    answers = deliver(stream, Note("UA", 10, {0: 5}), Note("UA", 10, {0: 5}))

    assert answers == [Accepted(None), Accepted(None)]


def test_a_position_that_goes_back_anywhere_is_refused_with_the_stored_offsets() -> None:
    """Only the segments that went back are named, with what they were."""
    stream = stream_of("UA")
    deliver(stream, Note("UA", 10, {0: 5, 1: 7, 2: 1}))

    answers = deliver(stream, Note("UA", 11, {0: 4, 1: 8, 2: 0}))

    assert answers == [Refused("invalid_position", {0: 5, 2: 1})]


def test_a_refused_note_changes_nothing() -> None:
    """Not the time, not the position of its good segments, not the sign of life."""
    stream = stream_of("UA")
    deliver(stream, Note("UA", 10, {0: 5}))
    before = stream.record("UA")

    deliver(stream, Note("UA", 12, {0: 4, 1: 9}), Note("UA", 9, {0: 9}), now=50)

    assert stream.record("UA") == before


REFUSED = {
    "invalid_time": Note("UA", 9),
    "invalid_position": Note("UA", 12, {0: 4, 1: 9}),
    "implausible_position": Note("UA", 12, {0: 2**62}),
    "unknown_domain": Note("UA", 12, domain="nonsense"),
    "superseded": Note("UA", 12, sequence=6),
    "fenced": Note("UA", 12, session="older"),
    "too_far_ahead": Note("UA", 10, max_time=2**63 - 1),
    "too_many_segments": Note("UA", 12, dict.fromkeys(range(4097), 9)),
    "not_vouched": Note("UA", 12, domain="ship"),
}


@pytest.mark.parametrize(("status", "note"), REFUSED.items())
def test_a_writer_whose_notes_are_refused_times_out(status: str, note: Note) -> None:
    """A refused note changes nothing of its writer: it is no sign of life, whatever the reason."""
    stream = stream_of(domains=("default", "ship"))
    terms: dict[str, Any] = {"domains": ("default",), "sequence": 7, "session": "younger"}
    marks_after(stream, Note("UA", 10, {0: 5}, **terms), Note("DL", 20, {1: 5}, **terms))
    before = stream.record("UA")

    (refused,) = deliver(stream, note, now=TIMEOUT_MS - 1)

    assert isinstance(refused, Refused)
    assert (refused.status, stream.record("UA")) == (status, before)
    assert stream.expire(TIMEOUT_MS) == ("UA",)


def test_a_refused_note_makes_no_member() -> None:
    """A writer whose first note names an unknown domain is not waited for."""
    stream = stream_of()

    deliver(stream, Note("UA", 10, domain="nonsense"))

    assert (len(stream), stream.decide("default", now=0)) == (0, Quiet())


def test_a_segment_that_a_note_does_not_name_keeps_its_offset() -> None:
    """A position accumulates."""
    stream = stream_of("UA")

    deliver(stream, Note("UA", 10, {0: 5}), Note("UA", 11, {1: 7}))

    assert stream.record("UA").position == {0: 5, 1: 7}


def test_an_undeclared_domain_is_refused() -> None:
    """Also for the empty name, which is none of them."""
    stream = stream_of("UA", domains=("order", "ship"))

    answers = deliver(
        stream, Note("UA", 1, domain="arrival"), Note("UA", 1, domain=""), Note("UA", 1)
    )

    assert answers == [Refused("unknown_domain")] * 3


def test_an_unnamed_domain_is_the_only_one() -> None:
    """A stream with one domain needs no naming of it."""
    stream = stream_of("UA", domains=("ship",))

    deliver(stream, Note("UA", 7))

    assert stream.record("UA").times == {"ship": 7}


def test_the_answer_carries_the_lower_of_the_domains_last_mark() -> None:
    """So a writer learns at once that what it writes is late."""
    stream = stream_of(domains=("order", "ship"))
    deliver(stream, Note("UA", 30, domain="order"), Note("UA", 20, domain="ship"))
    marks_of(stream, "order")
    marks_of(stream, "ship")

    answers = deliver(stream, Note("UA", 31, domain="order"), Note("UA", 21, domain="ship"))

    assert answers == [Accepted(30), Accepted(20)]


def test_the_callers_position_may_change_after_the_note() -> None:
    """The noted values are kept, not the mapping they came in."""
    stream = stream_of()
    position = {0: 5}
    deliver(stream, Note("UA", 10, position))

    position[0] = 9

    assert marks_of(stream)[0].cut.offsets == {0: 5}


def test_a_member_that_joined_without_a_time_holds() -> None:
    """Its events may have any time."""
    stream = stream_of("UA", "DL")

    marks = marks_after(stream, Note("UA", 10))

    assert (marks, [w.writer for w in waiting(stream)]) == ([], ["DL"])


def test_a_member_holds_a_declared_domain_that_it_never_noted() -> None:
    """It counts as minus infinity there."""
    stream = stream_of("UA", "DL", domains=("order", "ship"))
    deliver(stream, Note("UA", 10, domain="order"), Note("UA", 10, domain="ship"))
    deliver(stream, Note("DL", 20, domain="order"))

    marks = {domain: lowers(marks_of(stream, domain)) for domain in ("order", "ship")}

    assert (marks, [w.time for w in waiting(stream, "ship")]) == (
        {"order": [10], "ship": []},
        [None],
    )


def test_idle_and_left_apply_to_all_domains() -> None:
    """Whichever domain the note names."""
    stream = stream_of("UA", "DL", "AA", domains=("order", "ship"))
    deliver(stream, Note("UA", 10, domain="order"), Note("UA", 12, domain="ship"))

    deliver(
        stream,
        Note("DL", domain="order", state="idle"),
        Note("AA", domain="ship", state="finished"),
    )

    assert {k: lowers(marks_of(stream, k)) for k in ("order", "ship")} == {
        "order": [10],
        "ship": [12],
    }


@pytest.mark.parametrize("state", ["idle", "finished"])
def test_an_unknown_writer_cannot_rest(state: State) -> None:
    """Only a live note makes a member, so a mistyped name leaves no ghost."""
    stream = stream_of("UA")

    answers = deliver(stream, Note("UX", state=state))

    assert (answers, list(stream.writers())) == ([Refused("unknown_writer")], ["UA"])


def test_a_writer_that_left_may_come_back() -> None:
    """It holds again until it has caught up."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("DL", state="finished"), Note("UA", 10))

    marks = marks_after(stream, Note("DL", 4), Note("UA", 20))

    assert (marks, [w.writer for w in waiting(stream)]) == ([], ["DL"])


@pytest.mark.parametrize("end", [-(2**63), 2**63 - 1])
def test_either_end_of_int64_is_refused(end: int) -> None:
    """They stand for before and after all time; a query would never get past the latter."""
    stream = stream_of("UA")

    answers = deliver(stream, Note("UA", end), Note("UA", 5, max_time=end))

    assert answers == [
        Refused("too_far_ahead", 2**63 - 2, Beyond("time", end)),
        Refused("too_far_ahead", 2**63 - 2, Beyond("max_time", end)),
    ]


def test_a_record_has_since_when_a_writer_is_in_its_state() -> None:
    """Also of a writer that finished at once."""
    stream = stream_of()

    deliver(stream, Note("UA"), Note("UA", state="finished"), Note("DL"), now=7)

    assert [(stream.record(w).noted_at, stream.record(w).since) for w in ("UA", "DL")] == [
        (7, 7)
    ] * 2


def test_a_note_of_an_older_request_is_refused_with_the_largest_sequence() -> None:
    """Whatever it holds: its writer advanced from there."""
    stream = stream_of()
    deliver(stream, Note("UA", 5, {0: 1}, sequence=7))

    answers = deliver(
        stream, Note("UA", 9, {0: 2}, sequence=6), Note("UA", state="idle", sequence=1)
    )

    assert answers == [Refused("superseded", 7)] * 2


def test_all_notes_of_a_request_may_share_a_sequence() -> None:
    """An equal one is judged as always, and a replay is a replay."""
    stream = stream_of(domains=("order", "ship"))
    notes = [Note("UA", 5, domain="order", sequence=7), Note("UA", 3, domain="ship", sequence=7)]

    assert deliver(stream, *notes, *notes) == [Accepted(None)] * 4


def test_a_refused_note_does_not_supersede_an_older_one() -> None:
    """Nothing its writer sent since was accepted."""
    stream = stream_of()

    answers = deliver(
        stream, Note("UA", 5, sequence=1), Note("UA", 4, sequence=9), Note("UA", 6, sequence=2)
    )

    assert answers == [Accepted(None), Refused("invalid_time", 5), Accepted(None)]


def test_a_note_without_a_sequence_is_judged_as_always() -> None:
    """It is not late, and makes no other late: the sequence accepted stays what it was."""
    stream = stream_of()

    answers = deliver(
        stream, Note("UA", 5, sequence=7), Note("UA", state="idle"), Note("UA", 6, sequence=6)
    )

    assert (answers, stream.record("UA").sequence) == (
        [Accepted(None), Accepted(None), Refused("superseded", 7)],
        7,
    )


def test_the_order_is_judged_before_all_else() -> None:
    """A late note that is wrong in other ways too is late."""
    stream = stream_of()
    deliver(stream, Note("UA", 5, {0: 5}, sequence=7))
    late = [Note("UA", 4, {0: 4}, sequence=6), Note("UA", 99, sequence=6)]

    answers = [stream.note(note, 0, 9) for note in (Note("UA", domain="no", sequence=6), *late)]

    assert answers == [Refused("superseded", 7)] * 3


def test_the_order_outlives_the_process() -> None:
    """The new owner of a stream knows which requests are old."""
    stream = stream_of()
    deliver(stream, Note("UA", 5, sequence=7))

    answers = deliver(restarted(stream), Note("UA", 6, sequence=6))

    assert answers == [Refused("superseded", 7)]
