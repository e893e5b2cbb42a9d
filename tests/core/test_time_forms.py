"""Times in rows, and doubt about their unit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Rejected
from noted_time.observing import TimeForm, Unit
from noted_time.observing.epochs import KNOWN_EPOCHS, Epoch
from noted_time.observing.time_forms import find_doubt
from noted_time.values import DAY_MS, UNIX_MS, YEAR_MS

PER_SECOND: dict[Unit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
NOON_MS = 1_795_694_400_000

units = st.sampled_from([*PER_SECOND])
modern = st.integers(UNIX_MS.start + 10**9, UNIX_MS.stop - 10**9)


@given(modern, units)
def test_number_is_the_time_in_its_unit(ms: int, unit: Unit) -> None:
    number = ms * PER_SECOND[unit] // 1000
    expected = number * 1000 // PER_SECOND[unit]

    assert [TimeForm(unit).ms_of(form) for form in (number, str(number))] == [expected] * 2


@given(modern)
def test_a_float_of_seconds_keeps_its_milliseconds(ms: int) -> None:
    assert TimeForm("s").ms_of(ms / 1000) == ms


@given(st.lists(st.integers(NOON_MS - YEAR_MS, NOON_MS), min_size=1), units)
def test_the_unit_of_times_is_found(times: list[int], unit: Unit) -> None:
    numbers = [ms * PER_SECOND[unit] // 1000 for ms in times]
    doubt = find_doubt("ts", numbers, NOON_MS)

    remedy = doubt and doubt.rpartition(": ")[2]
    assert remedy == (None if unit == "ms" else f"pass --unit {unit}")


@given(st.integers(10**12, NOON_MS - YEAR_MS - 1), units)
def test_the_unit_of_an_archive_is_said(ms: int, unit: Unit) -> None:
    """No command is printed, because the times are far from their arrival."""
    number = ms * PER_SECOND[unit] // 1000
    doubt = find_doubt("ts", [number], NOON_MS) or ""

    day = TimeForm(unit).ms_of(number) or 0
    assert f"pass --unit {unit}" not in doubt
    assert (str(datetime.fromtimestamp(day // 1000, UTC).date()) in doubt) == (unit != "ms")


def write_in(epoch: Epoch, ms: int) -> float:
    """Return a time as a system with this epoch writes it."""
    number = (ms - epoch.origin_ms) * epoch.ticks / DAY_MS
    return number if epoch.ticks == 1 else (ms - epoch.origin_ms) * epoch.ticks // DAY_MS


@given(st.sampled_from(KNOWN_EPOCHS), st.integers(NOON_MS - 300 * DAY_MS, NOON_MS))
def test_epochs_near_the_arrival_are_named(epoch: Epoch, ms: int) -> None:
    """The formula returns Unix ms, and no unit is offered."""
    number = write_in(epoch, ms)
    doubt = find_doubt("ts", [number], NOON_MS) or ""

    assert f"{epoch.name} ({datetime.fromtimestamp(ms // 1000, UTC).date()}; Unix ms are " in doubt
    assert doubt.endswith(": let --field module:function return Unix ms, or write them to a column")
    in_ms = eval(epoch.formula, {"value": number})  # noqa: S307 - ours
    assert abs(in_ms - ms) <= DAY_MS // min(epoch.ticks, DAY_MS)


def list_named_epochs(doubt: str) -> set[str]:
    return {epoch.name for epoch in KNOWN_EPOCHS if f" {epoch.name} (" in doubt}


def test_only_seconds_since_2000_and_2001_are_near_both() -> None:
    """Rows that are a month old when they arrive."""
    ms = NOON_MS - 30 * DAY_MS
    named_epochs = {}
    for epoch in KNOWN_EPOCHS:
        doubt = find_doubt("ts", [write_in(epoch, ms)], NOON_MS)
        if doubt:
            named_epochs[epoch.name] = list_named_epochs(doubt)

    both = {"seconds since 2000", "Apple's seconds since 2001"}
    expected = {epoch.name: {epoch.name} for epoch in KNOWN_EPOCHS}
    assert named_epochs == expected | {"seconds since 2000": both}


@pytest.mark.parametrize(
    ("value", "zone", "ms"),
    [
        (20_783, None, NOON_MS - DAY_MS // 2),
        ("20783.0", None, NOON_MS - DAY_MS // 2),
        (20_783.5, None, NOON_MS),
        (date(2026, 11, 26), None, NOON_MS - DAY_MS // 2),
        (20_783, BERLIN, NOON_MS - 13 * DAY_MS // 24),
        (date(2026, 11, 26), BERLIN, NOON_MS - 13 * DAY_MS // 24),
    ],
)
def test_days_begin_in_the_zone_or_in_utc(value: object, zone: ZoneInfo | None, ms: int) -> None:
    assert TimeForm("d", zone).ms_of(value) == ms


@pytest.mark.parametrize(
    ("numbers", "remedy"), [([20_783, 20_784], "--unit d"), ([2025, 2026], "--format %Y")]
)
def test_days_and_years_are_named(numbers: list[int], remedy: str) -> None:
    assert str(find_doubt("ts", numbers, NOON_MS)).endswith(f": pass {remedy}")


@pytest.mark.parametrize(
    "text", ["1795694400.000000", "1795694400.", "1.7956944E9", "+1795694400", " 1795694400.0 "]
)
def test_a_number_may_be_a_text_with_a_fraction(text: str) -> None:
    assert TimeForm("s").ms_of(text) == NOON_MS
    assert str(find_doubt("ts", [text], NOON_MS)).endswith(": pass --unit s")


def test_a_decimal_is_read_exactly() -> None:
    assert TimeForm("s").ms_of(Decimal("1795694400.0019")) == NOON_MS + 1


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
        ("26/11/2026", "'26/11/2026' is not a time: write a number (--unit s, ms, us, ns or d)"),
        (True, "True is not a time"),
        (None, "None is not a time"),
        (float("nan"), "nan is not a time"),
        ({"at": 1}, "{'at': 1} is not a time"),
        (2**63, "9223372036854775808 is outside int64"),
    ],
)
def test_invalid_time_is_shown_in_the_error(spelling: object, says: str) -> None:
    with pytest.raises(Rejected) as refusal:
        TimeForm().ms_of(spelling)

    assert str(refusal.value).startswith(says)


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
