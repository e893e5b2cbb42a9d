"""Which windows are complete, and which late rows and missing writers they name."""

from collections import Counter
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from noted_time import CompleteWindow, Mark, Rejected, StreamCut
from noted_time.reading import (
    Coverage,
    LateReports,
    MarkHistory,
    MissingWriters,
    Tiling,
    find_changed_windows,
    find_complete_windows,
)
from noted_time.reading.windows import check_windows
from noted_time.values import (
    DAY_MS,
    HOUR_MS,
    LEAST_TIME,
    LEAST_UNIX_MS,
    MAX_INT64,
    UNIX_MS,
    Absence,
    ImplausibleTime,
    Late,
    LatePlace,
    LateReport,
    LateRows,
    NotVouching,
    VouchedBy,
    parse_time,
)
from noted_time.values.writer_state import MissingReason
from noted_time.verdict import Requirement, judge_time
from tests.core.test_cut import chains
from tests.support.http import as_json, read_json
from tests.support.judged import Domain

tilings = st.builds(Tiling, st.integers(1, 7), st.integers(-20, 20))


def scan_windows(marks: list[Mark], start: int, end: int) -> CompleteWindow:
    """Compute a window by looking at every mark."""
    to = next(mark for mark in marks if mark.lower >= end)
    before = [m for m in marks if m.seq <= to.seq and m.upper_is_bound and m.upper < start][-1:]
    over = [mark for mark in marks if mark.lower > start and mark.seq <= to.seq]
    return CompleteWindow(
        start,
        end,
        before[0].cut if before else StreamCut({}),
        to.cut,
        to.seq,
        to.written_at,
        tuple(dict.fromkeys(name for mark in over for name in mark.excluded)),
        exact=bool(before),
    )


@given(
    marks=chains,
    tiling=tilings,
    after=st.none() | st.integers(-25, 40),
    through=st.integers(0, 12),
    limit=st.integers(1, 9),
)
def test_windows_equal_a_scan_of_all_marks(
    marks: list[Mark], tiling: Tiling, after: int | None, through: int, limit: int
) -> None:
    """Early marks may be forgotten, and some uppers are not bounds."""
    history = MarkHistory(marks)
    history.forget_through(through)
    kept_marks = history.after(0, 99)
    windows = list(find_complete_windows(history, tiling, after=after, limit=limit))

    assert windows == [scan_windows(kept_marks, w.start, w.start + tiling.size_ms) for w in windows]
    assert [w.start for w in windows] == list_expected_starts(kept_marks, tiling, after)[:limit]


def list_expected_starts(marks: list[Mark], tiling: Tiling, after: int | None) -> list[int]:
    if not marks:
        return []
    begin = marks[0].lower if after is None else after
    starts = (time for time in range(-80, 80) if (time - tiling.origin) % tiling.size_ms == 0)
    return [start for start in starts if begin < start + tiling.size_ms <= marks[-1].lower]


@pytest.mark.parametrize(
    ("lower", "final_offset", "ends"), [(30, 8, [20, 30]), (31, 8, [20, 30, 40]), (31, 9, [20, 30])]
)
def test_seal_completes_the_last_window(lower: int, final_offset: int, ends: list[int]) -> None:
    """A seal beyond the last mark adds no window."""
    cuts = StreamCut({0: 5}), StreamCut({0: 8})
    history = MarkHistory([Mark(1, 20, 20, cuts[0]), Mark(2, lower, lower, cuts[1])])
    history.seal({0: final_offset})
    windows = list(find_complete_windows(history, Tiling(10), after=10, limit=9))

    assert [window.end for window in windows] == ends
    assert windows[-1].to_cut == cuts[1]


@given(marks=chains, tiling=tilings, seals=st.booleans(), before=st.integers(0, 9))
def test_window_has_the_mark_of_the_verdict_on_its_end(
    marks: list[Mark],
    tiling: Tiling,
    seals: bool,  # noqa: FBT001 - drawn
    before: int,
) -> None:
    """Law: it is before the first mark if its end is. The last mark of a sealed stream has all."""
    history = MarkHistory(marks)
    if marks and seals:
        history.seal(marks[-1].cut.offsets)
    domain = Domain(history, first_lower=marks[0].lower - before if marks else None)
    windows = list(
        find_complete_windows(history, tiling, after=-25, limit=99, coverage=domain.coverage)
    )
    verdicts = [judge_time(domain, Requirement(), window.end) for window in windows]

    assert [window.seq for window in windows] == [
        verdict.mark and verdict.mark.seq for verdict in verdicts
    ]
    for window, verdict in zip(windows, verdicts, strict=True):
        assert verdict.gaps is not None
        assert window.before_first_mark or not verdict.gaps.before_first_mark
        assert not (window.before_first_mark and history.has_all_rows(window.seq))


@pytest.mark.parametrize("size_ms", [0, -1, 2**63])
def test_a_window_has_a_size(size_ms: int) -> None:
    with pytest.raises(Rejected, match="a window lasts from 1"):
        Tiling(size_ms)


@given(marks=chains, tiling=tilings)
def test_window_survives_json(marks: list[Mark], tiling: Tiling) -> None:
    windows = list(find_complete_windows(MarkHistory(marks), tiling, after=-20, limit=5))

    answers = [as_json(window) for window in windows]
    assert [read_json(CompleteWindow, answer) for answer in answers] == windows


def test_fields_of_a_newer_controller_are_ignored() -> None:
    """Clients are upgraded after controllers."""
    history = MarkHistory([Mark(1, lower=10, upper=10, cut=StreamCut({0: 5}))])
    (window,) = find_complete_windows(history, Tiling(10), after=0, limit=1)
    vouched_by = VouchedBy(1, ("UA",), not_vouching=(NotVouching("DL", "idle", 5),))
    wire = as_json(structs.replace(window, vouched=vouched_by))
    wire["vouched"]["later"] = wire["vouched"]["not_vouching"][0]["later"] = 7

    assert read_json(CompleteWindow, wire).vouched == vouched_by


quarters = st.integers(-8, 40)


def draw_reports(unit_ms: int) -> st.SearchStrategy[LateReport]:
    """Return reports whose times are multiples of a unit."""
    return st.builds(
        lambda writer, rows, min_units, length, seen_units: LateReport(
            *(writer, rows, min_units * unit_ms, (min_units + length) * unit_ms),
            *(seen_units * unit_ms, seen_units * unit_ms),
            seen_served_ms=seen_units * unit_ms,
        ),
        st.sampled_from("abc"),
        st.integers(1, 9),
        quarters,
        st.sampled_from([0, 0, 0, 1, 2, 9]),
        st.integers(0, 20),
    )


reports = draw_reports(HOUR_MS // 4)


def rows_of(late: Late) -> dict[str, int]:
    return {writer.writer: writer.rows for writer in late.writers}


def sum_rows(reports: list[LateReport]) -> dict[str, int]:
    counts = Counter[str]()
    for report in reports:
        counts[report.writer] += report.rows
    return dict(counts)


def list_meeting(reports: list[LateReport], start: int, end: int) -> list[LateReport]:
    return [report for report in reports if report.first < end and report.max_time >= start]


@given(st.lists(reports, max_size=40), quarters, st.integers(1, 12))
def test_window_names_its_late_reports(given: list[LateReport], start: int, length: int) -> None:
    """Full hours have exactly the reported rows, and other windows never fewer."""
    first = start * HOUR_MS // 4
    end = (start + length) * HOUR_MS // 4
    late = LateReports()
    for report in given:
        late.add(report)
    answer = late.find_between(first, end)

    rows_found = rows_of(answer)
    kept_reports = list(late)
    assert all(
        writer.may_lie_outside == ((writer.min_time or 0) < first or writer.max_time >= end)
        for writer in answer.writers
    )
    assert sum_rows(given) == sum_rows(kept_reports)
    assert rows_found == sum_rows(list_meeting(kept_reports, first, end))
    assert Counter(rows_found) >= Counter(sum_rows(list_meeting(given, first, end)))
    if first % HOUR_MS == end % HOUR_MS == 0:
        assert rows_found == sum_rows(list_meeting(given, first, end))


@given(st.lists(reports, max_size=60), st.integers(1, 12), quarters)
def test_dropped_reports_are_not_known(given: list[LateReport], most: int, start: int) -> None:
    late = LateReports()
    known_reports: dict[LatePlace, LateReport | None] = {}
    for report in given:
        known_reports |= late.add(report, most)
        assert len(late) <= most
    first = start * HOUR_MS // 4
    end = (start + 4) * HOUR_MS // 4
    found_reports = late.find_between(first, end)

    assert sorted(filter(None, known_reports.values()), key=repr) == sorted(late, key=repr)
    assert not found_reports.is_known or Counter(rows_of(found_reports)) >= Counter(
        sum_rows(list_meeting(given, first, end))
    )
    if most >= len({report.writer for report in given}) * 4:
        assert (sum_rows(list(late)), found_reports.is_known) == (sum_rows(given), True)


@given(st.lists(reports, max_size=40), quarters, st.integers(1, 9))
def test_single_windows_equal_a_series(given: list[LateReport], start: int, count: int) -> None:
    late = LateReports()
    for report in given:
        late.add(report)
    sorted_reports = LateReports(sorted(late, key=lambda report: report.place))
    borders = [start * HOUR_MS // 2 + n * HOUR_MS for n in range(count + 1)]

    alone = [late.find_between(*window) for window in pairwise(borders)]
    assert list(sorted_reports.find_in_windows(borders)) == alone


@given(
    marks=chains,
    tiling=tilings,
    rows=st.lists(draw_reports(1), max_size=6, unique_by=lambda report: report.place),
    since=st.integers(0, 20),
    after=st.none() | st.integers(-25, 40),
    seals=st.booleans(),
)
def test_changed_windows_have_late_rows_since_the_time(  # noqa: PLR0913, PLR0917 - drawn
    marks: list[Mark],
    tiling: Tiling,
    rows: list[LateReport],
    since: int,
    after: int | None,
    seals: bool,  # noqa: FBT001 - drawn
) -> None:
    """They have only these rows. Without a time, they begin at the first report."""
    history = MarkHistory(marks)
    if marks and seals:
        history.seal(marks[-1].cut.offsets)
    late = LateReports(rows)
    coverage = Coverage(MissingWriters(), late, first_lower=0)
    recent_reports = [row for row in rows if (row.seen_served_ms or 0) >= since]
    recent = replace(coverage, late_reports=LateReports(recent_reports))
    start = -80 if after is None else after
    windows = find_complete_windows(history, tiling, after=start, limit=999, coverage=recent)

    changed_windows = find_changed_windows(history, tiling, coverage, since, after=after)
    assert list(changed_windows) == [window for window in windows if window.late.count]


def test_late_rows_before_the_kept_reports_are_not_known() -> None:
    """Windows that begin at or below their largest time are not known."""
    late = LateReports([LateReport("pos", 3, 10, 19, 0, 0, seen_served_ms=100)])
    forgotten_keys = list(late.forget_before(101))

    assert [late.find_between(start, 50).is_known for start in (10, 19, 20)] == [False, False, True]
    assert forgotten_keys == [("pos", 0, 0, 0)]


def test_reports_of_many_writers_drop_the_oldest() -> None:
    """Nothing can merge: the oldest are forgotten."""
    late = LateReports()
    for number in range(9):
        late.add(LateReport(f"w{number}", 1, number, number, number, number), limit=8)

    assert (sorted(report.writer for report in late), late.known_from) == (
        ["w3", "w4", "w5", "w6", "w7", "w8"],
        3,
    )


def test_writer_with_most_reports_is_merged_first() -> None:
    late = LateReports()
    for hour in range(4):
        late.add(LateReport("many", 1, hour * HOUR_MS, (hour or 9) * HOUR_MS, hour, hour), limit=5)
    late.add(LateReport("few", 1, 0, 0, 9, 9), limit=5)
    late.add(LateReport("one", 1, 0, 0, 9, 9), limit=5)

    assert sorted(
        (report.writer, report.rows, report.min_time, report.max_time) for report in late
    ) == [
        ("few", 1, 0, 0),
        ("many", 2, 0, 9 * HOUR_MS),
        ("many", 2, 2 * HOUR_MS, 3 * HOUR_MS),
        ("one", 1, 0, 0),
    ]


def test_reports_of_one_time_merge_in_arrival_order() -> None:
    arrived_reports = [
        LateReport("w", 1, 0, 0, hour * HOUR_MS, hour * HOUR_MS) for hour in (3, 1, 2, 0)
    ]
    late = LateReports(arrived_reports)
    late.add(LateReport("w", 1, 9 * HOUR_MS, 9 * HOUR_MS, 0, 0), limit=4)

    hours = sorted(
        (report.first_seen_at // HOUR_MS, report.last_seen_at // HOUR_MS) for report in late
    )
    assert hours == [(0, 0), (0, 1), (2, 3)]


def test_a_time_in_seconds_is_refused_for_windows_in_ms() -> None:
    """A time near the first kept mark may be the end of the window before."""
    lower = LEAST_UNIX_MS + 1
    seconds = 1_357_034_220
    history, lower_history = (
        MarkHistory([Mark(1, lower_time, lower_time, StreamCut({}))])
        for lower_time in (lower, lower - 1)
    )
    history_in_seconds = MarkHistory(
        Mark(n, time, time, StreamCut({})) for n, time in ((1, seconds), (2, lower))
    )

    with pytest.raises(ImplausibleTime):
        check_windows(seconds, Tiling(10), history)
    check_windows(seconds, Tiling(10), lower_history)
    check_windows(seconds - 10, Tiling(10), history_in_seconds)
    check_windows(lower - 10, Tiling(10), history)
    check_windows(None, Tiling(10), history)


def test_the_number_of_rows_does_not_pass_an_int64() -> None:
    """The sum must be stored."""
    max_rows = LateRows(MAX_INT64, 5, 5)
    report = LateReport("w", MAX_INT64, 5, 5, 0, 0)

    assert (max_rows.join(max_rows), report.join(report)) == (max_rows, report)


@pytest.mark.parametrize("reason", ["not_expected", "removed"])
@pytest.mark.parametrize("from_time", [20, 25])
def test_window_names_only_writers_that_lack_rows(reason: MissingReason, from_time: int) -> None:
    """A writer that joins or is removed at the watermark or above lacks no rows."""
    missing = MissingWriters()
    missing.take(2, 0, (20, 20), [Absence("paris", reason, 7, None, {}, from_time)], ())

    assert [window.count for window in missing.find_in_windows([0, 10, 20, 30, 40])] == [0] * 4


def test_window_before_the_first_mark_is_not_vouched_for() -> None:
    """It is not known who is missing, as for a cut of this time, unless it is final."""
    coverage = Coverage(MissingWriters(), LateReports(), first_lower=20)
    windows = list(coverage.assess_windows([0, 10, 20, 30]))
    mark = Mark(2, 30, 30, StreamCut({}))

    coverages = [(window.before_first_mark, window.missing.is_known) for window in windows]
    assert coverages == [(True, False), (True, False), (False, True)]
    assert [coverage.assess_mark(mark, 10, time) for time in (19, 20)] == windows[1:]
    assert coverage.assess_mark(mark, None, 10, has_all_rows=True) == windows[2]


@given(
    st.integers(UNIX_MS.start + 400 * DAY_MS, UNIX_MS.stop - 400 * DAY_MS),
    st.sampled_from([HOUR_MS // 2, HOUR_MS, 6 * HOUR_MS, DAY_MS, 7 * DAY_MS]),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_windows_of_a_zone_are_contiguous(time: int, size: int, zone: str) -> None:
    """Each time is in one window, which begins at a multiple of the size on the clock."""
    tiling = Tiling(size, zone=ZoneInfo(zone))
    start = tiling.start_of(time)
    end = tiling.end_of(start)

    assert start <= time < end
    assert [tiling.start_of(time) for time in (start, end - 1, end)] == [start, start, end]


def test_days_of_a_zone_last_23_to_25_hours() -> None:
    berlin = Tiling(DAY_MS, zone=ZoneInfo("Europe/Berlin"))
    midnights = ("2026-03-29T00:00+01:00", "2026-10-25T00:00+02:00", "2026-11-26T00:00+01:00")
    starts = [parse_time(midnight) for midnight in midnights]

    assert [berlin.start_of(start + 12 * HOUR_MS) for start in starts] == starts
    assert [berlin.end_of(start) - start for start in starts] == [h * HOUR_MS for h in (23, 25, 24)]


@pytest.mark.parametrize("size", [7, HOUR_MS])
def test_the_first_window_begins_at_the_least_time_or_above(size: int) -> None:
    start = Tiling(size, 0).first_start(LEAST_TIME - 5)

    assert (start % size, LEAST_TIME <= start < LEAST_TIME + size) == (0, True)
