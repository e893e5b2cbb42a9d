"""Rules 6 and 7: which writer is excluded, when, where it is recorded, and what a return does."""

from dataclasses import replace

import pytest

from noted_time import Note, Quiet, Rejected, ServiceClock
from noted_time.rules import lower_without
from tests.support.streams import (
    TIMEOUT_MS,
    deliver,
    expiries,
    lowers,
    marks_after,
    marks_of,
    restarted,
    stream_of,
    waiting,
)


def test_a_holder_is_excluded_exactly_at_the_timeout_after_its_last_note() -> None:
    """One ms before it is still waited for."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("UA", 10), Note("DL", 20), now=5)
    marks_of(stream)
    deliver(stream, Note("UA", 10), Note("DL", 20), now=30)

    assert expiries(stream, 30 + TIMEOUT_MS - 1, 30 + TIMEOUT_MS) == [(), ("UA",)]


def test_a_holder_is_excluded_exactly_at_the_timeout_after_it_began_to_hold() -> None:
    """It noted long ago, but no domain waited for it then."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("UA", 10), now=0)
    marks_after(stream, Note("DL", 20), now=70)

    assert expiries(stream, 70 + TIMEOUT_MS - 1, 70 + TIMEOUT_MS) == [(), ("UA",)]


def test_a_member_that_nobody_overtook_is_never_excluded() -> None:
    """However long it is silent, as long as it does not hold."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("UA", 10))

    assert (stream.expire(10**9), stream.expire(2 * 10**9)) == (("DL",), ())


def test_a_replay_counts_as_a_sign_of_life() -> None:
    """The holder is waited for as long again."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10), Note("DL", 20))
    deliver(stream, Note("UA", 10), now=99)

    assert expiries(stream, TIMEOUT_MS, 99 + TIMEOUT_MS - 1, 99 + TIMEOUT_MS) == [(), (), ("UA",)]


def test_a_member_that_joined_and_never_noted_a_time_is_excluded_too() -> None:
    """A join holds until it notes, goes idle, leaves or times out."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("DL", 10), now=50)

    assert (stream.expire(TIMEOUT_MS), lowers(marks_of(stream))) == (("UA",), [10])


def test_a_holder_of_one_domain_is_excluded_of_all() -> None:
    """Membership is per writer."""
    stream = stream_of("UA", "DL", domains=("order", "ship"))
    for writer, time in (("UA", 10), ("DL", 20)):
        deliver(stream, Note(writer, time, domain="ship"))
    deliver(stream, Note("DL", 20, domain="order"), now=TIMEOUT_MS - 1)

    stream.expire(TIMEOUT_MS)

    assert [lowers(marks_of(stream, domain)) for domain in ("order", "ship")] == [[20], [20]]


def test_a_excluded_writers_last_known_position_is_in_the_cut() -> None:
    """It acts as one that went idle there."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10, {0: 100}), Note("UA", 10, {0: 130}), Note("DL", 20, {1: 7}))
    stream.expire(TIMEOUT_MS)

    assert [mark.cut.offsets for mark in marks_of(stream)] == [{0: 130, 1: 7}]


def test_the_first_mark_above_its_time_names_the_excluded_writer_and_no_other_does() -> None:
    """The mark that advanced without it."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10), Note("DL", 20))
    stream.expire(TIMEOUT_MS)

    marks = marks_of(stream) + marks_after(stream, Note("DL", 30))

    assert [(mark.lower, mark.excluded) for mark in marks] == [(20, ("UA",)), (30, ())]


def test_a_mark_at_the_very_time_of_a_excluded_writer_does_not_name_it() -> None:
    """It vouched for that one, noting on after an earlier return; the next advances without it."""
    stream = stream_of("UA", "DL", "AA", domains=("order", "ship"))
    deliver(stream, *(Note(w, t, domain="ship") for w, t in (("UA", 12), ("DL", 16), ("AA", 10))))
    deliver(stream, Note("DL", 1, domain="order"), Note("AA", 1, domain="order"), now=TIMEOUT_MS)
    stream.expire(TIMEOUT_MS)
    marks_of(stream, "ship", now=TIMEOUT_MS)
    deliver(stream, Note("UA", 15, domain="ship"), now=TIMEOUT_MS)
    deliver(stream, Note("AA", 15, domain="ship"), now=2 * TIMEOUT_MS)
    stream.expire(2 * TIMEOUT_MS)

    marks = marks_of(stream, "ship")
    deliver(stream, Note("AA", 16, domain="ship"))
    marks += marks_of(stream, "ship")

    assert [(mark.lower, mark.excluded) for mark in marks] == [(15, ()), (16, ("UA",))]


def test_with_everybody_excluded_the_highest_time_is_flushed() -> None:
    """No writer is left to ask."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("UA", 30, state="idle"), Note("DL", 10))
    marks_of(stream)
    stream.expire(TIMEOUT_MS)

    assert (lowers(marks_of(stream)), stream.decide("default", now=TIMEOUT_MS)) == ([30], Quiet())


def test_a_excluded_writer_that_returns_is_waited_for_again() -> None:
    """`hold`: time stands until it has caught up."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10), Note("DL", 20))
    stream.expire(TIMEOUT_MS)
    marks_of(stream)

    marks = marks_after(stream, Note("UA", 20), Note("DL", 30), now=TIMEOUT_MS)
    caught_up = marks_after(stream, Note("UA", 21), now=TIMEOUT_MS)

    assert (marks, lowers(caught_up)) == ([], [21])


def test_a_returned_writer_may_time_out_again_and_is_named_again() -> None:
    """Each time a mark advances without it."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10), Note("DL", 20))
    stream.expire(TIMEOUT_MS)
    marks_of(stream, now=TIMEOUT_MS)
    deliver(stream, Note("UA", 10), Note("DL", 30), now=150)

    assert (
        expiries(stream, 150 + TIMEOUT_MS - 1, 150 + TIMEOUT_MS),
        [mark.excluded for mark in marks_of(stream)],
    ) == ([(), ("UA",)], [("UA",)])


@pytest.mark.parametrize("time", [None, 9])
def test_an_excluded_writer_is_not_waited_for_below_the_last_lower(time: int | None) -> None:
    """`exclude`: a late joiner is excluded until it is above, and the next mark says so."""
    stream = stream_of("UA", returning="exclude")
    marks_after(stream, Note("UA", 10))

    marks = marks_after(stream, Note("DL", time, {1: 5}), Note("UA", 20))

    assert [(m.lower, m.cut.offsets, m.excluded) for m in marks] == [(20, {1: 5}, ("DL",))]


def test_a_writer_that_joins_exactly_at_the_last_lower_is_in_time() -> None:
    """`exclude`: what it writes from there on is not late, so time waits for it."""
    stream = stream_of("UA", returning="exclude")
    marks_after(stream, Note("UA", 10))

    marks = marks_after(stream, Note("DL", 10), Note("UA", 20))

    assert (marks, [w.writer for w in waiting(stream)]) == ([], ["DL"])


def test_an_excluded_writer_counts_again_once_above_the_last_lower() -> None:
    """One above is enough."""
    stream = stream_of("UA", returning="exclude")
    marks_after(stream, Note("UA", 10))
    marks_after(stream, Note("DL", 5), Note("UA", 20))

    marks = marks_after(stream, Note("DL", 21), Note("UA", 30))

    assert (lowers(marks), [w.writer for w in waiting(stream)]) == ([21], ["DL"])


def test_an_excluded_writer_that_comes_up_to_the_last_lower_stays_excluded() -> None:
    """Equal is not above."""
    stream = stream_of("UA", returning="exclude")
    marks_after(stream, Note("UA", 10))
    deliver(stream, Note("DL", 5), Note("DL", 10))

    assert lowers(marks_after(stream, Note("UA", 20))) == [20]


def test_an_excluded_writer_that_goes_idle_is_not_excluded() -> None:
    """It asked not to be waited for; no mark names it."""
    stream = stream_of("UA", returning="exclude")
    marks_after(stream, Note("UA", 10))
    deliver(stream, Note("DL", 5), Note("DL", state="idle"))

    assert [mark.excluded for mark in marks_after(stream, Note("UA", 20))] == [()]


def test_without_a_writer_that_is_ahead_is_the_time_of_the_next() -> None:
    """It may decide the lower, though no writer holds."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("UA", 10), Note("DL", 20))

    domain = stream.domains["default"]
    assert [lower_without(domain, w) for w in ("UA", "DL", "nobody")] == [20, 10, 10]


def test_no_writer_is_excluded_before_the_next_timeout() -> None:
    """`None` if no writer holds."""
    stream = stream_of("UA", "DL", now=7)
    first = stream.next_timeout()

    deliver(stream, Note("UA", 10), Note("DL", 10), now=8)

    assert (first, stream.expire(10**9), stream.next_timeout()) == (7 + TIMEOUT_MS, (), None)


def test_a_restart_excludes_no_writer_sooner() -> None:
    """The moments are on the service clock and durable."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("UA", 10), now=0)
    marks_after(stream, Note("DL", 20), now=70)
    again = restarted(stream, {"default": 70})

    assert expiries(again, 70 + TIMEOUT_MS - 1, 70 + TIMEOUT_MS) == [(), ("UA",)]


def test_a_new_domain_is_held_by_every_live_member_from_its_declaration_on() -> None:
    """Silent members that were ahead have the whole timeout from then on."""
    stream = stream_of("UA", "DL", "AA")
    marks_after(stream, Note("UA", 30), Note("DL", 30), Note("AA", 10))
    stream.reconfigure(replace(stream.settings, domains=("default", "ship")), now=150)
    deliver(stream, Note("AA", 10, domain="ship"), now=240)

    due = 150 + TIMEOUT_MS
    assert (expiries(stream, due - 1, due)) == [(), ("UA", "DL")]


def test_a_domain_cannot_be_taken_away() -> None:
    """And the refusal changes nothing."""
    stream = stream_of("UA", domains=("order", "ship"))
    before = stream.settings

    with pytest.raises(Rejected, match="ship missing"):
        stream.reconfigure(replace(before, domains=("order",)), now=0)

    assert stream.settings == before


def test_a_shorter_timeout_counts_at_once() -> None:
    """Also for those that hold already."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10), Note("DL", 20))
    stream.reconfigure(replace(stream.settings, writer_timeout_ms=40), now=30)

    assert (stream.next_timeout(), *expiries(stream, 39, 40)) == (40, (), ("UA",))


def test_a_writer_taken_back_by_new_settings_is_silent_as_long_as_it_was() -> None:
    """It begins to hold then; its silence began when others had noted later times."""
    stream = stream_of("UA", returning="exclude")
    marks_after(stream, Note("UA", 10))
    marks_after(stream, Note("DL", 5), Note("UA", 20))
    deliver(stream, Note("UA", 30), now=990)

    stream.reconfigure(replace(stream.settings, returning_writer="hold"), now=1000)

    assert (stream.member("DL").holding_since, stream.expire(1000)) == (1000, ("DL",))


def test_members_below_the_last_lower_are_excluded_by_new_settings() -> None:
    """`hold` becomes `exclude` while one is catching up."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 10))
    deliver(stream, Note("DL", 5), Note("UA", 20))

    stream.reconfigure(replace(stream.settings, returning_writer="exclude"), now=0)

    assert [(mark.lower, mark.excluded) for mark in marks_of(stream)] == [(20, ("DL",))]


def test_the_service_clock_counts_serving_only() -> None:
    """Each step is capped, and it never goes back."""
    clock = ServiceClock(now=100, step_cap_ms=10)

    assert [clock.serve(ms) for ms in (10, 11, 0, -1)] == [110, 120, 120, 120]
