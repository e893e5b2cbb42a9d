"""`noted-time analyse files`, of Parquet and with a picture; see `transcripts/analysing.txt`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Commands, Said
from tests.support.calls import TEN

MINUTES = {"landing": [30, 70, 130, 190, 200], "departure": [10, 65, 125, 40, 185]}
"""The fourth row lands when 125 minutes are the newest: its hour ended 65 minutes before that."""

MEMORY_POOL = pa.proxy_memory_pool(pa.default_memory_pool())
"""It outlives what was allocated in it."""

Analyse = Callable[..., Said]


@pytest.fixture
def analyse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Analyse:
    """Return what runs the command where the files are."""
    monkeypatch.chdir(tmp_path)
    return partial(Commands("http://127.0.0.1:9"), "analyse")


def rows(kind: Any = None) -> pa.Table:  # noqa: ANN401 - a type of Arrow
    """Return the rows, their times of a type of Arrow."""
    times = {
        name: pa.array([TEN + 60_000 * minute for minute in minutes], pa.int64())
        for name, minutes in MINUTES.items()
    }
    if kind is not None:
        times = {
            name: each.cast(pa.timestamp("ms", "UTC")).cast(kind) for name, each in times.items()
        }
    return pa.table({**times, "carrier": ["UA", "UA", "DL", "HA", "DL"]})


@pytest.mark.parametrize(
    "kind", [None, pa.timestamp("ns", "UTC"), pa.timestamp("us"), pa.timestamp("ms", "Asia/Tokyo")]
)
def test_a_delay_is_found_from_times_of_any_type(analyse: Analyse, kind: Any) -> None:  # noqa: ANN401
    """And the perfect watermark, and whose row is late."""
    pq.write_table(rows(kind), "f.parquet")
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


@pytest.mark.parametrize("option", ["--time", "--arrival"])
def test_zone_of_a_typed_column_without_zone_is_refused(analyse: Analyse, option: str) -> None:
    """The column is named; one with a zone is an instant in any zone."""
    at, sent = (rows(pa.timestamp("us", zone)).column("departure") for zone in (None, "UTC"))
    pq.write_table(pa.table({"at": at, "sent": sent}), "f.parquet")
    other = "--arrival" if option == "--time" else "--time"
    words = ("files", "f.parquet", option, "at", other, "sent", "--json")
    refused = analyse(*words, "--zone", "Europe/Berlin")

    remedy = "read as UTC: leave --zone out if they are UTC, or write them with a zone\n"
    assert (refused.status, refused.err.partition("are ")[2]) == (1, remedy)
    assert analyse(*words).json["rows"] == len(at)


def test_file_of_many_rows_is_read_in_little_memory(analyse: Analyse) -> None:
    """The last are judged; in one row group, and encoded as one value and a count."""
    count = 4_000_000
    pq.write_table(pa.table({"at": pa.repeat(TEN, count)}), "f.parquet", row_group_size=count)
    pa.set_memory_pool(MEMORY_POOL)
    try:
        found = analyse("files", "f.parquet", "--time", "at", "--records", "7", "--json")
    finally:
        pa.set_memory_pool(pa.default_memory_pool())

    assert (found.json["rows"], MEMORY_POOL.max_memory() < count) == (7, True)


def test_a_picture_is_drawn(analyse: Analyse, tmp_path: Path) -> None:
    """With waits, and without."""
    pq.write_table(rows(), "f.parquet")
    words = ("files", "f.parquet", "--time", "departure", "--picture")
    analyse(*words, "a.svg", "--arrival", "landing")
    analyse(*words, "b.svg")

    measured, assumed = ((tmp_path / name).read_text() for name in ("a.svg", "b.svg"))
    assert "median time from the end of a window to its result" in measured
    assert ("perfect" in measured, "perfect" in assumed) == (True, False)
