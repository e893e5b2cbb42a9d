"""`noted-time complete-to`: one time for a shell."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time.values import floor_time
from tests.cli.conftest import Commands, Console, note
from tests.support.calls import HOUR_MS, TEN
from tests.support.odd_controller import odd_controller
from tests.support.served import Served

ZONES = ["UTC", "Europe/Berlin", "America/Havana", "America/Sao_Paulo", "Australia/Lord_Howe"]
"""Some put their clocks forward or back at midnight, or by half an hour."""


@pytest.fixture
def stream(served: Served) -> str:
    """Return a stream that is complete to 10:02:03.456."""
    name = served.new()
    note(served, name, shop=TEN + 123_456)
    return name


@pytest.fixture
def without_stock(served: Served, stream: str) -> str:
    """Return one that advanced to twelve without `stock`, which was removed at about ten."""
    note(served, stream, stock=TEN + 123_456)
    served.call("DELETE", f"/{stream}/writers/stock")
    note(served, stream, shop=TEN + 2 * HOUR_MS)
    return stream


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ((), "2013-01-01T10:02:03.456Z"),
        (("--floor", "1m"), "2013-01-01T10:02:00Z"),
        (("--floor", "1h"), "2013-01-01T10:00:00Z"),
        (("--floor", "1d", "--zone", "Europe/Berlin"), "2013-01-01T00:00:00+01:00"),
        (("--zone", "Asia/Kathmandu"), "2013-01-01T15:47:03.456+05:45"),
    ],
)
def test_the_time_is_all_that_is_printed(
    run: Commands, stream: str, flags: tuple[str, ...], shown: str
) -> None:
    """Rounded down on the clock of the zone; standard error says by whom, if by anybody."""
    found = run("complete-to", stream, *flags)

    assert (found.status, found.out) == (0, f"{shown}\n")
    assert found.err == (
        f"noted-time: nobody vouches for {shown}, which is before the first mark of {stream}\n"
        if "--floor" in flags
        else f"noted-time: {stream} is complete to {shown}, by shop (1 writer, none expected)\n"
    )


def test_json_has_the_time_and_its_mark(run: Commands, stream: str) -> None:
    """The mark is the first that is complete to the time."""
    found = run("complete-to", stream, "--floor", "1h", "--json").json

    assert (found["complete_to"], found["seq"], found["lower"]) == (TEN, 1, TEN + 123_456)


def test_writers_that_are_missing_are_named_beside_the_time(
    run: Commands, without_stock: str
) -> None:
    """On standard error, so that a shell has the time alone."""
    found = run("complete-to", without_stock)

    assert (found.status, found.out) == (0, "2013-01-01T12:00:00Z\n")
    assert (
        "Z, by shop (1 writer, none expected), without stock: removed by an operator" in found.err
    )


def test_a_writer_is_not_missing_below_the_marks_that_had_it(run: Console, stream: str) -> None:
    """One that was removed after midnight is required of the next day only."""
    run.note(stream, stock=TEN + HOUR_MS, shop=TEN + 14 * HOUR_MS)
    run.note(stream, stock=TEN + 14 * HOUR_MS)
    run.served.call("DELETE", f"/{stream}/writers/stock")
    run.note(stream, shop=TEN + 15 * HOUR_MS)
    today, tomorrow = (
        run("complete-to", stream, "--require-known", "--floor", floor) for floor in ("1d", "1h")
    )

    assert (today.status, today.out, tomorrow.status) == (0, "2013-01-02T00:00:00Z\n", 3)


def test_a_stream_without_a_mark_has_no_time(run: Console) -> None:
    """And nothing is printed."""
    found = run("complete-to", run.served.new())

    says = "there is no mark yet: nothing is known to be complete"
    assert (found.status, found.out, says in found.err) == (1, "", True)


def test_a_time_of_another_clock_has_no_zone(run: Console) -> None:
    """It is shown as it is, and floored by arithmetic."""
    name = run.served.new(max_time_ahead_ms=None)
    run.note(name, shop=47)

    assert run("complete-to", name, "--floor", "10ms")[:2] == (0, "40\n")
    refused = run("complete-to", name, "--zone", "Europe/Berlin")
    assert (refused.status, "no calendar has it" in refused.err) == (2, True)


def test_windows_that_changed_have_a_line_each(run: Console, stream: str) -> None:
    """Their start, end, late rows and writers; none since a later moment."""
    late = {"rows": 112, "least": TEN - HOUR_MS, "most": TEN - 1}
    run.served.post(stream, {"writer": "shop", "late": late})
    found = run("changed-since", stream, "2020-01-01T00:00Z")
    now = datetime.now(UTC)
    recent, later = (
        run("changed-since", stream, (now + timedelta(hours=n)).isoformat()) for n in (-1, 1)
    )

    columns = ["start", "end", "late rows", "writers"]
    line = ["2013-01-01T09:00:00Z", "2013-01-01T10:00:00Z", "112", "shop"]
    assert (found.table, recent.table, later.table) == ([columns, line], [columns, line], [columns])
    assert [each.status for each in (found, recent, later)] == [0, 0, 0]
    assert (found.err, recent.err, later.err) == ("", "", "")


DAY, DAY_MS = 1_731_888_000_000, 24 * HOUR_MS
"""2024-11-18, and how long a day is."""


@pytest.fixture
def shops(served: Served) -> str:
    """Return a stream of two shops, complete for two days: delhi was last, and then removed."""
    name = served.new(expected_writers=["berlin", "delhi"])
    for day, shop in ((0, "berlin"), (0, "delhi"), (1, "berlin"), (1, "delhi"), (2, "berlin")):
        note(served, name, **{shop: DAY + day * DAY_MS})
    served.call("DELETE", f"/{name}/writers/delhi")
    return name


def test_each_day_has_a_line_with_since_when_and_the_last_writer(run: Commands, shops: str) -> None:
    """A day without a writer names that instead; the last line is of the day that is awaited."""
    listed, since = run("windows", shops), run("windows", shops, "--since", "2024-11-20T00:00Z")
    shown = re.sub(r"since 20\d\d-\S+Z|\d+s ago", "…", listed.out).splitlines()

    awaited = "2024-11-20 is not complete: it waits for berlin"
    assert shown == [
        "2024-11-18 is complete …, delhi was the last",
        "2024-11-19 is complete …, without delhi: removed by an operator …",
        awaited,
    ]
    assert (listed.status, listed.err, since.out) == (
        0,
        "",
        f"no window is complete yet: {awaited.split(': ')[1]}\n",
    )


def test_more_windows_than_are_shown_are_asked_for_by_their_time(run: Commands, shops: str) -> None:
    """Standard error says how; hours have whole times."""
    found = run("windows", shops, "--window", "1h", "--limit", "1")

    assert found.out.startswith("2024-11-18T00:00:00Z is complete since ")
    assert found.err == "There are more than these 1: use --since 2024-11-18T01:00:00Z.\n"


def test_it_is_said_if_the_ledger_no_longer_has_all_that_changed() -> None:
    """It keeps reports for 90 days; while it has forgotten none, any moment may be asked about."""
    answer = {"windows": [], "has_more": False, "next": None, "changes_are_known": False}
    with odd_controller({"/windows": answer}) as url:
        said = Commands(url)("changed-since", "s", "2020-01-01T00:00Z")

    assert (said.status, said.err) == (
        0,
        "noted-time: the ledger does not reach back so far: other windows may have changed, too\n",
    )


def test_a_list_of_windows_that_is_cut_short_ends_with_3(run: Console, stream: str) -> None:
    """A script would repair those alone, and remember that all are repaired."""
    times = [TEN - hours * HOUR_MS for hours in (1, 2, 3)]
    late = [{"rows": 1, "least": time, "most": time} for time in times]
    run.served.post(stream, {"writer": "shop", "late": late})
    cut, whole, every = (
        run("changed-since", stream, "2020-01-01T00:00Z", *options)
        for options in (("--limit", "2"), ("--limit", "3"), ("--limit", "2", "--all"))
    )

    assert [each.status for each in (cut, whole, every)] == [3, 0, 0]
    assert [len(each.table) - 1 for each in (cut, whole, every)] == [2, 3, 3]
    assert "There are more than these 2: use --limit" in cut.err


@given(
    time=st.integers(TEN, TEN + 20 * 365 * 24 * HOUR_MS),
    minutes=st.sampled_from([1, 15, 60, 120, 360, 24 * 60, 7 * 24 * 60]),
    name=st.sampled_from(ZONES),
)
def test_what_is_rounded_down_is_a_border_at_or_below(time: int, minutes: int, name: str) -> None:
    """It stays as it is if rounded again, and no later border was skipped."""
    zone, step = ZoneInfo(name), minutes * 60_000
    found = floor_time(time, step, zone)

    assert floor_time(found, step, zone) == found
    assert found <= time <= found + step + HOUR_MS


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)]
)
def test_each_hour_of_a_day_lies_between_its_two_midnights(day: str, hours: int) -> None:
    """Also on the days on which the clocks change."""
    berlin = ZoneInfo("Europe/Berlin")
    midnight = datetime.fromisoformat(day).replace(tzinfo=berlin).astimezone(UTC)
    begins = [midnight + timedelta(hours=n) for n in range(hours + 1)]
    times = [int(each.timestamp() * 1000) for each in begins]
    found = [floor_time(time + 1, 24 * HOUR_MS, berlin) for time in times]
    by_hour = [floor_time(time + 1, HOUR_MS, berlin) for time in times]

    assert (found, by_hour) == ([times[0]] * hours + [times[hours]], times)


def test_json_of_windows_has_the_last_writer_too(run: Commands, shops: str) -> None:
    """As the controller answers, for windows of any size."""
    found = run("windows", shops, "--window", "12h", "--json").json["windows"]

    assert [each["last_writer"] for each in found] == ["delhi", "delhi", None, None]
