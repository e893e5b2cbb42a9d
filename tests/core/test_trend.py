"""How a watermark moved, against a look at every mark."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from noted_time import Mark, StreamCut
from noted_time.reading import MarkHistory, Point
from noted_time.reading.trend import NAMES_PER_POINT
from noted_time.values import UNIX_MS

AT = UNIX_MS.start
names = st.lists(st.sampled_from("abcdefghijklmn"), max_size=3, unique=True).map(tuple)
steps = st.lists(
    st.tuples(st.integers(1, 4), st.integers(-9, 20), names, st.booleans()), max_size=40
)
"""By how much lower and wall time advance, which writers are excluded, whether the upper is a
bound."""

Taken = list[tuple[int, int, tuple[str, ...], bool]]
starts = st.sampled_from((0, AT - 30, AT, UNIX_MS.stop - 30))


def chain(start: int, strides: Taken) -> list[Mark]:
    marks = []
    lower = start
    wall = start + 10
    for seq, (lower_gain, passes, excluded_writers, bound) in enumerate(strides, start=1):
        lower = lower + lower_gain
        wall = wall + passes
        cut = StreamCut({0: seq})
        marks.append(Mark(seq, lower, lower + 5, cut, wall, excluded_writers, upper_is_bound=bound))
    return marks


def make_history(marks: list[Mark], forgotten: int) -> MarkHistory:
    history = MarkHistory(marks)
    history.forget_through(forgotten)
    return history


def scan_marks(marks: list[Mark], start: int, end: int, count_limit: int) -> list[Point]:
    before = {after.seq: mark.lower for mark, after in pairwise(marks)}
    slots: dict[int, list[Mark]] = {}
    for mark in marks:
        if start <= mark.written_at <= end:
            slot = (mark.written_at - start) * count_limit // (end - start + 1)
            slots.setdefault(slot, []).append(mark)
    return [point(slots[slot], before) for slot in sorted(slots)]


def point(marks: list[Mark], before: dict[int, int]) -> Point:
    last = marks[-1]
    lags = []
    excluded_writers: dict[str, None] = {}
    excluding_count = 0
    for mark in marks:
        if before.get(mark.seq, 0) in UNIX_MS:
            lags.append(mark.written_at - before[mark.seq])
        if mark.excluded:
            excluding_count += 1
            excluded_writers |= dict.fromkeys(mark.excluded)
    return Point(
        last.written_at,
        last.seq,
        last.lower,
        last.upper,
        last.upper_is_bound,
        len(marks),
        max(lags, default=None),
        tuple(excluded_writers)[:NAMES_PER_POINT],
        excluding_count,
    )


def list_kept(marks: list[Mark], forgotten: int) -> list[Mark]:
    """Return the marks that a history keeps; the last one is never forgotten."""
    return [mark for mark in marks if mark.seq > forgotten] or marks[-1:]


@example(2**62 + 990, [(1, 0, (), False), (1, 1, (), False)], 0, 10, 1, 2)
@given(
    start=starts,
    taken=steps,
    forgotten=st.integers(0, 40),
    begins=st.integers(-50, 300),
    ends=st.integers(0, 500),
    most=st.integers(1, 60),
)
def test_trend_points_equal_a_scan_of_all_marks(  # noqa: PLR0913, PLR0917 - drawn
    start: int, taken: Taken, forgotten: int, begins: int, ends: int, most: int
) -> None:
    marks = chain(start, taken)
    kept_marks = list_kept(marks, forgotten)
    trend = make_history(marks, forgotten).trend()
    period = (start + begins, start + begins + ends)

    assert trend.points(*period, most) == scan_marks(kept_marks, *period, most)


@given(start=starts, taken=steps, forgotten=st.integers(0, 40), begins=st.integers(-50, 300))
def test_lag_uses_the_mark_before(start: int, taken: Taken, forgotten: int, begins: int) -> None:
    """A mark of exactly the moment counts for its lag."""
    marks = chain(start, taken)
    trend = make_history(marks, forgotten).trend()
    moment = start + begins
    lower_before = None
    lag = None
    for mark in list_kept(marks, forgotten):
        if mark.written_at < moment:
            lower_before = mark.lower
        if mark.written_at <= moment:
            lag = moment - mark.lower if mark.lower in UNIX_MS else None

    assert trend.lower_before(moment) == lower_before
    assert trend.lags([moment]) == [lag]


@given(start=starts, taken=steps.filter(bool), at=st.integers(0, 40), forgotten=st.integers(0, 40))
def test_past_trend_does_not_change(start: int, taken: Taken, at: int, forgotten: int) -> None:
    marks = chain(start, taken)
    history = MarkHistory(marks[:at])
    trend = history.trend()
    before = trend.points(start, start + 999, 20), trend.lower_before(start + 999)
    for mark in marks[at:]:
        history.append(mark)
    history.forget_through(forgotten)

    assert (trend.points(start, start + 999, 20), trend.lower_before(start + 999)) == before
    left = marks[forgotten:] or marks[-1:]
    assert history.trend().points(0, 10**14, 9) == scan_marks(left, 0, 10**14, 9)


@given(taken=steps, last=st.integers(0, 40), forgotten=st.integers(0, 40))
def test_latest_marks_have_the_same_trend(taken: Taken, last: int, forgotten: int) -> None:
    marks = chain(AT, taken)
    latest = MarkHistory(marks).latest(last)
    latest.forget_through(forgotten)
    new_history = MarkHistory(latest.after(0, 99))

    period = AT - 999, AT + 9999, 7
    assert latest.trend().points(*period) == new_history.trend().points(*period)


def test_a_point_names_at_most_ten_excluded_writers() -> None:
    """Those that were excluded first."""
    names = tuple(f"w{n:02}" for n in range(12))
    marks = [Mark(n, n, n, StreamCut({}), n, names[6 * n - 6 : 6 * n]) for n in (1, 2)]
    (point,) = MarkHistory(marks).trend().points(0, 9, 1)

    assert (point.excluded, point.excluded_marks) == (names[:10], 2)
