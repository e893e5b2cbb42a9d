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
    with_zone = rows(pa.timestamp("us", "UTC")).column("departure")
    columns = {"at": rows(pa.timestamp("us")).column("departure"), "sent": with_zone}
    pq.write_table(pa.table(columns), "f.parquet")
    other = {"--time": "--arrival", "--arrival": "--time"}[option]
    words = ("files", "f.parquet", option, "at", other, "sent", "--json")

    assert analyse(*words, "--zone", "Europe/Berlin") == Said(
        1,
        "",
        "noted-time: column `at` has timestamps without a zone, which are read as UTC: leave "
        "--zone out if they are UTC, or write them with a zone\n",
    )
    assert analyse(*words).json["rows"] == len(with_zone)


def test_a_picture_is_drawn(analyse: Analyse, tmp_path: Path) -> None:
    """With waits, and without."""
    pq.write_table(rows(), "f.parquet")
    words = ("files", "f.parquet", "--time", "departure", "--picture")
    analyse(*words, "a.svg", "--arrival", "landing")
    analyse(*words, "b.svg")

    measured, assumed = ((tmp_path / name).read_text() for name in ("a.svg", "b.svg"))
    assert "median time from the end of a window to its result" in measured
    assert ("perfect" in measured, "perfect" in assumed) == (True, False)
