"""From which time on a reader has all rows, against the deleted rows themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from noted_time import Mark, StreamCut
from noted_time.reading import MarkHistory, WholeFrom
from noted_time.values import MIN_INT64

Rows = dict[int, list[int]]

Steps = list[tuple[dict[int, int], int]]

_rows = st.fixed_dictionaries({s: st.lists(st.integers(0, 20), max_size=8) for s in range(2)})
_offsets = st.fixed_dictionaries({s: st.integers(0, 9) for s in range(2)})
_steps = st.lists(st.tuples(_offsets, st.integers(0, 22)), max_size=4)


def times_below(rows: Rows, offsets: dict[int, int]) -> list[int]:
    return [time for s, times in rows.items() for time in times[: offsets.get(s, 0)]]


def marks_over(rows: Rows, steps: Steps) -> list[Mark]:
    """Return a chain whose uppers are bounds only if no row below the cut has a later time."""
    marks, cut = list[Mark](), StreamCut({})
    for seq, (offsets, upper) in enumerate(steps, 1):
        cut = cut.join(StreamCut(offsets))
        is_bound = all(time <= upper for time in times_below(rows, dict(cut.offsets)))
        marks.append(Mark(seq, seq, upper, cut, upper_is_bound=is_bound))
    return marks


@given(rows=_rows, steps=_steps, begins=_offsets)
def test_rows_from_the_time_on_are_kept(rows: Rows, steps: Steps, begins: dict[int, int]) -> None:
    found = WholeFrom(begins).resolve(MarkHistory(marks_over(rows, steps)))

    deleted = times_below(rows, begins)
    assert found.time is None or [time for time in deleted if time >= found.time] == []


@given(rows=_rows, steps=_steps, begins=_offsets)
def test_first_mark_with_begins_decides(rows: Rows, steps: Steps, begins: dict[int, int]) -> None:
    """The time is pending before that mark, and unknown if its upper is not a bound."""
    marks = marks_over(rows, steps)
    found = WholeFrom(begins).resolve(MarkHistory(marks))

    reaching = [mark for mark in marks if mark.cut.reaches(StreamCut(begins))]
    first = reaching[0] if reaching else None
    known = first.upper + 1 if first is not None and first.upper_is_bound else None
    time = known if any(begins.values()) else MIN_INT64
    is_unknown = time is None and first is not None
    assert (found.time, bool(found.unknown), found.is_pending) == (
        time,
        is_unknown,
        time is None and first is None,
    )


@given(rows=_rows, steps=_steps, begins=_offsets, known=st.integers(0, 4))
def test_known_time_is_final(rows: Rows, steps: Steps, begins: dict[int, int], known: int) -> None:
    marks = marks_over(rows, steps)
    early = WholeFrom(begins).resolve(MarkHistory(marks[:known]))
    later = early.resolve(MarkHistory(marks[known:]))

    assert later == (WholeFrom(begins).resolve(MarkHistory(marks)))


def test_upper_of_other_times_is_not_a_bound() -> None:
    marks = MarkHistory([Mark(1, 10, 14, StreamCut({0: 20}), upper_is_bound=True)])

    assert WholeFrom({0: 15}).resolve(marks, bounded=False).sentence == (
        "it is not known which windows may lack rows: the upper of mark 1, the first after the "
        "deleted rows, is not a bound of their times"
    )
