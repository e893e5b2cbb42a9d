"""The time from which a reader has all rows, if rows before the begins of segments were deleted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from noted_time import Mark, StreamCut
from noted_time.reading import MarkHistory, WholeFrom
from noted_time.values import MIN_INT64

Steps = list[tuple[dict[int, int], int, bool]]

_offsets = st.fixed_dictionaries({s: st.integers(0, 9) for s in range(2)})
_steps = st.lists(st.tuples(_offsets, st.integers(0, 22), st.booleans()), max_size=4)


def chain_marks(steps: Steps) -> list[Mark]:
    marks = list[Mark]()
    cut = StreamCut({})
    for seq, (offsets, upper, is_bound) in enumerate(steps, 1):
        cut = cut.join(StreamCut(offsets))
        marks.append(Mark(seq, seq, upper, cut, upper_is_bound=is_bound))
    return marks


@given(steps=_steps, begins=_offsets)
def test_first_mark_with_begins_decides(steps: Steps, begins: dict[int, int]) -> None:
    """Deleted rows lie below its cut, so they are at most at its upper, if that is a bound.

    The time is pending before that mark, and unknown if its upper is not a bound.
    """
    marks = chain_marks(steps)
    result = WholeFrom(begins).resolve(MarkHistory(marks))

    first = next((mark for mark in marks if mark.cut.reaches(StreamCut(begins))), None)
    known_time = first.upper + 1 if first is not None and first.upper_is_bound else None
    time = known_time if any(begins.values()) else MIN_INT64
    assert (result.time, bool(result.unknown), result.is_pending) == (
        time,
        time is None and first is not None,
        time is None and first is None,
    )


@given(steps=_steps, begins=_offsets, known=st.integers(0, 4))
def test_known_time_is_final(steps: Steps, begins: dict[int, int], known: int) -> None:
    marks = chain_marks(steps)
    early = WholeFrom(begins).resolve(MarkHistory(marks[:known]))

    assert early.resolve(MarkHistory(marks[known:])) == WholeFrom(begins).resolve(
        MarkHistory(marks)
    )


def test_upper_of_other_times_is_not_a_bound() -> None:
    marks = MarkHistory([Mark(1, 10, 14, StreamCut({0: 20}), upper_is_bound=True)])

    assert WholeFrom({0: 15}).resolve(marks, has_bound=False).sentence == (
        "it is not known which windows may lack rows: the upper of mark 1, the first after the "
        "deleted rows, is not a bound of their times"
    )
