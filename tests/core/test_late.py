"""Late rows that writers report: which windows name them, and that no report is lost."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from noted_time.reading import Coverage, LateReports, MissingWriters
from noted_time.values import HOUR_MS, MAX_INT64, Late, LateReport, LateRows

quarters = st.integers(-8, 40)


def _report(writer: str, rows: int, least: int, length: int, seen: int) -> LateReport:
    begin, quarter = least * HOUR_MS // 4, HOUR_MS // 4
    at = seen * quarter
    return LateReport(writer, rows, begin, begin + length * quarter, at, at)


reports = st.builds(
    _report,
    st.sampled_from("abc"),
    st.integers(1, 9),
    quarters,
    st.sampled_from([0, 0, 0, 1, 2, 9]),
    st.integers(0, 20),
)


def rows_of(late: Late) -> dict[str, int]:
    """Return the rows by writer."""
    return {each.writer: each.rows for each in late.writers}


def summed(of: list[LateReport]) -> dict[str, int]:
    """Return the rows of reports by writer."""
    counts = Counter[str]()
    for each in of:
        counts[each.writer] += each.rows
    return dict(counts)


def meeting(of: list[LateReport], start: int, end: int) -> list[LateReport]:
    """Return the reports whose times may be in a window."""
    return [each for each in of if each.least < end and each.most >= start]


@given(st.lists(reports, max_size=40), quarters, st.integers(1, 12))
def test_a_window_names_the_reports_that_meet_it(
    given: list[LateReport], start: int, length: int
) -> None:
    """As many rows as were reported of full hours, and never fewer of any window."""
    first, end = start * HOUR_MS // 4, (start + length) * HOUR_MS // 4
    late = LateReports()
    for each in given:
        late.add(each)
    found = rows_of(late.between(first, end))

    kept = list(late)
    assert summed(given) == summed(kept)
    assert found == summed(meeting(kept, first, end))
    assert Counter(found) >= Counter(summed(meeting(given, first, end)))
    if first % HOUR_MS == end % HOUR_MS == 0:
        assert found == summed(meeting(given, first, end))


@given(st.lists(reports, max_size=60), st.integers(1, 12), quarters)
def test_however_many_reports_there_are_none_is_lost_unsaid(
    given: list[LateReport], most: int, start: int
) -> None:
    """They merge over longer times, and where one is forgotten, that is known."""
    late = LateReports()
    known: dict[object, LateReport] = {}
    for each in given:
        for place, changed in late.add(each, most).items():
            if changed is None:
                known.pop(place, None)
            else:
                known[place] = changed
        assert len(late) <= most
    first, end = start * HOUR_MS // 4, (start + 4) * HOUR_MS // 4
    found = late.between(first, end)

    assert sorted(known.values(), key=repr) == sorted(late, key=repr)
    assert not found.is_known or Counter(rows_of(found)) >= Counter(
        summed(meeting(given, first, end))
    )
    if most >= len({each.writer for each in given}) * 4:
        assert (summed(list(late)), found.is_known) == (summed(given), True)


@given(st.lists(reports, max_size=40), quarters, st.integers(1, 9))
def test_windows_are_named_one_by_one_as_in_a_row(
    given: list[LateReport], start: int, count: int
) -> None:
    """And as after a restart, which reads them in another order."""
    late = LateReports()
    for each in given:
        late.add(each)
    again = LateReports(sorted(late, key=lambda each: each.place))
    starts = [start * HOUR_MS // 2 + n * HOUR_MS for n in range(count)]

    alone = [late.between(each, each + HOUR_MS) for each in starts]
    assert list(again.in_windows(starts, HOUR_MS)) == alone


def test_at_most_says_that_the_times_leave_the_window() -> None:
    """On either side."""
    late = LateReports([LateReport("pos", 3, 10, 19, 0, 0)])
    windows = ((10, 20), (11, 20), (10, 19), (5, 30))

    assert [late.between(*each).writers[0].at_most for each in windows] == [
        False,
        True,
        True,
        False,
    ]


def test_late_rows_older_than_what_is_kept_are_not_known() -> None:
    """Of windows that begin at or below their largest time."""
    late = LateReports([LateReport("pos", 3, 10, 19, 0, 100)])
    gone = list(late.forget_before(101))

    assert [late.between(start, 50).is_known for start in (10, 19, 20)] == [False, False, True]
    assert gone == [("pos", 0, 0, 0)]


def test_many_writers_with_one_report_each_push_out_the_oldest() -> None:
    """Nothing can merge: the oldest are forgotten, and windows say so."""
    late = LateReports()
    for at in range(9):
        late.add(LateReport(f"w{at}", 1, at, at, at, at), most=8)

    assert (sorted(each.writer for each in late), late.known_from) == (
        ["w3", "w4", "w5", "w6", "w7", "w8"],
        3,
    )


def test_the_number_of_rows_does_not_pass_an_int64() -> None:
    """Whatever a writer reports: the sum would not be stored otherwise."""
    most = LateRows(MAX_INT64, 5, 5)
    report = LateReport("w", MAX_INT64, 5, 5, 0, 0)

    assert (most.join(most), report.join(report)) == (most, report)


def test_a_window_that_begins_below_the_first_mark_is_vouched_for_by_nobody() -> None:
    """Who is missing from it is not known, though the ledger reaches back so far."""
    coverage = Coverage(MissingWriters(), LateReports(), first_lower=20)

    found = [
        (each.before_first_mark, each.missing.is_known)
        for each in coverage.in_windows([0, 10, 20], 10)
    ]
    assert found == [(True, False), (True, False), (False, True)]
