"""Rule 9: the time window of a position, and what else follows from the marks."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Mark, MarkHistory, NotCompleteYet, StreamCut, TimeWindow

increments = st.tuples(
    st.integers(1, 3),
    st.integers(0, 3),
    st.dictionaries(st.integers(0, 4), st.integers(0, 3), max_size=3),
)
positions = st.dictionaries(st.integers(0, 6), st.integers(0, 9), max_size=5)


def following(mark: Mark, step: tuple[int, int, dict[int, int]]) -> Mark:
    """Return a mark that follows `mark` by the steps in lower, upper and offsets."""
    later, higher, gains = step
    offsets = dict(mark.cut.offsets)
    for segment, gain in gains.items():
        offsets[segment] = offsets.get(segment, 0) + gain
    excluded = ("UA",) if later == 3 else ()
    cut = StreamCut({segment: offset for segment, offset in offsets.items() if offset})
    bound, at = higher != 3, mark.seq * 10
    lower, upper = mark.lower + later, mark.upper + higher
    return Mark(mark.seq + 1, lower, upper, cut, at, excluded, upper_is_bound=bound)


BEFORE = Mark(0, 0, 0, StreamCut({}))
chains = st.lists(increments, max_size=12).map(
    lambda steps: list(accumulate(steps, following, initial=BEFORE))[1:]
)


def scanned(marks: list[Mark], position: dict[int, int]) -> TimeWindow:
    """Answer by looking at every mark, in the words of rule 9."""
    place = StreamCut(position)
    lower = [mark for mark in marks if place.reaches(mark.cut)][-1:]
    upper = [m for m in marks if m.cut.reaches(place) and not place.reaches(m.cut)][:1]
    return TimeWindow(
        lower=lower[0].lower if lower else None,
        upper=upper[0].upper if upper else None,
        lower_seq=lower[0].seq if lower else None,
        upper_seq=upper[0].seq if upper else None,
    )


@given(marks=chains, position=positions, through=st.integers(0, 12))
def test_the_window_is_what_a_scan_of_all_marks_finds(
    marks: list[Mark], position: dict[int, int], through: int
) -> None:
    """Also once early marks are forgotten, whatever segments came later."""
    history = MarkHistory(marks)
    history.forget_through(through)
    kept = [mark for mark in marks if mark.seq > through] or marks[-1:]
    places = [position, *(dict(mark.cut.offsets) for mark in marks)]

    assert [history.window(p) for p in places] == [scanned(kept, p) for p in places]


@given(early=chains, steps=st.lists(increments, max_size=6), position=positions)
def test_marks_may_follow_after_others_were_forgotten(
    early: list[Mark], steps: list[tuple[int, int, dict[int, int]]], position: dict[int, int]
) -> None:
    """Forgetting at one end and appending at the other do not meet."""
    later = list(accumulate(steps, following, initial=early[-1] if early else BEFORE))[1:]
    history = MarkHistory(early)
    history.forget_through(len(early))
    for mark in later:
        history.append(mark)
    kept = early[-1:] + later

    assert (history.window(position), history.after(0, 99)) == (scanned(kept, position), kept)


@given(marks=chains, time=st.integers(0, 40))
def test_complete_to_is_the_first_mark_at_or_above_the_time(marks: list[Mark], time: int) -> None:
    """Or reports how far it is."""
    history = MarkHistory(marks)
    found = [mark for mark in marks if mark.lower >= time]

    if found:
        assert history.complete_to(time) == found[0]
    else:
        with pytest.raises(NotCompleteYet) as raised:
            history.complete_to(time)
        assert raised.value.lower == (marks[-1].lower if marks else None)


@given(marks=chains, seq=st.integers(0, 14), limit=st.integers(0, 14))
def test_after_gives_the_next_marks_as_they_were(marks: list[Mark], seq: int, limit: int) -> None:
    """At most as many as asked for."""
    assert MarkHistory(marks).after(seq, limit) == [m for m in marks if m.seq > seq][:limit]


@given(marks=chains, wall_ms=st.integers(-1, 130))
def test_written_before_is_the_last_mark_older_than_the_wall_time(
    marks: list[Mark], wall_ms: int
) -> None:
    """0 if there is none."""
    older = [mark.seq for mark in marks if mark.written_at < wall_ms]

    assert MarkHistory(marks).written_before(wall_ms) == max(older, default=0)


def test_a_mark_written_after_the_wall_clock_stepped_back_stays_as_long() -> None:
    """As the longest-lived before it."""
    history = MarkHistory(
        Mark(seq, seq, seq, StreamCut({}), written_at) for seq, written_at in ((1, 50), (2, 10))
    )

    assert [history.written_before(at) for at in (11, 50, 51)] == [0, 0, 2]


def test_exactly_at_a_cut_counts_as_read() -> None:
    """One row before it does not, and the mark then bounds from above."""
    history = MarkHistory([Mark(1, 10, 14, StreamCut({0: 100}))])

    assert [history.window({0: offset}) for offset in (99, 100, 101)] == [
        TimeWindow(None, 14, None, 1),
        TimeWindow(10, None, 1, None),
        TimeWindow(10, None, 1, None),
    ]


def test_the_last_mark_is_never_forgotten() -> None:
    """A history that has begun still reports where time stands."""
    history = MarkHistory(Mark(seq, seq, seq, StreamCut({0: seq})) for seq in (1, 2, 3))

    history.forget_through(99)

    assert (history.first_seq, history.last_seq, len(history)) == (3, 3, 1)


@pytest.mark.parametrize(("seq", "lower"), [(2, 20), (4, 20), (3, 10), (1, 30)])
def test_a_mark_that_does_not_follow_is_not_taken(seq: int, lower: int) -> None:
    """Neither in seq nor in time."""
    history = MarkHistory(Mark(seq, seq * 5, 0, StreamCut({0: seq})) for seq in (1, 2))

    with pytest.raises(ValueError, match=f"mark {seq} at {lower} does not follow mark 2"):
        history.append(Mark(seq, lower, 0, StreamCut({0: 9})))


def test_a_mark_is_found_by_its_seq() -> None:
    """One that is not kept is not."""
    marks = [Mark(seq, seq, seq, StreamCut({0: seq})) for seq in (1, 2, 3)]
    history = MarkHistory(marks)
    history.forget_through(1)

    with pytest.raises(KeyError):
        history.mark(1)

    assert [history.mark(2), history.mark(3), history.last] == [*marks[1:], marks[2]]
