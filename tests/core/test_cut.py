"""Stream cuts: their order, and the window of a position (rule 9)."""

import tracemalloc
from collections.abc import Iterable, Mapping
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
    is_same = drop_zeros(one.offsets) == drop_zeros(other.offsets)

    assert (one.reaches(other) and other.reaches(one)) == is_same


def drop_zeros(offsets: Mapping[int, int]) -> dict[int, int]:
    return {segment: offset for segment, offset in offsets.items() if offset}


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
    cut = StreamCut(drop_zeros(offsets))
    bound = higher != 3
    written_at = mark.seq * 10
    lower = mark.lower + lower_gain
    upper = mark.upper + higher
    count = 1000 + written_at if excluded_writers else UNSET
    return Mark(
        mark.seq + 1, lower, upper, cut, written_at, excluded_writers, bound, excluded_count=count
    )


BEFORE = Mark(0, 0, 0, StreamCut({}))


def append_marks(steps: Iterable[Increment], last: Mark = BEFORE) -> list[Mark]:
    """Return the marks of the steps after the last one."""
    return list(accumulate(steps, append_mark, initial=last))[1:]


chains = st.lists(increments, max_size=12).map(append_marks)


def list_later(marks: list[Mark], seq: int) -> list[Mark]:
    return [mark for mark in marks if mark.seq > seq]


def scan_marks(marks: list[Mark], position: dict[int, int]) -> TimeWindow:
    """Answer by looking at every mark, in the words of rule 9."""
    place = StreamCut(position)
    lower_mark = None
    upper_mark = None
    for mark in marks:
        if place.reaches(mark.cut):
            lower_mark = mark
        elif mark.cut.reaches(place) and upper_mark is None:
            upper_mark = mark
    return TimeWindow(
        lower=lower_mark.lower if lower_mark else None,
        upper=upper_mark.upper if upper_mark else None,
        lower_seq=lower_mark.seq if lower_mark else None,
        upper_seq=upper_mark.seq if upper_mark else None,
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
    later_marks = append_marks(steps, early[-1] if early else BEFORE)
    history = MarkHistory(early)
    history.forget_through(through)
    for mark in later_marks:
        history.append(mark)
    kept_marks = (list_later(early, through) or early[-1:]) + later_marks
    places = [position, *(dict(mark.cut.offsets) for mark in early + later_marks)]

    for place in places:
        assert history.window(place) == scan_marks(kept_marks, place)
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
    assert MarkHistory(marks).after(seq, limit) == list_later(marks, seq)[:limit]


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
    before = list_later(marks, through) or marks[-1:]

    for copied_history, known_marks in (
        (history, before),
        (history.latest(count), before[-count:]),
    ):
        names: dict[str, None] = {}
        for mark in known_marks:
            if first <= mark.seq <= last:
                names |= dict.fromkeys(mark.excluded)
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
        for mark in known_marks:
            assert copied_history.last_writer(mark.seq) == f"w{mark.seq}"
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
    repeated_steps: list[Increment] = []
    for step, times in steps:
        repeated_steps += [step] * times
    marks = append_marks(repeated_steps)
    history = MarkHistory(marks)
    history.forget_through(place // 3)
    kept_marks = list_later(marks, place // 3) or marks[-1:]
    cut = dict(marks[place % len(marks)].cut.offsets)
    positions = [cut, {s: offset + ahead for s, offset in cut.items()}, {0: ahead, 9: ahead}]

    for position in positions:
        assert history.window(position) == scan_marks(kept_marks, position)
        assert history.times(position) == scan_times(kept_marks, position)
    for segment, end in drop_zeros(kept_marks[-1].cut.offsets).items():
        last_move = next(mark for mark in kept_marks if mark.cut.offsets.get(segment, 0) == end)
        assert history.moved_at(segment) == last_move.written_at
    assert history.after(0, 999) == kept_marks
    assert history.latest(7).after(0, 999) == kept_marks[-7:]


def scan_times(marks: list[Mark], position: dict[int, int]) -> dict[int, int | None]:
    """Answer by looking at every mark: the lower of the last one not beyond, by segment."""
    times: dict[int, int | None] = dict.fromkeys(position)
    for mark in marks:
        for segment in mark.cut.offsets:
            times.setdefault(segment, None)
    for segment in times:
        for mark in marks:
            if mark.cut.offsets.get(segment, 0) <= position.get(segment, 0):
                times[segment] = mark.lower
    return times


@pytest.mark.parametrize("segments", [1, 200], ids=["rarely", "in turn"])
def test_segments_store_only_their_moves(segments: int) -> None:
    """Two thousand marks over five hundred segments move one segment each."""
    cut = dict.fromkeys(range(500), 1)
    tracemalloc.start()
    history = MarkHistory()
    for seq in range(1, 2001):
        cut[seq % segments] = seq
        history.append(Mark(seq, seq, seq, StreamCut(dict(cut))))
    traced_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert traced_bytes < 300_000
    assert history.window(cut | {500 % segments: 500}).lower in {500, 699}
