"""`noted-time analyse`, of files and of a file log."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from noted_time_cli.analyse.commands import NOTE_FILES
from tests.cli.conftest import Commands, Said
from tests.support.calls import HOUR_MS, TEN
from writer_client import SegmentLogWriter

MINUTES = {"landing": [30, 70, 130, 190, 200], "departure": [10, 65, 125, 40, 185]}
"""The fourth row lands when 125 minutes are the newest: its hour ended 65 minutes before that."""

Analyse = Callable[..., Said]


@pytest.fixture
def analyse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Analyse:
    """Return what runs the command where the files are."""
    monkeypatch.chdir(tmp_path)
    return partial(Commands("http://127.0.0.1:9"), "analyse")


def rows(kind: Any = None, **more: list[Any]) -> pa.Table:  # noqa: ANN401 - a type of Arrow
    """Return the rows, their times of a type of Arrow."""
    times = {
        name: pa.array([TEN + 60_000 * minute for minute in minutes], pa.int64())
        for name, minutes in MINUTES.items()
    }
    if kind is not None:
        times = {
            name: each.cast(pa.timestamp("ms", "UTC")).cast(kind) for name, each in times.items()
        }
    return pa.table({**times, **more})


@pytest.mark.parametrize(
    "kind", [None, pa.timestamp("ns", "UTC"), pa.timestamp("us"), pa.timestamp("ms", "Asia/Tokyo")]
)
def test_a_delay_is_found_from_times_of_any_type(analyse: Analyse, kind: Any) -> None:  # noqa: ANN401
    """And the perfect watermark, and whose row is late."""
    pq.write_table(rows(kind, carrier=["UA", "UA", "DL", "HA", "DL"]), "f.parquet")
    found = analyse(
        *("files", "f.parquet", "--time", "departure", "--arrival", "landing"),
        *("--who", "carrier", "--delay", "30m", "--json"),
    ).json

    assert found["least_delay_without_loss_ms"] == 65 * 60_000 + 1
    assert [(each["delay_ms"], each["lost"]) for each in found["delays"]] == [
        (30 * 60_000, 1),
        (65 * 60_000 + 1, 0),
    ]
    assert found["delays"][0]["wait_median_ms"] == 75 * 60_000
    assert (found["perfect"]["lost"], found["perfect"]["wait_median_ms"]) == (0, 70 * 60_000)
    assert found["behind_by_who"] == [["HA", 1, 85 * 60_000.0, 85 * 60_000]]


def test_people_see_a_table_and_what_to_do_next(analyse: Analyse) -> None:
    """The delay is rounded up to a second."""
    pq.write_table(rows(), "f.parquet")
    words = ("--time", "departure", "--arrival", "landing", "--who", "landing")
    said = analyse("files", "*.parquet", *words)

    assert said.table == [
        ["delay", "rows lost", "of all", "median wait", "p99", "longest", "still open"],
        ["1h 5m 1s", "0", "0 %", "2h 20m", "-", "2h 20m", "3"],
        ["perfect", "0", "0 %", "1h 10m", "-", "2h 10m", "1"],
        ["landing", "rows", "median", "worst"],
        [str(TEN + 190 * 60_000), "1", "1h 25m", "1h 25m"],
    ]
    summary = "5 rows of 1 partition, departure from 2013-01-01T10:10:00Z to 2013-01-01T13:05:00Z"
    flink = "WATERMARK FOR departure AS departure - INTERVAL '0 01:05:01' DAY TO SECOND"
    assert said.err.splitlines() == [
        "Rows came in as landing says.",
        f"{summary}; windows of 1h.",
        "Still open: windows without a result at the last row. The waits do not include them.",
        'p99 is "-" if more than 5 % of the windows are still open. Judge more rows to see it.',
        "Rows behind the largest time so far, by landing:",
        "The least delay that would have lost no row is 1h 5m 1s. What to do with it:",
        "  Spark           .withWatermark('departure', '3901 seconds')",
        f"  Flink SQL       {flink}",
        f"  Neither guess nor loss: {NOTE_FILES}",
    ]


def test_without_arrivals_it_says_first_what_it_assumes(analyse: Analyse) -> None:
    """And shows no wait, also none of the perfect watermark."""
    pc.write_csv(rows(pa.timestamp("ms", "UTC"), partition=["a", "a", "b", "a", "b"]), "f.csv")
    words = ("files", "f.csv", "--time", "departure", "--partition", "partition")
    said, found = analyse(*words), analyse(*words, "--json").json

    assert said.err.startswith("Arrival times are not known. Each row is assumed to arrive at ")
    assert said.table[0] == ["delay", "rows lost", "of all", "lost by Flink"]
    assert (found["perfect"], found["delays"][0]["wait_median_ms"]) == (None, None)
    assert found["partitions"] == 2


@pytest.fixture
def three_days(tmp_path: Path) -> None:
    """Write files of three shops: `b` is modified first, then `a`."""
    for n, (name, hours) in enumerate([("b", (0, 23)), ("a", (2, 22)), ("c", (24, 25))]):
        at = [TEN + hour * HOUR_MS for hour in hours]
        pc.write_csv(
            pa.table({"sold": at, "shop": [name] * 2, "came": at}), tmp_path / f"{name}.csv"
        )
        os.utime(tmp_path / f"{name}.csv", (n, n))


@pytest.mark.usefixtures("three_days")
def test_the_order_of_several_files_is_asked_for(analyse: Analyse) -> None:
    """Nothing is computed from the order of their names; the message says what to add."""
    said = analyse("files", "*.csv", "--time", "sold")
    message = " ".join(said.err.replace("│", " ").split())

    assert (said.status, said.out) == (2, "")
    assert "the order in which these 3 files came in is not known" in message
    assert "give --order name or --order modified" in message


@pytest.mark.usefixtures("three_days")
@pytest.mark.parametrize(
    ("words", "hours"),
    [
        (("--order", "name"), 22),
        (("--order", "modified"), 21),
        (("--partition", "shop"), 0),
        (("--arrival", "came"), 0),
    ],
)
def test_several_files_are_judged_in_the_order_that_is_named(
    analyse: Analyse, words: tuple[str, ...], hours: int
) -> None:
    """By names, `b` is late; by when they were modified, `a` is; by partition or arrival, none."""
    found = analyse("files", "*.csv", "--time", "sold", "--window", "0s", *words, "--json").json

    assert found["least_delay_without_loss_ms"] // HOUR_MS == hours


def test_a_replay_is_ordered_by_shares_of_the_partitions(analyse: Analyse) -> None:
    """A night in one of them is late then, though nothing came late; so nothing is advised."""
    day = [TEN + minute * 60_000 for minute in range(0, 1440, 10)]
    night = day[-6:]
    at = pa.array([*day, *night])
    pq.write_table(pa.table({"at": at, "p": [*"d" * len(day), *"n" * len(night)]}), "f.parquet")
    words = ("files", "f.parquet", "--time", "at", "--partition", "p")
    live, replayed = analyse(*words, "--json").json, analyse(*words, "--as-replay")

    assert live["least_delay_without_loss_ms"] == 0
    assert "say nothing about live reading" in replayed.err
    assert ("withWatermark" in replayed.err, replayed.table[1][0]) == (False, "22h 1s")


LEAST = "The least delay that would have lost no row is"


def twenty_devices(path: str) -> None:
    """Write rows of twenty devices, one device 11 s late, and one of d07 a day ahead."""
    came = [TEN + n * 1000 for n in range(400)]
    at = [each - 11_000 * (n % 20 == 13) for n, each in enumerate(came)]
    at[47] = came[47] + 24 * HOUR_MS
    devices = [f"d{n % 20:02}" for n in range(400)]
    pq.write_table(pa.table({"ts": at, "came": came, "device": devices}), path)


def test_a_row_ahead_of_its_arrival_is_named_and_left_out(analyse: Analyse) -> None:
    """Honest devices are not late by it; both delays are printed, and the shorter is advised."""
    twenty_devices("f.parquet")
    words = ("files", "f.parquet", "--time", "ts", "--arrival", "came", "--who", "device")
    said, found = (analyse(*words, "--window", "0s", *more) for more in ((), ("--json",)))

    assert said.table[-2:] == [["device", "rows", "median", "worst"], ["d07", "1", "1d", "1d"]]
    owed = "23h 59m of this delay are owed to 1 row of d07, which is 1d ahead of its arrival"
    assert said.err.splitlines()[-6:-3] == [
        "Rows ahead of their arrival, by device:",
        f"{LEAST} 1d 6s. {owed}; without it 11s. What to do with it:",
        "  Spark           .withWatermark('ts', '11 seconds')",
    ]
    assert (found.json["rows"], found.json["least_delay_without_loss_ms"]) == (399, 10_001)
    assert found.json["owed_to"] == [["d07", 1, 24.0 * HOUR_MS, 24 * HOUR_MS]]
    assert found.json["least_delay_with_them_ms"] == 24 * HOUR_MS + 5001


def test_times_in_the_future_are_not_left_out(analyse: Analyse) -> None:
    """Where most rows are ahead, as planned departures are, it is no clock that is wrong."""
    planned = [TEN + HOUR_MS, TEN + 2 * HOUR_MS, TEN]
    pq.write_table(pa.table({"at": planned, "came": [TEN, TEN, TEN]}), "f.parquet")
    found = analyse("files", "f.parquet", "--time", "at", "--arrival", "came", "--json").json

    assert (found["rows"], found["owed_to"]) == (3, [])


def test_rows_are_judged_by_themselves(analyse: Analyse) -> None:
    """Without windows: a row at the watermark is lost, as a join of Spark would lose it."""
    pq.write_table(rows(), "f.parquet")
    words = ("files", "f.parquet", "--time", "departure", "--arrival", "landing", "--window", "0s")
    said, found = analyse(*words), analyse(*words, "--json").json

    assert (
        "departure from 2013-01-01T10:10:00Z to 2013-01-01T13:05:00Z; each row by itself."
        in said.err
    )
    assert found["least_delay_without_loss_ms"] == 85 * 60_000 + 1


def test_a_picture_is_drawn(analyse: Analyse, tmp_path: Path) -> None:
    """With waits, and without."""
    pq.write_table(rows(), "f.parquet")
    words = ("files", "f.parquet", "--time", "departure", "--picture")
    analyse(*words, "a.svg", "--arrival", "landing")
    analyse(*words, "b.svg")

    measured, assumed = ((tmp_path / name).read_text() for name in ("a.svg", "b.svg"))
    assert "median time from the end of a window to its result" in measured
    assert ("perfect" in measured, "perfect" in assumed) == (True, False)


def test_a_file_log_is_read_in_the_order_of_its_offsets(analyse: Analyse, tmp_path: Path) -> None:
    """A segment is a partition; keys that a sink keeps beside the rows are no rows."""
    for segment, minutes in ((0, [0, 200]), (1, [5, 10])):
        log = SegmentLogWriter(tmp_path, "flights", segments=[segment], event_time="at")
        for minute in minutes:
            log.append([{"at": datetime.fromtimestamp(TEN / 1000 + minute * 60, UTC)}])
    keys = tmp_path / "flights" / "partition=0" / "flights+0+0000000000.keys.parquet"
    pq.write_table(pa.table({"key": [1]}), keys)
    words = ("log", ".", "flights", "--time", "at")
    said, found = analyse(*words), analyse(*words, "--json").json

    assert (found["rows"], found["partitions"], found["last_ms"]) == (4, 2, TEN + 200 * 60_000)
    assert said.err.splitlines()[-2:] == [
        "  Observers       noted-time observe log event-time . flights --field at --delay 0s",
        '  Neither guess nor loss: writers that note time, see "Writers in Python"',
    ]


def test_rows_without_a_time_are_counted(analyse: Analyse) -> None:
    """The others are judged; the last of them, if they are many."""
    pq.write_table(pa.table({"at": pa.array([TEN, None, TEN + 1], pa.int64())}), "f.parquet")
    words = ("files", "f.parquet", "--time", "at")
    said, last = analyse(*words), analyse(*words, "--records", "1")

    assert (said.status, "1 row without at skipped." in said.err) == (0, True)
    assert "The last 1 of 2 rows are judged; --records takes more." in last.err


UNITS = [
    (TEN // 1000, "seconds", "1970-01-16", "s"),
    (TEN / 1000, "seconds", "1970-01-16", "s"),
    (TEN * 1000, "microseconds", "no date", "us"),
    (TEN * 10**6, "nanoseconds", "no date", "ns"),
]


@pytest.mark.parametrize(("ten", "in_words", "as_ms", "unit"), UNITS)
def test_files_in_another_unit_are_judged_only_as_told(
    analyse: Analyse, ten: float, in_words: str, as_ms: str, unit: str
) -> None:
    """Until then no figure is printed, and no delay is recommended."""
    pq.write_table(pa.table({"at": [ten, ten]}), "f.parquet")
    words = ("files", "f.parquet", "--time", "at")
    refused, judged = analyse(*words), analyse(*words, "--unit", unit, "--json")

    assert refused == Said(
        1,
        "",
        f"noted-time: the times of `at` look like Unix {in_words} (2013-01-01 as {in_words}, "
        f"{as_ms} as ms): pass --unit {unit}\n",
    )
    assert (judged.json["first_ms"], judged.json["last_ms"]) == (TEN, TEN)


def test_times_of_another_clock_are_judged_as_told(analyse: Analyse) -> None:
    """They are ms then, of whatever year."""
    pq.write_table(pa.table({"at": [40, 42]}), "f.parquet")
    found = analyse("files", "f.parquet", "--time", "at", "--unit", "ms", "--json").json

    assert (found["first_ms"], found["last_ms"]) == (40, 42)


NO_TIMES = pa.table({"at": pa.array([None, None], pa.int64())})


@pytest.mark.parametrize(
    ("table", "words", "says"),
    [
        (rows(), "files f.parquet --time dep", "f.parquet has no column 'dep'; it has landing, de"),
        (rows(), "files nothing*.parquet --time at", "no file matches 'nothing*.parquet': quote"),
        (rows(), "files f.parquet --time landing --who x", "f.parquet has no column 'x'"),
        (pa.table({"at": [1.5]}), "files f.parquet --time at",
         "the times of `at`, for example 1.5, are Unix time in no unit: pass --unit ms to take"),
        (pa.table({"at": [True]}), "files f.parquet --time at", "'at': True is not a time: write"),
        (pa.table({"at": ["noon"]}), "files f.parquet --time at", "'at': 'noon' is not a time: wr"),
        (pa.table({"at": ["2013-01-01 10:00"]}), "files f.parquet --time at",
         "'at': '2013-01-01 10:00' has no zone: pass --zone, for example --zone UTC"),
        (NO_TIMES, "files f.parquet --time at", "no row has a value in 'at': name another column"),
        (rows(), "log . nothing --time at", "the file log . has no rows of 'nothing': check both"),
        (NO_TIMES.append_column("of", pa.array([TEN, 2])), "files f.parquet --time of --arrival at",
         "2 rows have no at: leave --arrival out, or remove these rows"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_refused(
    analyse: Analyse, table: pa.Table, words: str, says: str
) -> None:
    """With what is there, and what to do."""
    pq.write_table(table, "f.parquet")
    said = analyse(*words.split())

    assert (said.status, said.out) == (1, "")
    assert said.err.startswith(f"noted-time: {says}")


@pytest.mark.parametrize(
    ("name", "says"), [("f.orc", "has an unknown format"), ("f.json", "has no col")]
)
def test_other_files_are_named(analyse: Analyse, tmp_path: Path, name: str, says: str) -> None:
    """By what they should be."""
    (tmp_path / name).write_text("{}")
    said = analyse("files", name, "--time", "at")

    assert said.err.startswith(f"noted-time: {name} {says}")


ISO, BARE = "2013-01-01T10:00:00Z", "2013-01-01 11:00:00"


@pytest.mark.parametrize("value", [str(TEN), ISO, ISO.replace("Z", ".0Z"), "2013-01-01 10:00 UTC"])
@pytest.mark.parametrize("name", ["f.csv", "f.csv.gz", "f.jsonl", "f.jsonl.gz", "f.json"])
def test_text_files_have_times_of_many_forms(
    analyse: Analyse, tmp_path: Path, name: str, value: str
) -> None:
    """Of JSON numbers, too."""
    write_text(tmp_path / name, [value, value])

    assert analyse("files", name, "--time", "at", "--json").json["first_ms"] == TEN


@pytest.mark.parametrize("name", ["f.csv", "f.jsonl"])
def test_text_without_a_zone_needs_one(analyse: Analyse, tmp_path: Path, name: str) -> None:
    """It is refused with one value and the remedy, as in topics; nothing is taken for UTC."""
    write_text(tmp_path / name, [BARE, BARE])
    words = ("files", name, "--time", "at")
    refused, told = analyse(*words), analyse(*words, "--zone", "Europe/Berlin", "--json")

    needs = f"noted-time: 'at': '{BARE}' has no zone: pass --zone, for example --zone UTC\n"
    assert (refused, told.json["first_ms"]) == (Said(1, "", needs), TEN)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_zones_are_those_of_each_day(analyse: Analyse, tmp_path: Path, zone: str) -> None:
    """The hour that comes twice in autumn is the first one; one that never is, is no error."""
    local = ["2012-10-28 02:30:00", "2012-11-04 01:30:00", "2013-07-01 12:00:00"]
    times = [datetime.fromisoformat(each).replace(tzinfo=ZoneInfo(zone)) for each in local]
    for name, more in (("f.csv", []), ("g.csv", ["2013-03-31 02:30:00", "2013-07-01T12:00Z"])):
        write_text(tmp_path / name, [*local, *more])
        words = ("files", name, "--time", "at", "--zone", zone, "--json")

        assert analyse(*words).json["first_ms"] == times[0].timestamp() * 1000


def test_one_value_without_a_zone_among_others_is_refused(analyse: Analyse, tmp_path: Path) -> None:
    """In JSON, too, where pyarrow would take it for UTC."""
    write_text(tmp_path / "f.jsonl", [ISO, BARE])

    assert f"'{BARE}' has no zone" in analyse("files", "f.jsonl", "--time", "at").err


def write_text(file: Path, values: list[str]) -> None:
    """Write a column in the format of the file's name."""
    lines = ["at,n", *(f"{value},1" for value in values)]
    if ".json" in file.name:
        lines = [
            f'{{"at": {value if value.isdecimal() else json.dumps(value)}}}' for value in values
        ]
    text = "\n".join(lines).encode()
    file.write_bytes(gzip.compress(text) if file.name.endswith(".gz") else text)


def test_without_arrivals_the_row_that_set_the_time_is_named(analyse: Analyse) -> None:
    """No advice is to leave it out, because the rows behind it may be late."""
    twenty_devices("f.parquet")
    words = ("files", "f.parquet", "--time", "ts", "--who", "device", "--window", "0s")
    said = analyse(*words)

    owed = "23h 59m of this delay are owed to 1 row of d07, or to the rows behind it: only arrivals"
    assert said.err.splitlines()[-4:-2] == [
        f"{LEAST} 1d 6s. {owed} tell which are wrong; without it 11s. What to do with it:",
        "  Spark           .withWatermark('ts', '86406 seconds')",
    ]


def test_rows_ahead_of_several_are_counted(analyse: Analyse) -> None:
    """The worst is named; without `--who` it is a partition."""
    came = [TEN + n * 1000 for n in range(40)]
    at = [each + (n in (3, 4, 5)) * n * HOUR_MS for n, each in enumerate(came)]
    parts = [n % 3 for n in range(40)]
    pq.write_table(pa.table({"ts": at, "came": came, "p": parts}), "f.parquet")
    words = ("--time", "ts", "--arrival", "came", "--partition", "p", "--window", "0s")
    said = analyse("files", "f.parquet", *words)

    owed = "of this delay are owed to 3 rows of partition 2 and 2 more, at most 5h ahead of their"
    assert f"{LEAST} 5h. 4h 59m {owed} arrival; without them 0s." in said.err
