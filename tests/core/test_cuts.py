"""What marks remember of segments is in proportion to the segments that moved in them."""

import tracemalloc
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from noted_time import Mark, MarkHistory, StreamCut
from tests.core.test_history import BEFORE, following, increments, scanned

LONG = 60
stretches = st.lists(st.tuples(increments, st.integers(1, LONG)), min_size=1, max_size=4)
"""Steps, each repeated: segments move often for a while, and then rarely or never."""


def chain_of(steps: list[tuple[tuple[int, int, dict[int, int]], int]]) -> list[Mark]:
    """Return the marks of a long history."""
    repeated = [step for step, times in steps for _ in range(times)]
    return list(accumulate(repeated, following, initial=BEFORE))[1:]


@given(steps=stretches, place=st.integers(0, 4 * LONG), ahead=st.integers(0, 2))
def test_segments_that_move_often_and_rarely_are_found_alike(
    steps: list[tuple[tuple[int, int, dict[int, int]], int]], place: int, ahead: int
) -> None:
    """Whichever form a segment has at the time, and after a change of form."""
    marks = chain_of(steps)
    history = MarkHistory(marks)
    history.forget_through(place // 3)
    kept = [mark for mark in marks if mark.seq > place // 3] or marks[-1:]
    cut = dict(marks[place % len(marks)].cut.offsets)
    positions = [cut, {s: offset + ahead for s, offset in cut.items()}, {0: ahead, 9: ahead}]

    assert [history.window(p) for p in positions] == [scanned(kept, p) for p in positions]
    assert [history.times(p) for p in positions] == [times_of(kept, p) for p in positions]
    ends = {segment: end for segment, end in kept[-1].cut.offsets.items() if end}
    moved = {s: next(m for m in kept if m.cut.offsets.get(s, 0) == end) for s, end in ends.items()}
    assert {s: history.moved_at(s) for s in ends} == {s: m.written_at for s, m in moved.items()}
    assert history.after(0, 999) == kept
    assert history.latest(7).after(0, 999) == kept[-7:]


def times_of(marks: list[Mark], position: dict[int, int]) -> dict[int, int | None]:
    """Answer by looking at every mark: of a segment, the lower of the last one not beyond."""
    named = {segment for mark in marks for segment in mark.cut.offsets} | position.keys()
    return {
        segment: next(
            (
                mark.lower
                for mark in reversed(marks)
                if mark.cut.offsets.get(segment, 0) <= position.get(segment, 0)
            ),
            None,
        )
        for segment in named
    }


def test_a_segment_that_rests_costs_later_marks_nothing() -> None:
    """Five hundred segments named once, and two thousand marks that each move one of them."""
    named = dict.fromkeys(range(500), 1)
    tracemalloc.start()
    history = MarkHistory()
    for seq in range(1, 2001):
        history.append(Mark(seq, seq, seq, StreamCut({**named, 0: seq})))
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert taken < 300_000
    assert history.window({**named, 0: 500}).lower == 500


def test_a_segment_that_moves_now_and_then_takes_room_for_its_moves_alone() -> None:
    """Each mark moves another of two hundred segments; each has ten moves in the end."""
    cut: dict[int, int] = {}
    tracemalloc.start()
    history = MarkHistory()
    for seq in range(1, 2001):
        cut[seq % 200] = seq
        history.append(Mark(seq, seq, seq, StreamCut(dict(cut))))
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert taken < 300_000
