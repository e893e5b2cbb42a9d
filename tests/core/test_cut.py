"""Stream cuts: their order, and the window of a position (rule 9)."""

import tracemalloc
from collections.abc import Callable
from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from noted_time import Mark, NotCompleteYet, Rejected, StreamCut, TimeWindow
from noted_time.reading import MarkHistory

MAX = 2**63 - 1

offsets = st.dictionaries(st.integers(0, 4), st.integers(0, 3), max_size=4)

cuts = offsets.map(StreamCut)


@given(one=cuts, other=cuts)
def test_cuts_reaching_each_other_are_equal_above_0(one: StreamCut, other: StreamCut) -> None:
    bare = [{s: o for s, o in cut.offsets.items() if o} for cut in (one, other)]

    assert (one.reaches(other) and other.reaches(one)) == (bare[0] == bare[1])


@given(one=cuts, other=cuts, bound=cuts)
def test_join_is_the_least_upper_bound(one: StreamCut, other: StreamCut, bound: StreamCut) -> None:
    """So reaching is transitive."""
    join = one.join(other)

    assert (join.reaches(one), join.reaches(other)) == (True, True)
    for upper_cut in (bound, bound.join(one), bound.join(one).join(other)):
        both = upper_cut.reaches(one) and upper_cut.reaches(other)
        assert upper_cut.reaches(join) == both


@given(one=cuts, other=cuts, third=cuts)
def test_joins_may_be_in_any_order(one: StreamCut, other: StreamCut, third: StreamCut) -> None:
    ways = [
        one.join(other).join(third),
        third.join(one.join(other)),
        other.join(third).join(one).join(one),
    ]

    assert ways == ways[:1] * 3


@given(cut=cuts)
def test_equal_cuts_have_equal_hashes(cut: StreamCut) -> None:
    backwards = StreamCut(dict(reversed(list(cut.offsets.items()))))

    assert len({cut, backwards}) == 1


@pytest.mark.parametrize("offset", [0, MAX])
def test_offsets_are_int64_from_0(offset: int) -> None:
    assert StreamCut({MAX: offset}).offsets == {MAX: offset}


@pytest.mark.parametrize(
    ("offsets", "named"),
    [
        ({-1: 0}, "segment -1 "),
        ({2**63: 0}, f"segment {2**63} "),
        ({3: -1}, "offset -1 of segment 3 "),
        ({3: 2**63}, f"offset {2**63} of segment 3 "),
    ],
)
def test_invalid_offset_or_segment_is_rejected(offsets: dict[int, int], named: str) -> None:
    with pytest.raises(Rejected, match=named):
        StreamCut(offsets)


# Rule 9: the time window of a position, and what else follows from the marks


Increment = tuple[int, int, dict[int, int]]

increments = st.tuples(
    st.integers(1, 3),
    st.integers(0, 3),
    st.dictionaries(st.integers(0, 4), st.integers(0, 3), max_size=3),
)

positions = st.dictionaries(st.integers(0, 6), st.integers(0, 9), max_size=5)


def append_mark(mark: Mark, step: Increment) -> Mark:
    lower_gain, higher, gains = step
    offsets = dict(mark.cut.offsets)
    for segment, gain in gains.items():
        offsets[segment] = offsets.get(segment, 0) + gain
    excluded_writers = ("UA",) if lower_gain == 3 else ()
    cut = StreamCut({segment: offset for segment, offset in offsets.items() if offset})
    bound = higher != 3
    written_at = mark.seq * 10
    lower = mark.lower + lower_gain
    upper = mark.upper + higher
    count = 1000 + written_at if excluded_writers else UNSET
    return Mark(
        mark.seq + 1, lower, upper, cut, written_at, excluded_writers, bound, excluded_count=count
    )


BEFORE = Mark(0, 0, 0, StreamCut({}))

chains = st.lists(increments, max_size=12).map(
    lambda steps: list(accumulate(steps, append_mark, initial=BEFORE))[1:]
)


def scan_marks(marks: list[Mark], position: dict[int, int]) -> TimeWindow:
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


@given(
    early=chains,
    steps=st.lists(increments, max_size=6),
    position=positions,
    through=st.integers(0, 12),
)
def test_window_equals_a_scan(
    early: list[Mark], steps: list[Increment], position: dict[int, int], through: int
) -> None:
    """Early marks may be forgotten before others are appended, and segments added later."""
    later_marks = list(accumulate(steps, append_mark, initial=early[-1] if early else BEFORE))[1:]
    history = MarkHistory(early)
    history.forget_through(through)
    for mark in later_marks:
        history.append(mark)
    kept_marks = ([mark for mark in early if mark.seq > through] or early[-1:]) + later_marks
    places = [position, *(dict(mark.cut.offsets) for mark in early + later_marks)]

    assert [history.window(p) for p in places] == [scan_marks(kept_marks, p) for p in places]
    assert history.after(0, 99) == kept_marks


@given(marks=chains, time=st.integers(0, 40))
def test_complete_to_is_the_first_mark_at_or_above_the_time(marks: list[Mark], time: int) -> None:
    history = MarkHistory(marks)
    reaching_marks = [mark for mark in marks if mark.lower >= time]

    if reaching_marks:
        assert history.complete_to(time) == reaching_marks[0]
    else:
        with pytest.raises(NotCompleteYet) as error:
            history.complete_to(time)
        assert error.value.lower == (marks[-1].lower if marks else None)


@given(marks=chains, time=st.integers(0, 40), seq=st.integers(0, 13))
@example(marks=[append_mark(BEFORE, (1, 2, {}))], time=1, seq=1)
def test_last_bound_below_a_time_equals_a_scan(marks: list[Mark], time: int, seq: int) -> None:
    lower_marks = [m for m in marks if m.seq <= seq and m.upper_is_bound and m.upper < time]

    assert MarkHistory(marks).bounded_below(time, seq) == (lower_marks[-1] if lower_marks else None)


@given(marks=chains, seq=st.integers(0, 14), limit=st.integers(0, 14))
def test_after_gives_the_next_marks_as_they_were(marks: list[Mark], seq: int, limit: int) -> None:
    assert MarkHistory(marks).after(seq, limit) == [m for m in marks if m.seq > seq][:limit]


@pytest.mark.parametrize(("seq", "lower"), [(2, 20), (4, 20), (3, 10), (1, 30)])
def test_mark_out_of_order_is_refused(seq: int, lower: int) -> None:
    history = MarkHistory(Mark(seq, seq * 5, 0, StreamCut({0: seq})) for seq in (1, 2))

    with pytest.raises(ValueError, match=f"mark {seq} at {lower} does not follow mark 2"):
        history.append(Mark(seq, lower, 0, StreamCut({0: 9})))


@given(
    marks=chains.filter(bool),
    through=st.integers(0, 12),
    count=st.integers(1, 12),
    first=st.integers(0, 13),
    last=st.integers(0, 13),
)
def test_copy_of_latest_marks_answers_like_its_source(
    marks: list[Mark], through: int, count: int, first: int, last: int
) -> None:
    """The history is sealed and has forgotten its first marks. The copy leaves it unchanged."""
    marks[-1] = replace(marks[-1], final=True)
    history = MarkHistory()
    for mark in marks:
        history.append(mark, f"w{mark.seq}")
    history.seal(marks[-1].cut.offsets)
    history.forget_through(through)
    before = [mark for mark in marks if mark.seq > through] or marks[-1:]

    for copied_history, known_marks in (
        (history, before),
        (history.latest(count), before[-count:]),
    ):
        marks_in_range = [m for m in known_marks if first <= m.seq <= last]
        names = dict.fromkeys(name for mark in marks_in_range for name in mark.excluded)
        assert copied_history.after(0, 99) == list(copied_history.following(0)) == known_marks
        assert (len(copied_history), copied_history.first, copied_history.last) == (
            len(known_marks),
            known_marks[0],
            known_marks[-1],
        )
        assert (copied_history.first_seq, copied_history.last_seq) == (
            known_marks[0].seq,
            known_marks[-1].seq,
        )
        assert copied_history.last_lower == known_marks[-1].lower
        assert [copied_history.last_writer(m.seq) for m in known_marks] == [
            f"w{m.seq}" for m in known_marks
        ]
        assert copied_history.excluded_in(first, last) == tuple(names)
        assert list(copied_history.latest_written_at(3)) == [m.written_at for m in known_marks[-3:]]
        assert (copied_history.is_whole, copied_history.final_cut) == (True, marks[-1].cut.offsets)
        assert copied_history.complete_to(99) == known_marks[-1]
        assert copied_history.window(marks[-1].cut.offsets).sealed
        with pytest.raises(ValueError, match="does not follow"):
            copied_history.append(
                replace(marks[-1], seq=marks[-1].seq + 1, lower=marks[-1].lower + 1)
            )


def test_a_mark_is_found_by_its_seq() -> None:
    marks = [Mark(seq, seq, seq, StreamCut({0: seq})) for seq in (1, 2, 3)]
    history = MarkHistory(marks)
    history.forget_through(1)

    with pytest.raises(KeyError, match=r"^1$"):
        history.mark(1)

    assert [history.mark(2), history.mark(3), history.last] == [*marks[1:], marks[2]]


def test_a_segment_without_rows_has_no_stretch() -> None:
    history = MarkHistory([Mark(1, 10, 9, StreamCut({0: 0, 1: 5}))])

    assert [history.stretch(segment) for segment in (0, 1, 2)] == [None, (5, 5), None]


# What marks remember of segments is in proportion to the segments that moved in them


LONG = 60

stretches = st.lists(st.tuples(increments, st.integers(1, LONG)), min_size=1, max_size=4)

"""Steps, each repeated: segments move often for a while, and then rarely or never."""


@given(steps=stretches, place=st.integers(0, 4 * LONG), ahead=st.integers(0, 2))
def test_lookup_is_equal_for_dense_and_sparse_segments(
    steps: list[tuple[Increment, int]], place: int, ahead: int
) -> None:
    """Whichever form a segment has at the time, and after a change of form."""
    repeated_steps = [step for step, times in steps for _ in range(times)]
    marks = list(accumulate(repeated_steps, append_mark, initial=BEFORE))[1:]
    history = MarkHistory(marks)
    history.forget_through(place // 3)
    kept_marks = [mark for mark in marks if mark.seq > place // 3] or marks[-1:]
    cut = dict(marks[place % len(marks)].cut.offsets)
    positions = [cut, {s: offset + ahead for s, offset in cut.items()}, {0: ahead, 9: ahead}]

    assert [history.window(p) for p in positions] == [scan_marks(kept_marks, p) for p in positions]
    assert [history.times(p) for p in positions] == [scan_times(kept_marks, p) for p in positions]
    ends = {segment: end for segment, end in kept_marks[-1].cut.offsets.items() if end}
    last_moves = {
        s: next(m for m in kept_marks if m.cut.offsets.get(s, 0) == end) for s, end in ends.items()
    }
    assert {s: history.moved_at(s) for s in ends} == {
        s: m.written_at for s, m in last_moves.items()
    }
    assert history.after(0, 999) == kept_marks
    assert history.latest(7).after(0, 999) == kept_marks[-7:]


def scan_times(marks: list[Mark], position: dict[int, int]) -> dict[int, int | None]:
    """Answer by looking at every mark: the lower of the last one not beyond, by segment."""
    segments = {segment for mark in marks for segment in mark.cut.offsets} | position.keys()
    return {
        segment: next(
            (
                mark.lower
                for mark in reversed(marks)
                if mark.cut.offsets.get(segment, 0) <= position.get(segment, 0)
            ),
            None,
        )
        for segment in segments
    }


@pytest.mark.parametrize("moves", [lambda _: 0, lambda seq: seq % 200], ids=["rarely", "in turn"])
def test_segments_store_only_their_moves(moves: Callable[[int], int]) -> None:
    """Two thousand marks over five hundred segments move one segment each."""
    cut = dict.fromkeys(range(500), 1)
    tracemalloc.start()
    history = MarkHistory()
    for seq in range(1, 2001):
        cut[moves(seq)] = seq
        history.append(Mark(seq, seq, seq, StreamCut(dict(cut))))
    traced_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert traced_bytes < 300_000
    assert history.window(cut | {moves(500): 500}).lower in {500, 699}
