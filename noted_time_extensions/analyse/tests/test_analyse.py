"""`noted-time analyse files`, of Parquet and with a picture; see `transcripts/analysing.txt`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noted_time_extensions.analyse.reading import file_rows
from tests.cli.conftest import Commands, Result
from tools.trials.calls import TEN

MINUTES = {"landing": [30, 70, 130, 190, 200], "departure": [10, 65, 125, 40, 185]}
"""The fourth row lands when 125 minutes are the newest: its hour ended 65 minutes before that."""

MANY_ROWS = {"f.parquet": 4_000_000, "f.jsonl": 400_000}
MEMORY_POOLS = {name: pa.proxy_memory_pool(pa.default_memory_pool()) for name in MANY_ROWS}
"""They outlive the tables that were allocated in them."""

Analyse = Callable[..., Result]


@pytest.fixture
def analyse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Analyse:
    """Return the command, run in the directory of the files."""
    monkeypatch.chdir(tmp_path)
    return partial(Commands("http://127.0.0.1:9"), "analyse")


def rows(kind: Any = None) -> pa.Table:  # noqa: ANN401 - a type of Arrow
    """Return the rows, their times of a type of Arrow."""
    columns: dict[str, Any] = {}
    for name, minutes in MINUTES.items():
        times = pa.array([TEN + 60_000 * minute for minute in minutes], pa.int64())
        if kind is not None:
            times = times.cast(pa.timestamp("ms", "UTC")).cast(kind)
        columns[name] = times
    return pa.table({**columns, "carrier": ["UA", "UA", "DL", "HA", "DL"]})


@pytest.mark.parametrize(
    "kind",
    [None, pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC"), pa.timestamp("ms", "Asia/Tokyo")],
)
def test_a_delay_is_found_from_times_of_any_type(analyse: Analyse, kind: Any) -> None:  # noqa: ANN401
    """The answer also has the perfect watermark and the late rows by carrier."""
    pq.write_table(rows(kind), "f.parquet")
    analysis = analyse(
        *("files", "f.parquet", "--time", "departure", "--arrival", "landing"),
        *("--who", "carrier", "--delay", "30m", "--json"),
    ).json

    assert analysis["least_delay_without_loss_ms"] == 65 * 60_000 + 1
    tried_delay, least_delay = analysis["delays"]
    assert (tried_delay["delay_ms"], tried_delay["lost"]) == (30 * 60_000, 1)
    assert (least_delay["delay_ms"], least_delay["lost"]) == (65 * 60_000 + 1000, 0)
    assert tried_delay["wait_median_ms"] == 75 * 60_000
    assert (analysis["perfect"]["lost"], analysis["perfect"]["wait_median_ms"]) == (0, 70 * 60_000)
    assert analysis["behind_by_group"] == [["HA", 1, 85 * 60_000.0, 85 * 60_000]]


@pytest.mark.parametrize("option", ["--time", "--arrival"])
def test_timestamps_without_zone_are_of_the_given_zone(analyse: Analyse, option: str) -> None:
    """They are refused without one; timestamps with a zone are instants in any zone."""
    local_times = rows(pa.timestamp("us")).column("departure")
    sent_times = rows(pa.timestamp("us", "UTC")).column("departure")
    pq.write_table(pa.table({"at": local_times, "sent": sent_times}), "f.parquet")
    other = "--arrival" if option == "--time" else "--time"
    words = ("files", "f.parquet", option, "at", other, "sent", "--json")
    refusal = analyse(*words)
    analysis = analyse(*words, "--zone", "Europe/Berlin", "--ahead", "2h").json

    remedy = "timestamps without a zone: pass --zone, for example --zone UTC\n"
    assert (refusal.status, refusal.err.partition("has ")[2]) == (1, remedy)
    shift = 3_600_000 if option == "--time" else 0
    assert analysis["first_ms"] == TEN + 60_000 * min(MINUTES["departure"]) - shift


@pytest.mark.parametrize("column", ["text", "typed", "mixed"])
def test_clock_changes_are_equal_in_text_and_timestamps(analyse: Analyse, column: str) -> None:
    """The clock of Berlin skips an hour, and later has one twice, where the rows step back."""
    local = [datetime(2026, 3, 29, 2, 30), datetime(2026, 3, 29, 3)]  # noqa: DTZ001 - local
    autumn = datetime(2026, 10, 25, 2)  # noqa: DTZ001 - local
    local += [autumn + timedelta(minutes=n) for n in (0, 58, 59, 0, 30, 60)]
    text = [time.isoformat() for time in local]
    columns = {"text": text, "typed": local, "mixed": [*text[:-1], "2026-10-25T02:00Z"]}
    pq.write_table(pa.table(columns), "f.parquet")
    analysis = analyse(
        "files", "f.parquet", "--time", column, "--zone", "Europe/Berlin", "--json"
    ).json

    twice = "2 rows lie between 02:00 and 03:00 of 2026-10-25, which Europe/Berlin had twice"
    assert (analysis["rows"], analysis["without_time"]) == (7, 0)
    assert (analysis["first_ms"], analysis["last_ms"]) == (1_774_746_000_000, 1_792_893_600_000)
    assert analysis["least_delay_without_loss_ms"] == 0
    assert analysis["notices"] == [
        "1 row left out, with times in an hour that Europe/Berlin skipped.",
        f"{twice}: they are of the second hour, as the times step back.",
    ]


@pytest.mark.parametrize("name", MANY_ROWS)
def test_file_of_many_rows_is_read_in_little_memory(
    analyse: Analyse, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The last are judged; in one row group, and encoded as one value and a count."""
    count = MANY_ROWS[name]
    pool = MEMORY_POOLS[name]
    monkeypatch.setattr(file_rows, "LINES_BYTES", 1 << 16)
    if name == "f.jsonl":
        Path(name).write_text(f'{{"at": {TEN}}}\n' * count)
    else:
        pq.write_table(pa.table({"at": pa.repeat(TEN, count)}), name, row_group_size=count)
    pa.set_memory_pool(pool)
    try:
        result = analyse("files", name, "--time", "at", "--records", "7", "--json")
    finally:
        pa.set_memory_pool(pa.default_memory_pool())

    assert (result.json["rows"], pool.max_memory() < count) == (7, True)


def test_json_lines_have_one_schema(analyse: Analyse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a block of them ends: a column may be missing, null, or a decimal at first."""
    monkeypatch.setattr(file_rows, "LINES_BYTES", 7)
    lines = ["{}", '{"at": null}', f'{{"at": {TEN}}}', f'{{"at": {TEN}.5, "shop": "lima"}}']
    Path("f.jsonl").write_text("\n\n".join(lines))
    analysis = analyse("files", "f.jsonl", "--time", "at", "--partition", "shop", "--json").json

    assert (analysis["rows"], analysis["without_time"], analysis["partitions"]) == (2, 2, 2)


def test_a_picture_is_drawn(analyse: Analyse, tmp_path: Path) -> None:
    """The picture has waits if arrivals are known."""
    pq.write_table(rows(), "f.parquet")
    words = ("files", "f.parquet", "--time", "departure", "--picture")
    analyse(*words, "a.svg", "--arrival", "landing")
    analyse(*words, "b.svg")

    measured_picture = (tmp_path / "a.svg").read_text()
    assumed_picture = (tmp_path / "b.svg").read_text()
    assert "median time from the end of a window to its result" in measured_picture
    assert ("perfect" in measured_picture, "perfect" in assumed_picture) == (True, False)
