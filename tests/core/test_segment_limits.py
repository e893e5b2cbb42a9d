"""A stream bounds how many segments its notes name, and how far one note may move an offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Accepted, Aggregator, Note, Refused, ScaleEvent, StreamSettings
from noted_time.rules.state import LARGEST_FIRST_OFFSET
from noted_time.values import MAX_INT64, TooManySegments
from tests.support.streams import deliver, marks_after, restarted

OFFSETS = st.integers(0, 40) | st.integers(0, MAX_INT64)


def limited(*, segments: int = 4096, jump: int | None = 100) -> Aggregator:
    """Return a stream with a maximum number of segments, whose offsets jump by at most `jump`."""
    return Aggregator(StreamSettings(max_segments=segments, max_offset_jump=jump))


def test_a_segment_beyond_the_most_is_refused() -> None:
    """Whichever writer names it first; existing segments continue, for other writers too."""
    stream = limited(segments=2)

    answers = deliver(
        stream,
        Note("UA", 1, {0: 5, 1: 5}),
        Note("UA", 2, {2: 1}),
        Note("DL", 2, {3: 1}),
        Note("DL", 2, {1: 7}),
    )

    full = Refused("too_many_segments", 2)
    assert answers == [Accepted(None), full, full, Accepted(None)]


def test_a_refused_first_note_makes_no_member_and_no_segment() -> None:
    """Neither of one that names too many segments nor of one that names too large an offset."""
    stream = limited(segments=2)

    answers = deliver(stream, Note("UA", 1, {0: 1, 1: 1, 2: 1}), Note("DL", 1, {3: 2**62 + 1}))

    assert ([type(answer) for answer in answers], len(stream)) == ([Refused, Refused], 0)
    assert deliver(stream, Note("AA", 1, {4: 1, 5: 1})) == [Accepted(None)]


def test_an_offset_that_jumps_is_refused_with_the_largest_that_is_taken() -> None:
    """The jump counts from the last known offset, no matter which writer noted it."""
    stream = limited()
    deliver(stream, Note("UA", 1, {0: 5000}), Note("UA", 2, {0: 5090}))

    answers = deliver(stream, Note("UA", 3, {0: 5191}), Note("DL", 3, {0: 5191}))
    taken = deliver(stream, Note("DL", 3, {0: 5190}), Note("UA", 3, {0: 5290}))

    assert answers == [Refused("implausible_position", {0: 5190})] * 2
    assert taken == [Accepted(None)] * 2


def test_the_first_offset_of_a_segment_is_taken_unless_it_is_huge() -> None:
    """A log may have been written for long before anybody noted it."""
    stream = limited()

    answers = deliver(stream, Note("UA", 1, {0: 2**62}), Note("DL", 1, {1: 2**62 + 1}))

    assert answers == [Accepted(None), Refused("implausible_position", {1: LARGEST_FIRST_OFFSET})]


def test_without_a_guard_any_offset_is_taken() -> None:
    """`None` is for logs whose offsets are not counts, such as times in ns."""
    stream = limited(jump=None)

    answers = deliver(stream, Note("UA", 1, {0: 0}), Note("UA", 1, {0: MAX_INT64, 1: MAX_INT64}))

    assert answers == [Accepted(None), Accepted(None)]


def test_a_scale_event_names_no_more_segments_either() -> None:
    """Successors count from the event on, before anybody writes to them."""
    stream = limited(segments=3)
    deliver(stream, Note("UA", 1, {0: 5}))
    stream.scale(ScaleEvent({0: 5}, {1: (0,), 2: (0,)}))

    with pytest.raises(TooManySegments):
        stream.scale(ScaleEvent({1: 0}, {3: (1,)}))

    assert deliver(stream, Note("UA", 2, {3: 1})) == [Refused("too_many_segments", 3)]
    assert deliver(stream, Note("UA", 2, {1: 10**15})) == [Accepted(None)]


def test_a_sealed_segment_that_all_kept_marks_have_whole_counts_no_more() -> None:
    """It costs no mark anything any more."""
    stream = limited(segments=2)
    deliver(stream, Note("UA", 1, {0: 5}))
    stream.scale(ScaleEvent({0: 5}, {1: (0,)}))
    full = deliver(stream, Note("UA", 2, {2: 1}))

    stream.settle([{0: 4, 1: 1}])
    still_full = deliver(stream, Note("UA", 2, {2: 1}))
    stream.settle([{0: 5, 1: 1}])
    taken = deliver(stream, Note("UA", 2, {2: 1}))

    refused = [Refused("too_many_segments", 2)]
    assert (full, still_full, taken) == (refused, refused, [Accepted(None)])


def test_a_stream_that_has_more_keeps_them() -> None:
    """A bound that is lowered refuses what would be new, and nothing else."""
    stream = limited(segments=3)
    deliver(stream, Note("UA", 1, {0: 5, 1: 5, 2: 5}))

    stream.reconfigure(StreamSettings(max_segments=1, max_offset_jump=10), now=0)

    assert deliver(stream, Note("UA", 2, {0: 6, 2: 6}), Note("UA", 3, {3: 1})) == [
        Accepted(None),
        Refused("too_many_segments", 1),
    ]
    assert deliver(stream, Note("UA", 3, {0: 17})) == [Refused("implausible_position", {0: 16})]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["UA", "DL"]),
            st.dictionaries(st.integers(0, 3), OFFSETS, min_size=1, max_size=3),
        ),
        max_size=12,
    )
)
def test_a_restart_judges_alike(positions: list[tuple[str, dict[int, int]]]) -> None:
    """What is known of segments is all in the records of members and in the last marks."""
    stream = limited(segments=3)
    for time, (writer, position) in enumerate(positions):
        marks_after(stream, Note(writer, time, position))

    again = restarted(stream)

    asked = [Note("AA", 99, {segment: offset}) for segment in range(5) for offset in (0, 2**61)]
    refused = [_judged(one, note) for one in (stream, again) for note in asked]
    assert refused[: len(asked)] == refused[len(asked) :]


def _judged(stream: Aggregator, note: Note) -> Accepted | Refused:
    """Return what a copy of the stream would answer."""
    return restarted(stream).note(note, 0)
