"""`noted-time analyse`, of files and of a file log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Commands, Said
from tests.support.calls import TEN
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
