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
    from_cut = None
    excluded_writers: dict[str, None] = {}
    for mark in marks[: marks.index(to) + 1]:
        if mark.upper_is_bound and mark.upper < start:
            from_cut = mark.cut
        if mark.lower > start:
            excluded_writers |= dict.fromkeys(mark.excluded)
    return CompleteWindow(
        start,
        end,
        StreamCut({}) if from_cut is None else from_cut,
        to.cut,
        to.seq,
        to.written_at,
        tuple(excluded_writers),
        exact=from_cut is not None,
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

    starts = list_expected_starts(kept_marks, tiling, after)[:limit]
    assert windows == [scan_windows(kept_marks, start, start + tiling.size_ms) for start in starts]


def list_expected_starts(marks: list[Mark], tiling: Tiling, after: int | None) -> list[int]:
    if not marks:
        return []
    begin = marks[0].lower if after is None else after
    starts = []
    for time in range(-80, 80):
        is_start = (time - tiling.origin) % tiling.size_ms == 0
        if is_start and begin < time + tiling.size_ms <= marks[-1].lower:
            starts.append(time)
    return starts


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
    for window in windows:
        verdict = judge_time(domain, Requirement(), window.end)

        assert window.seq == (verdict.mark and verdict.mark.seq)
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

    for window in windows:
        assert read_json(CompleteWindow, as_json(window)) == window


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

    def build_report(
        writer: str, rows: int, min_units: int, length: int, seen_units: int
    ) -> LateReport:
        seen_at = seen_units * unit_ms
        return LateReport(
            writer,
            rows,
            min_units * unit_ms,
            (min_units + length) * unit_ms,
            seen_at,
            seen_at,
            seen_served_ms=seen_at,
        )

    return st.builds(
        build_report,
        st.sampled_from("abc"),
        st.integers(1, 9),
        quarters,
        st.sampled_from([0, 0, 0, 1, 2, 9]),
        st.integers(0, 20),
    )


reports = draw_reports(HOUR_MS // 4)


def find_place(report: LateReport) -> LatePlace:
    return report.place


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
    for writer in answer.writers:
        lies_outside = (writer.min_time or 0) < first or writer.max_time >= end
        assert writer.may_lie_outside == lies_outside
    assert sum_rows(given) == sum_rows(kept_reports)
    assert rows_found == sum_rows(list_meeting(kept_reports, first, end))
    assert Counter(rows_found) >= Counter(sum_rows(list_meeting(given, first, end)))
    is_full_hour = first % HOUR_MS == 0 and end % HOUR_MS == 0
    if is_full_hour:
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

    kept_reports = [report for report in known_reports.values() if report is not None]
    assert sorted(kept_reports, key=repr) == sorted(late, key=repr)
    if found_reports.is_known:
        given_rows = sum_rows(list_meeting(given, first, end))
        assert Counter(rows_of(found_reports)) >= Counter(given_rows)
    if most >= len({report.writer for report in given}) * 4:
        assert (sum_rows(list(late)), found_reports.is_known) == (sum_rows(given), True)


@given(st.lists(reports, max_size=40), quarters, st.integers(1, 9))
def test_single_windows_equal_a_series(given: list[LateReport], start: int, count: int) -> None:
    late = LateReports()
    for report in given:
        late.add(report)
    sorted_reports = LateReports(sorted(late, key=find_place))
    borders = [start * HOUR_MS // 2 + n * HOUR_MS for n in range(count + 1)]

    windows = zip(sorted_reports.find_in_windows(borders), pairwise(borders), strict=True)
    for late_rows, (begin, end) in windows:
        assert late_rows == late.find_between(begin, end)


@given(
    marks=chains,
    tiling=tilings,
    rows=st.lists(draw_reports(1), max_size=6, unique_by=find_place),
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


def test_changed_window_after_an_uncovered_one_has_its_own_mark() -> None:
    """In a sealed stream, the last mark answers for a time before the first one, and only there."""
    marks = [Mark(seq, lower=seq, upper=0, cut=StreamCut({0: seq})) for seq in (1, 2)]
    history = MarkHistory(marks)
    history.seal(marks[-1].cut.offsets)
    late = LateReports([LateReport("pos", 1, time, time, 0, 0) for time in (-2, 0)])
    coverage = Coverage(MissingWriters(), late, first_lower=0)

    changed_windows = find_changed_windows(history, Tiling(1), coverage, 0, after=None)
    assert [(window.start, window.seq) for window in changed_windows] == [(-2, 2), (0, 1)]


def test_late_rows_before_the_kept_reports_are_not_known() -> None:
    """Windows that begin at or below their largest time are not known."""
    late = LateReports([LateReport("pos", 3, 10, 19, 0, 0, seen_served_ms=100)])
    forgotten_keys = list(late.forget_before(101))

    assert not late.find_between(10, 50).is_known
    assert not late.find_between(19, 50).is_known
    assert late.find_between(20, 50).is_known
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
    for hour, last_hour in enumerate((9, 1, 2, 3)):
        times = (hour * HOUR_MS, last_hour * HOUR_MS)
        late.add(LateReport("many", 1, *times, hour, hour), limit=5)
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
    arrived_reports = []
    for seen_at in (3 * HOUR_MS, 1 * HOUR_MS, 2 * HOUR_MS, 0):
        arrived_reports.append(LateReport("w", 1, 0, 0, seen_at, seen_at))
    late = LateReports(arrived_reports)
    late.add(LateReport("w", 1, 9 * HOUR_MS, 9 * HOUR_MS, 0, 0), limit=4)

    hours = sorted(
        (report.first_seen_at // HOUR_MS, report.last_seen_at // HOUR_MS) for report in late
    )
    assert hours == [(0, 0), (0, 1), (2, 3)]


def make_history(*lowers: int) -> MarkHistory:
    history = MarkHistory()
    for seq, lower in enumerate(lowers, 1):
        history.append(Mark(seq, lower, lower, StreamCut({})))
    return history


def test_a_time_in_seconds_is_refused_for_windows_in_ms() -> None:
    """A time near the first kept mark may be the end of the window before."""
    lower = LEAST_UNIX_MS + 1
    seconds = 1_357_034_220
    history = make_history(lower)
    lower_history = make_history(lower - 1)
    history_in_seconds = make_history(seconds, lower)

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

    windows = [*missing.find_in_windows([0, 10, 20, 30, 40])]
    assert [window.count for window in windows] == [0, 0, 0, 0]


def test_window_before_the_first_mark_is_not_vouched_for() -> None:
    """It is not known who is missing, as for a cut of this time, unless it is final."""
    coverage = Coverage(MissingWriters(), LateReports(), first_lower=20)
    windows = list(coverage.assess_windows([0, 10, 20, 30]))
    mark = Mark(2, 30, 30, StreamCut({}))

    coverages = [(window.before_first_mark, window.missing.is_known) for window in windows]
    assert coverages == [(True, False), (True, False), (False, True)]
    assert coverage.assess_mark(mark, 10, 19) == windows[1]
    assert coverage.assess_mark(mark, 10, 20) == windows[2]
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
    assert tiling.start_of(start) == start
    assert tiling.start_of(end - 1) == start
    assert tiling.start_of(end) == end


def test_days_of_a_zone_last_23_to_25_hours() -> None:
    berlin = Tiling(DAY_MS, zone=ZoneInfo("Europe/Berlin"))
    midnights = ("2026-03-29T00:00+01:00", "2026-10-25T00:00+02:00", "2026-11-26T00:00+01:00")

    for midnight, hours in zip(midnights, (23, 25, 24), strict=True):
        start = parse_time(midnight)
        assert berlin.start_of(start + 12 * HOUR_MS) == start
        assert berlin.end_of(start) - start == hours * HOUR_MS


@pytest.mark.parametrize("size", [7, HOUR_MS])
def test_the_first_window_begins_at_the_least_time_or_above(size: int) -> None:
    start = Tiling(size, 0).first_start(LEAST_TIME - 5)

    assert (start % size, LEAST_TIME <= start < LEAST_TIME + size) == (0, True)
