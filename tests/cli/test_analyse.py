"""`noted-time analyse`, of files and of a file log."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from noted_time_cli.app import app
from tests.cli.conftest import Said
from writer_client import SegmentLogWriter

HOUR_MS = 3_600_000
TEN = 1_357_034_400_000
MINUTES = {"landing": [30, 70, 130, 190, 200], "departure": [10, 65, 125, 40, 185]}
"""The fourth row lands when 125 minutes are the newest: its hour ended 65 minutes before that."""

Analyse = Callable[..., Said]


@pytest.fixture
def analyse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Analyse:
    """Return what runs the command where the files are."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Said:
        done = CliRunner().invoke(app, ["analyse", *words], env={"COLUMNS": None})
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return Said(done.exit_code, done.stdout, done.stderr)

    return run


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
        "Rows behind the largest time so far, by landing:",
        "The least delay that would have lost no row is 1h 5m 1s. What to do with it:",
        "  Spark           .withWatermark('departure', '3901 seconds')",
        f"  Flink SQL       {flink}",
        "  Observers       noted-time observe kafka … --delay 3901s",
        '  Neither guess nor loss: producers that note time, see "Kafka: note time for a topic"',
    ]


def test_without_arrivals_it_says_first_what_it_assumes(analyse: Analyse) -> None:
    """And shows no wait, also none of the perfect watermark."""
    pc.write_csv(rows(pa.timestamp("ms", "UTC"), partition=["a", "a", "b", "a", "b"]), "f.csv")
    words = ("files", "f.csv", "--time", "departure", "--partition", "partition")
    said, found = analyse(*words), analyse(*words, "--json").json

    assert said.err.startswith("When rows came in is not known. Each is taken to have come when ")
    assert said.table[0] == ["delay", "rows lost", "of all", "lost by Flink"]
    assert (found["perfect"], found["delays"][0]["wait_median_ms"]) == (None, None)
    assert found["partitions"] == 2


def test_a_replay_is_ordered_by_shares_of_the_partitions(analyse: Analyse) -> None:
    """A night in one of them is late then, though nothing came late; so nothing is advised."""
    day = [TEN + minute * 60_000 for minute in range(0, 1440, 10)]
    night = day[-6:]
    at = pa.array([*day, *night])
    pq.write_table(pa.table({"at": at, "p": [*"d" * len(day), *"n" * len(night)]}), "f.parquet")
    words = ("files", "f.parquet", "--time", "at", "--partition", "p")
    live, replayed = analyse(*words, "--json").json, analyse(*words, "--as-replay")

    assert live["least_delay_without_loss_ms"] == 0
    assert "says nothing about live reading" in replayed.err
    assert ("withWatermark" in replayed.err, replayed.table[1][0]) == (False, "22h 1s")


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
    found = analyse("log", ".", "flights", "--time", "at", "--json").json

    assert (found["rows"], found["partitions"], found["last_ms"]) == (4, 2, TEN + 200 * 60_000)


def test_rows_without_a_time_are_counted(analyse: Analyse) -> None:
    """The others are judged; the last of them, if they are many."""
    pq.write_table(pa.table({"at": pa.array([TEN, None, TEN + 1], pa.int64())}), "f.parquet")
    words = ("files", "f.parquet", "--time", "at")
    said, last = analyse(*words), analyse(*words, "--records", "1")

    assert (said.status, "1 row without at passed over." in said.err) == (0, True)
    assert "The last 1 of 2 rows are judged; --records takes more." in last.err


@pytest.mark.parametrize("times", [[TEN], [TEN] * 3])
def test_one_row_and_equal_times_are_late_for_nobody(analyse: Analyse, times: list[int]) -> None:
    """No delay is needed, and the only window stays open."""
    pq.write_table(pa.table({"at": times}), "f.parquet")
    said = analyse("files", "f.parquet", "--time", "at", "--arrival", "at", "--picture", "f.png")

    assert said.table[1] == ["0s", "0", "0 %", "-", "-", "-", "1"]
    assert "The least delay that would have lost no row is 0s." in said.err


def test_times_in_seconds_are_said_and_taken_as_told(analyse: Analyse) -> None:
    """Nothing is guessed."""
    pq.write_table(pa.table({"at": [TEN // 1000, TEN // 1000 + 60]}), "f.parquet")
    words = ("files", "f.parquet", "--time", "at")
    as_ms, as_s = analyse(*words), analyse(*words, "--unit", "s", "--json")

    assert "at begins at 1357034400, in Unix ms 1970-01-16T16:57:14.400Z: if it is in" in as_ms.err
    assert as_s.json["first_ms"] == TEN


NO_TIMES = pa.table({"at": pa.array([None, None], pa.int64())})


@pytest.mark.parametrize(
    ("table", "words", "says"),
    [
        (rows(), "files f.parquet --time dep", "f.parquet has no column 'dep'; it has landing, de"),
        (rows(), "files nothing*.parquet --time at", "no file matches 'nothing*.parquet': quote"),
        (rows(), "files f.parquet --time landing --who x", "f.parquet has no column 'x'"),
        (pa.table({"at": [1.5]}), "files f.parquet --time at", "'at' is double: times are timesta"),
        (pa.table({"at": ["noon"]}), "files f.parquet --time at", "'at' is text that is no time: "),
        (NO_TIMES, "files f.parquet --time at", "no row has a value in 'at': name another column"),
        (rows(), "log . nothing --time at", "the file log . has no rows of 'nothing': check both"),
        (NO_TIMES.append_column("of", pa.array([1, 2])), "files f.parquet --time of --arrival at",
         "2 rows have no at: leave it out"),
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


@pytest.mark.parametrize("name", ["f.json", "f.parquet"])
def test_other_files_are_named(analyse: Analyse, tmp_path: Path, name: str) -> None:
    """By what they should be."""
    (tmp_path / name).write_text("{}")
    said = analyse("files", name, "--time", "at")

    assert said.err.startswith(f"noted-time: {name} ")


def test_without_its_extra_it_says_what_to_install(
    analyse: Analyse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the other commands do."""
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:  # noqa: ANN401 - as Python's
        if name == "noted_time_cli.analyse.in_files":
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    said = analyse("files", "f.parquet", "--time", "at")

    assert said.status == 2
    assert said.err.startswith("noted-time: noted-time analyse files needs pyarrow: pip install ")
