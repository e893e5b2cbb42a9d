"""What holds for one writer alone: its timeout, its domains, the operator's hand."""

import pytest

from noted_time import Accepted, Hold, Note, Refused
from noted_time.rules import lower_without
from noted_time.values import UnknownWriter
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

HOUR = 3_600_000


def test_time_waits_for_a_writer_until_its_own_timeout() -> None:
    """A job that runs once an hour is waited for between its runs."""
    stream = stream_of("UA")
    deliver(stream, Note("hourly", 5, timeout_ms=HOUR), Note("UA", 10))
    marks_of(stream)

    out = [stream.expire(now) for now in (TIMEOUT_MS, HOUR - 1, HOUR)]

    assert out == [(), (), ("hourly",)]


def test_a_timeout_holds_until_the_writer_declares_another() -> None:
    """A note without the field leaves it; `None` restores the stream's."""
    stream = stream_of()
    deliver(stream, Note("UA", 5, timeout_ms=HOUR), Note("UA", 6))
    marks_of(stream)
    kept = stream.expire(TIMEOUT_MS)

    deliver(stream, Note("UA", 6, timeout_ms=None), now=TIMEOUT_MS)

    assert (kept, stream.expire(2 * TIMEOUT_MS)) == ((), ("UA",))


def test_a_shorter_timeout_counts_at_once() -> None:
    """Not only when the longer one would have been over."""
    stream = stream_of()
    deliver(stream, Note("UA", 5, timeout_ms=HOUR))
    marks_of(stream)

    deliver(stream, Note("UA", 5, timeout_ms=7))

    assert (stream.expire(6), stream.expire(7)) == ((), ("UA",))


def test_own_terms_outlive_a_restart() -> None:
    """So does the hour of a writer that is silent meanwhile."""
    stream = stream_of("UA", domains=("order", "ship"))
    deliver(stream, Note("hourly", 5, domain="order", timeout_ms=HOUR, domains=("order",)))

    again = restarted(stream)

    assert again.record("hourly") == stream.record("hourly")


def test_a_writer_is_waited_for_only_in_the_domains_it_vouches_for() -> None:
    """One that never notes the other domain does not hold it."""
    stream = stream_of(domains=("order", "ship"))
    deliver(stream, Note("shop", 10, domain="order", domains=("order",)))
    deliver(stream, Note("yard", 7, domain="ship", domains=("ship",)))

    marks = {domain: lowers(marks_of(stream, domain)) for domain in ("order", "ship")}

    assert marks == {"order": [10], "ship": [7]}


def test_a_note_of_a_domain_outside_is_refused_with_those_it_vouches_for() -> None:
    """Also in the note that names them; joining speaks of no domain."""
    stream = stream_of(domains=("order", "ship"))

    answers = deliver(
        stream,
        Note("shop", 1, domain="ship", domains=("order",)),
        Note("shop", domains=("order",)),
        Note("shop", 1, domain="ship"),
        Note("shop"),
    )

    refused, joined = Refused("not_vouched", ("order",)), Accepted(None, timeout_ms=100)
    assert answers == [refused, joined, refused, joined]


def test_a_writer_that_vouches_for_more_holds_it_until_it_notes() -> None:
    """What it wrote before may have any time there."""
    stream = stream_of(domains=("order", "ship"))
    deliver(stream, Note("shop", 10, domain="order", domains=("order",)))
    deliver(stream, Note("yard", 7, domain="ship", domains=("ship",)))

    deliver(stream, Note("shop", 11, domain="order", domains=("order", "ship")))

    assert [each.writer for each in waiting(stream, "ship")] == ["shop"]


def test_a_writer_that_vouches_for_less_rests_there_at_its_position() -> None:
    """As if it had finished that domain."""
    stream = stream_of(domains=("order", "ship"))
    deliver(stream, Note("shop", 5, {0: 3}, domain="ship"), Note("yard", 7, domain="ship"))

    deliver(stream, Note("shop", 5, {0: 4}, domain="order", domains=("order",)))

    assert [(m.lower, m.cut.offsets) for m in marks_of(stream, "ship")] == [(7, {0: 4})]


def test_an_expected_writer_holds_time_before_its_first_note() -> None:
    """Until the timeout, which counts from the moment it is expected."""
    stream = stream_of()
    stream.expect(["nightly"], now=5)

    marks = marks_after(stream, Note("UA", 10), now=6)

    decision = stream.decide("default", now=6)
    assert isinstance(decision, Hold)
    (waited,) = decision.waiting_for
    assert (marks, waited.writer, waited.times_out_in_ms) == ([], "nightly", TIMEOUT_MS - 1)


def test_a_member_is_not_expected_again() -> None:
    """It is what it is."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 10), Note("UA", state="finished"))

    assert (stream.expect(["UA"], now=5), stream.record("UA").state) == ([], "finished")


def test_an_operator_keeps_a_writer_from_timing_out() -> None:
    """For that long; then as usual."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 5))
    stream.hold("UA", 5 * TIMEOUT_MS)

    out = [stream.expire(5 * TIMEOUT_MS - 1), stream.expire(5 * TIMEOUT_MS)]

    assert out == [(), ("UA",)]


def test_a_removed_writer_is_excluded_at_its_last_position() -> None:
    """The mark says so, and the operator's name is kept."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("UA", 5, {0: 3}), Note("DL", 9, {1: 4}))
    stream.remove("UA", now=1, by="ann")

    marks = marks_of(stream)

    (absence,) = stream.domains["default"].named
    assert [(m.lower, m.cut.offsets, m.excluded) for m in marks] == [(9, {0: 3, 1: 4}, ("UA",))]
    assert (absence.time, absence.position, absence.reason) == (5, {0: 3}, "removed")
    assert stream.record("UA").terms.removed_by == "ann"


def test_only_members_can_be_removed_or_held() -> None:
    """A mistyped name is reported."""
    stream = stream_of("UA")

    with pytest.raises(UnknownWriter, match="no writer 'UX'"):
        stream.remove("UX", now=0)
    with pytest.raises(UnknownWriter, match="no writer 'UX'"):
        stream.hold("UX", 5)


def test_the_wrong_clock_of_a_removed_writer_is_forgotten() -> None:
    """Neither the upper nor the highest time stays as it was, and the name can be used again."""
    stream = stream_of("UA", "wild")
    deliver(stream, Note("UA", 5, max_time=7), Note("wild", 10**15, max_time=10**15))
    before = marks_of(stream)

    stream.remove("wild", now=0)
    after = marks_after(stream, Note("UA", 9, max_time=9), Note("UA", state="finished"))
    again = restarted(stream)
    answers = deliver(again, Note("wild", 12, max_time=12))

    assert [mark.upper for mark in before] == [10**15]
    assert [(mark.lower, mark.upper, mark.upper_is_bound) for mark in after] == [(9, 9, False)]
    assert [type(each) for each in answers] == [Accepted]


def test_a_removal_survives_a_restart_before_the_next_mark() -> None:
    """The upper of the last mark is still the wrong one then."""
    stream = stream_of("UA", "wild")
    marks_after(stream, Note("UA", 5, max_time=7), Note("wild", 10**15, max_time=10**15))
    stream.remove("wild", now=1)

    marks = marks_after(restarted(stream), Note("UA", 9, max_time=9))

    assert [(mark.lower, mark.upper, mark.excluded) for mark in marks] == [(9, 9, ())]


def test_the_time_of_a_domain_that_a_writer_left_is_never_flushed_once_it_is_back() -> None:
    """It says nothing about that domain until it notes it again, after a restart as before."""
    stream = stream_of("UA", domains=("order", "ship"))
    deliver(stream, Note("UA", 5, domain="order"), Note("UA", domains=("ship",)))
    deliver(stream, Note("UA", domains=("order", "ship")))
    foretold = lower_without(stream.domains["order"], "UA")
    streams = stream, restarted(stream)

    for each in streams:
        deliver(each, Note("UA", state="idle"))

    assert [marks_of(each, "order") for each in streams] == [[], []]
    assert foretold is None
