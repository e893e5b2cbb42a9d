"""How much of a month's log a batch job reads for one complete hour of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from noted_time.client import position_to_wire
from noted_time.wing import file_name, segment_directory
from reader_client import ReaderClient
from spark_integration import read_complete
from spark_integration.complete_source import OPTION, CompleteSource, WindowQuery
from spark_integration.log_files import row_groups

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from noted_time import CompleteWindow
    from spark_integration.complete_source import WindowTask

Json = dict[str, Any]

STREAM = "monthly"
SEGMENTS = 4
HALF_HOUR_MS = 1_800_000
HOUR_MS = 2 * HALF_HOUR_MS
HALF_HOURS = 30 * 48
ROWS = 200
"""So many rows has an append: that of one writer, to its segment, each half an hour."""

BEGUN_MS = 1_357_027_200_000
LITTLE_MORE = Target("ratio", "at most", 1.2)


class Month(NamedTuple):
    """Where the log and its controller are, and the times of all rows, sorted."""

    root: Path
    url: str
    times: np.ndarray[tuple[int], np.dtype[np.int64]]

    def rows_of(self, start: int, end: int) -> int:
        """Return how many rows there are of a window."""
        first, last = np.searchsorted(self.times, (start, end))
        return int(last - first)


def measure(run: Run, spark: SparkSession, url: str) -> Figure:
    """Measure rows read for hours of the month, against theirs and those of a mark on each side."""
    run.say(f"a month of {HALF_HOURS * SEGMENTS:,} appends")
    month = _written(run.directory / "month", url)
    read, needed = list[float](), list[float]()
    with ReaderClient(url, STREAM) as reader:
        reader.catch_up()
        windows = list(reader.windows(HOUR_MS, after=BEGUN_MS + HOUR_MS))
    repeats = run.repeats(full=9, quick=3)
    for window in windows[:: len(windows) // repeats][:repeats]:
        run.say(f"the hour that begins at {window.start}")
        rows = month.rows_of(window.start, window.end)
        _check(spark, month, window, rows)
        read.append(float(_rows_read(month, window)))
        needed.append(float(rows + 2 * SEGMENTS * ROWS))
    name = "read_complete(): one hour out of a month"
    floor = "rows of the hour, and of a mark on each side"
    return Figure(name, "rows", Samples(tuple(read)), Samples(tuple(needed)), floor, LITTLE_MORE)


def _check(spark: SparkSession, month: Month, window: CompleteWindow, rows: int) -> None:
    frame = read_complete(
        spark,
        month.root,
        STREAM,
        window.start,
        window.end,
        controller_url=month.url,
        event_time="time",
    )
    if (found := frame.count()) != rows:
        raise WrongResult(f"{found} rows read of {rows}")


def _rows_read(month: Month, window: CompleteWindow) -> int:
    """Return the rows of all row groups that the tasks of a read decode."""
    query = WindowQuery(
        root=str(month.root),
        stream=STREAM,
        event_time="time",
        start=window.start,
        end=window.end,
        from_cut=position_to_wire(window.from_cut.offsets),
        to_cut=position_to_wire(window.to_cut.offsets),
    )
    source = CompleteSource({OPTION: query.to_option()})
    tasks: list[WindowTask] = list(source.reader(source.schema()).partitions())  # type: ignore[arg-type]
    return sum(
        group.last - group.first
        for each in (work for task in tasks for work in task.work)
        for group in row_groups(pq.read_metadata(each.path), "time")
        if group.first < each.last and group.last > each.first
    )


def _written(root: Path, url: str) -> Month:
    """Write the month, each row up to half an hour early, and note each half of an hour."""
    chance, times, notes = np.random.default_rng(1), [], []
    largest = [0] * SEGMENTS
    for number in range(HALF_HOURS):
        begun = BEGUN_MS + number * HALF_HOUR_MS
        for segment in range(SEGMENTS):
            appended = begun + chance.integers(HOUR_MS, size=ROWS)
            _append(root, segment, number * ROWS, appended)
            times.append(appended)
            largest[segment] = max(largest[segment], int(appended.max()))
            place = {"writer": f"w{segment}", "position": {str(segment): (number + 1) * ROWS}}
            note = {"time": begun + HALF_HOUR_MS, "max_time": largest[segment]}
            notes.append({**place, **note})
    joins: list[Json] = [{"writer": f"w{segment}"} for segment in range(SEGMENTS)]
    _note(f"{url}/v1/streams/{STREAM}", [*joins, *notes])
    return Month(root, url, np.sort(np.concatenate(times)))


def _append(root: Path, segment: int, start: int, times: np.ndarray) -> None:
    directory = segment_directory(root, STREAM, segment)
    directory.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"time": pa.array(times).cast(pa.timestamp("ms", tz="UTC"))})
    pq.write_table(rows, directory / file_name(STREAM, segment, start))


def _note(stream: str, notes: list[Json]) -> None:
    httpx.put(stream, json={"mark_interval_ms": 0}).raise_for_status()
    for first in range(0, len(notes), 1000):
        body = {"notes": notes[first : first + 1000]}
        results = httpx.post(f"{stream}/notes", json=body, timeout=60).json()["results"]
        refused = [each for each in results if each["status"] != "accepted"]
        if refused:
            raise WrongResult(f"a note was {refused[0]}")
