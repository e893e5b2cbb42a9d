"""An exclusion is reported: in the answer to the writer's note, on the mark, and in its record."""

from dataclasses import replace

from noted_time import Accepted, Note, Quiet
from noted_time.values import ExcludedSince, LateRows
from tests.support.streams import (
    TIMEOUT_MS,
    deliver,
    expiries,
    marks_after,
    marks_of,
    restarted,
    stream_of,
    waiting,
)


def test_a_timed_out_writer_learns_it_with_its_next_note() -> None:
    """Why, and since when; also if it is above the last lower by then."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10), Note("DL", 5))
    expiries(stream, TIMEOUT_MS)
    deliver(stream, Note("UA", 10), now=TIMEOUT_MS)
    marks_of(stream)

    (answer,) = deliver(stream, Note("DL", 12), now=TIMEOUT_MS + 7)

    assert answer == Accepted(10, ExcludedSince("timed_out", TIMEOUT_MS))


def test_it_is_reported_until_the_writer_notes_a_later_time_above_the_lower() -> None:
    """A repeated note reports it again, as the answer may have been lost."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 10), Note("DL", 5))
    expiries(stream, TIMEOUT_MS)
    deliver(stream, Note("UA", 10), now=TIMEOUT_MS)
    marks_of(stream)

    answers = deliver(stream, *(Note("DL", time) for time in (6, 6, 9, 12, 13)), now=TIMEOUT_MS)

    told_so = [isinstance(each, Accepted) and each.exclusion is not None for each in answers]
    assert told_so == [True, True, True, False, False]


def test_a_late_return_is_reported_as_long_as_time_advances_without_the_writer() -> None:
    """`exclude`: until it is above the last lower, over a restart too."""
    stream = stream_of("UA", returning="exclude")
    marks_after(stream, Note("UA", 10))

    first = deliver(stream, Note("DL", 5), now=3)
    again = restarted(stream)
    then = deliver(again, Note("DL", 7), Note("DL", 11), now=4)

    late = Accepted(10, ExcludedSince("returned_late", 3))
    assert (first, then) == ([late], [late, Accepted(10)])


def test_a_join_is_answered_with_what_is_known() -> None:
    """A writer that crashed begins at its position, and learns the timeout in force."""
    stream = stream_of()

    answers = deliver(
        stream, Note("UA"), Note("UA", 5, {0: 3, 1: 4}), Note("UA"), Note("UA", timeout_ms=7)
    )

    known = Accepted(None, None, {0: 3, 1: 4}, {"default": 5}, timeout_ms=100)
    assert answers == [
        Accepted(None, timeout_ms=100),
        Accepted(None),
        known,
        replace(known, timeout_ms=7),
    ]


def test_a_live_writer_that_returned_late_keeps_the_highest_time_from_a_flush() -> None:
    """Flink's valve: with A and C idle, B is still active, so nothing is flushed past it."""
    stream = stream_of("A", "B", "C", returning="exclude")
    deliver(stream, Note("B", 1), now=0)
    deliver(stream, Note("A", 10), Note("C", 20), Note("B", state="idle"))
    marks_of(stream)
    deliver(stream, Note("B", 5))

    marks = marks_after(stream, Note("A", state="idle"), Note("C", state="idle"))

    assert (marks, [each.writer for each in waiting(stream)]) == ([], ["B"])


def test_it_does_so_until_it_times_out() -> None:
    """Silent for the timeout it is excluded for good, and the highest time is flushed."""
    stream = stream_of("A", "B", returning="exclude")
    marks_after(stream, Note("A", 10), Note("B", state="idle"))
    deliver(stream, Note("B", 5), Note("A", 20, state="idle"), now=7)

    out = expiries(stream, TIMEOUT_MS + 6, TIMEOUT_MS + 7)

    marks = marks_of(stream)
    assert (out, [(mark.lower, mark.excluded) for mark in marks]) == ([(), ("B",)], [(20, ("B",))])
    assert stream.decide("default", now=TIMEOUT_MS + 7) == Quiet()


def test_who_returns_late_again_after_its_timeout_is_named_again() -> None:
    """Each time that time advances without it is one of its own."""
    stream = stream_of("A", returning="exclude")
    marks_after(stream, Note("A", 10))
    deliver(stream, Note("B", 5))
    expiries(stream, TIMEOUT_MS)
    first = marks_after(stream, Note("A", 20), now=TIMEOUT_MS)
    again = marks_after(stream, Note("B", 6), Note("A", 30), now=TIMEOUT_MS)

    assert [mark.excluded for mark in (*first, *again)] == [("B",), ("B",)]


def test_who_went_idle_before_it_was_removed_is_not_named() -> None:
    """Time no longer waited for it, though it had come back late before."""
    stream = stream_of("A", returning="exclude")
    marks_after(stream, Note("A", 10))
    deliver(stream, Note("B", 5), Note("B", state="idle"))
    stream.remove("B", now=0)

    assert [mark.excluded for mark in marks_after(stream, Note("A", 20))] == [()]


def test_rows_below_the_lower_are_summed_by_writer_and_domain() -> None:
    """Without their largest time they may be of any time up to the lower; no mark names them."""
    stream = stream_of("UA")
    marks_after(stream, Note("UA", 10))
    reported = []
    for note in (Note("UA", 11, late=LateRows(3, 7)), Note("UA", 12, late=[LateRows(1, 4, 5)])):
        deliver(stream, note)
        reported += stream.report_late(note)[1]

    assert reported == [LateRows(3, 7, 9), LateRows(1, 4, 5)]
    assert [mark.excluded for mark in marks_after(stream)] == [()]
    assert stream.record("UA").late == {"default": LateRows(4, 4, 9)}
    assert stream.domains["default"].late_rows == 4


def test_the_upper_is_a_bound_once_all_that_wrote_declared_theirs() -> None:
    """One that noted without `max_time` may have written anything."""
    stream = stream_of()

    bounds = [
        [mark.upper_is_bound for mark in marks_after(stream, note)]
        for note in (
            Note("UA", 5, {0: 1}, max_time=6),
            Note("DL", 6, {1: 1}),
            Note("UA", 7, max_time=9),
            Note("DL", 8, max_time=8),
            Note("UA", 10, max_time=11),
        )
    ]

    assert bounds == [[True], [], [False], [True], [True]]


def test_the_upper_is_no_bound_for_a_member_that_only_noted_its_position() -> None:
    """Its rows lie below the cut once it is excluded."""
    stream = stream_of()
    deliver(stream, Note("silent", position={3: 9}), Note("UA", 5, max_time=5))
    expiries(stream, TIMEOUT_MS)

    deliver(stream, Note("UA", 6, max_time=6), now=TIMEOUT_MS)

    assert [mark.upper_is_bound for mark in marks_of(stream)] == [False]


def test_the_report_equals_the_record_under_hold_after_the_return() -> None:
    """And it is kept over a restart, until the writer has noted a time above the lower."""
    stream = stream_of("UA", "DL")
    stream.domains.unix_ahead = 7000
    marks_after(stream, Note("UA", 10), Note("DL", 5))
    expiries(stream, TIMEOUT_MS)
    deliver(stream, Note("UA", 50), now=TIMEOUT_MS)
    marks_of(stream)

    (answer,) = deliver(stream, Note("DL", 10), now=TIMEOUT_MS + 7)
    again = restarted(stream)
    again.domains.unix_ahead = 600_000

    exclusion = ExcludedSince("timed_out", 7000 + TIMEOUT_MS)
    assert answer == Accepted(50, exclusion)
    assert [each.record("DL").exclusion for each in (stream, again)] == [exclusion] * 2
    assert deliver(again, Note("DL", 10), Note("DL", 60)) == [answer, Accepted(50)]
    assert again.record("DL").exclusion is None


def test_a_removed_writer_is_not_named_in_a_domain_that_it_no_longer_vouched_for() -> None:
    """It had come back late there, and narrowed before a mark said so."""
    stream = stream_of("A", domains=("order", "ship"), returning="exclude")
    deliver(stream, Note("A", 10, domain="order"), Note("A", 10, domain="ship"))
    for domain in ("order", "ship"):
        marks_of(stream, domain)
    deliver(stream, Note("B", 5, domain="ship"), Note("B", 11, domain="order", domains=("order",)))
    foretold = stream.would("ship", ["B"], None, 0)
    stream.remove("B", now=0)
    deliver(stream, Note("A", 20, domain="ship"))

    marks = marks_of(stream, "ship")

    assert (foretold.excluded, [mark.excluded for mark in marks]) == ((), [()])
    assert stream.domains["ship"].named == ()


def test_who_is_excluded_as_a_domain_is_declared_is_named_by_its_first_mark() -> None:
    """A removal by an operator since then is named, after a restart too."""
    stream = stream_of("A", "B", domains=("order",))
    deliver(stream, Note("A", 5, domain="order"))
    stream.expire(TIMEOUT_MS)
    stream.reconfigure(replace(stream.settings, domains=("order", "ship")), now=TIMEOUT_MS)
    stream.remove("B", now=TIMEOUT_MS + 1)
    streams = stream, restarted(stream, declared_at={"ship": TIMEOUT_MS})

    for each in streams:
        deliver(each, Note("A", 7, domain="ship"), now=TIMEOUT_MS + 2)

    marks = [mark for each in streams for mark in marks_of(each, "ship", now=TIMEOUT_MS + 2)]
    assert [mark.excluded for mark in marks] == [("B",)] * 2


def test_a_writer_that_widens_its_domains_too_late_is_named_after_a_restart_too() -> None:
    """By the next mark, as without the restart."""
    stream = stream_of("A", domains=("order", "ship"), returning="exclude")
    deliver(stream, Note("B", domains=("order",)), Note("A", 10, domain="ship"))
    marks_of(stream, "ship")
    deliver(stream, Note("B", domains=("order", "ship")), now=1)
    streams = stream, restarted(stream)

    for each in streams:
        deliver(each, Note("A", 20, domain="ship"), now=1)

    marks = [mark for each in streams for mark in marks_of(each, "ship", now=1)]
    assert [(mark.lower, mark.excluded) for mark in marks] == [(20, ("B",))] * 2


def test_a_writer_that_names_its_timeout_as_it_joins_at_the_lower_is_in_time() -> None:
    """Its time is judged, not what it had noted before, which was nothing."""
    stream = stream_of("A", returning="exclude")
    marks_after(stream, Note("A", 10))

    deliver(stream, Note("B", 10, timeout_ms=7))

    assert [each.writer for each in waiting(stream)] == ["A", "B"]
    assert stream.record("B").returned_late == ()
