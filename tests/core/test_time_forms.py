"""Times in rows, and doubt about their unit."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Rejected
from noted_time.observing import TimeForm, Unit
from noted_time.observing.time_forms import find_doubt
from noted_time.values import UNIX_MS

PER_SECOND: dict[Unit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
NOON_MS = 1_795_694_400_000

units = st.sampled_from([*PER_SECOND])
modern = st.integers(UNIX_MS.start + 10**9, UNIX_MS.stop - 10**9)


@given(modern, units)
def test_number_is_the_time_in_its_unit(ms: int, unit: Unit) -> None:
    number = ms * PER_SECOND[unit] // 1000
    expected = number * 1000 // PER_SECOND[unit]

    assert [TimeForm(unit).ms_of(each) for each in (number, str(number))] == [expected] * 2


@given(modern)
def test_a_float_of_seconds_keeps_its_milliseconds(ms: int) -> None:
    assert TimeForm("s").ms_of(ms / 1000) == ms


@given(st.lists(st.integers(10**12, NOON_MS), min_size=1), units)
def test_the_unit_of_times_is_found(times: list[int], unit: Unit) -> None:
    numbers = [ms * PER_SECOND[unit] // 1000 for ms in times]
    doubt = find_doubt("ts", numbers, NOON_MS)

    remedy = doubt and doubt.rpartition(": ")[2]
    assert remedy == (None if unit == "ms" else f"pass --unit {unit}")


@given(st.lists(st.integers(-(2**63), 2**63), min_size=1, max_size=30))
def test_unit_is_doubted_if_most_times_are_out_of_range(numbers: list[int]) -> None:
    outside = sum(not UNIX_MS.start <= number < UNIX_MS.stop for number in numbers)

    assert (find_doubt("ts", numbers, NOON_MS) is not None) == (2 * outside > len(numbers))


def test_unit_is_judged_by_the_first_thousand_times() -> None:
    assert find_doubt("ts", [NOON_MS] * 1000 + [42] * 5000, NOON_MS) is None


@pytest.mark.parametrize(
    "spelling", [NOON_MS + 0.5, f" {NOON_MS}", " 2026-11-26 12:00 UTC ", "20261126T120000Z"]
)
def test_noon_has_spellings_beyond_the_page(spelling: object) -> None:
    assert TimeForm().ms_of(spelling) == NOON_MS


@pytest.mark.parametrize(
    ("spelling", "says"),
    [
        (date(2026, 11, 26), "'2026-11-26' has no zone: pass --zone, for example --zone UTC"),
        ("2026-11-26 12:00", "'2026-11-26 12:00' has no zone: pass --zone, for example --zone UTC"),
        ("26/11/2026", "'26/11/2026' is not a time: write a number (--unit s, ms, us or ns), ISO"),
        (True, "True is not a time"),
        (None, "None is not a time"),
        (float("nan"), "nan is not a time"),
        ({"at": 1}, "{'at': 1} is not a time"),
        (2**63, "9223372036854775808 is outside int64"),
    ],
)
def test_invalid_time_is_shown_in_the_error(spelling: object, says: str) -> None:
    with pytest.raises(Rejected) as refused:
        TimeForm().ms_of(spelling)

    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(
    ("numbers", "remedy"),
    [([202609211015], "--format %Y%m%d%H%M"), ([2609211015], "--format %y%m%d%H%M")],
)
def test_digits_of_a_date_are_named(numbers: list[int], remedy: str) -> None:
    doubt = find_doubt("ts", numbers, NOON_MS)

    assert doubt is not None
    assert doubt.endswith(f": pass {remedy}")


def test_no_unit_is_named_for_times_far_ahead() -> None:
    assert str(find_doubt("ts", [4_102_444_800], NOON_MS)).endswith(
        "pass --unit ms to take them as they are"
    )


def test_only_numbers_have_a_unit() -> None:
    values = ["1960-01-01T12:00:00Z", NOON, None, True, float("inf"), NOON_MS]

    assert find_doubt("ts", values, NOON_MS) is None
