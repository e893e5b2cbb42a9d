"""The sentences of a watermark that waits or advances, and of a reader."""

from noted_time.reading import ReaderPlace
from noted_time.values import Advance, WaitForWriters, Waiting
from noted_time.values.cut import SegmentWaited
from noted_time.verdict.decision_words import (
    describe_decision,
    describe_longest_waiting,
    describe_reader,
)


def test_first_mark_is_named_by_its_time() -> None:
    sentence = describe_decision("orders", Advance(1357034400000), None, has_writers=True)

    assert sentence == "orders advances to 2013-01-01T10:00:00Z, its first mark."


def test_holders_beyond_the_named_ones_are_counted() -> None:
    decision = WaitForWriters((Waiting("lima", 5, 61_000, 0), Waiting("oslo", 5, 1000, 0)), 9)

    assert describe_longest_waiting(decision, 5, 2000) == (
        "They are lima, oslo and 7 more. lima has held it back longest, for 1m 1s: it noted 5 and "
        "no later time, and was last heard 2s ago."
    )


def test_reader_of_all_marks_waits_unless_the_stream_is_sealed() -> None:
    place = ReaderPlace(5, None, None, 0, 0, ())

    assert [describe_reader(place, is_sealed=is_sealed) for is_sealed in (True, False)] == [
        "A reader at this position has reached all marks.",
        "A reader at this position has reached all marks: it waits for the next one.",
    ]


def test_segment_that_no_writer_noted_alone_has_no_name() -> None:
    waiting_segments = SegmentWaited(0, 7, 10, "lima"), SegmentWaited(1, 2, 4)

    assert describe_reader(ReaderPlace(None, 1, 5, 1, 2, waiting_segments), is_sealed=False) == (
        "A reader at this position is before its first mark, 1 mark behind. It waits for 2 "
        "segments, not for a writer: mark 1, 5, needs segment 0 to 10, as lima noted (read to 7) "
        "and segment 1 to 4 (read to 2)."
    )
