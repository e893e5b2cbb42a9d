"""What the other clocks and ways to read cost, each beside what it is compared with."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import one_hour
from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from benchmarks.processes import controller
from benchmarks.spark_read import BEGUN_MS, Counted, spark_session
from benchmarks.stored import sqlite_url
from benchmarks.time_windows import followed, following, somewhere
from noted_time import BacklogPolicy
from noted_time.wing import file_name, segment_directory
from spark_integration import read_noted_log
from writer_client import LogEnds
from writer_client.log_ends import SETTLED_S

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from noted_time import MarkHistory
    from reader_client import ReaderClient

MARKS = 100_000
POSITIONS = 2_000
PARTITIONS = 1_000
SEGMENTS = 4
HOURS = 40
"""So many files has each segment, and so many marks there are."""

HOUR_MS = 3_600_000
STREAM = "caught-up"
SMALL_LIMIT = 10_000

SEGMENT_TIMES = Target("ratio", "at most", 3)
LOOK = Target("value", "at most", 2)
BY_TIME = Target("ratio", "at least", 0.9)
CATCHING_UP = Target("ratio", "at least", 3)


def measure(run: Run) -> list[Figure]:
    """Measure each beside what it is compared with."""
    return [_segment_times(run), _looks(run), *_spark(run)]


def _segment_times(run: Run) -> Figure:
    run.say("marks are followed")
    history = followed(MARKS)
    ours, windows = [], []
    with following(history) as reader:
        for repeat in range(run.repeats(full=9, quick=3)):
            run.say(f"segment times, repeat {repeat + 1}")
            windows.append(_each_us(reader, history, "get_time_window"))
            ours.append(_each_us(reader, history, "segment_times"))
    name = f"segment_times() at {MARKS:,} marks of 16 segments"
    floor = Samples(tuple(windows))
    return Figure(name, "µs", Samples(tuple(ours)), floor, "get_time_window()", SEGMENT_TIMES)


def _each_us(reader: ReaderClient, history: MarkHistory, call: str) -> float:
    places = range(0, history.last_seq, history.last_seq // POSITIONS)
    asked, took = getattr(reader, call), 0
    for place in places:
        reader.advance(somewhere(place))
        begun = time.thread_time_ns()
        asked()
        took += time.thread_time_ns() - begun
    return took / 1e3 / len(places)


def _looks(run: Run) -> Figure:
    """Look at a log of many partitions that nobody appends to, as an observer does each second."""
    root = run.directory / "observed"
    rows = pa.table({"time": [BEGUN_MS]})
    for partition in range(PARTITIONS):
        directory = segment_directory(root, "observed", partition)
        directory.mkdir(parents=True)
        pq.write_table(rows, directory / file_name("observed", partition, 0))
    ends, taken = LogEnds(root, "observed"), []
    ends()  # the first look reads the footer of every file, and is not that of each second
    time.sleep(SETTLED_S)
    for repeat in range(run.repeats(full=9, quick=3)):
        run.say(f"looks of an observer, repeat {repeat + 1}")
        time.sleep(1)
        begun = time.thread_time_ns()
        if len(ends()) != PARTITIONS:
            raise WrongResult("an end is missing")
        taken.append((time.thread_time_ns() - begun) / 1e7)
    name = f"one look a second at {PARTITIONS:,} partitions, of a core"
    return Figure(name, "%", Samples(tuple(taken)), target=LOOK, remark="nobody appends")


@dataclass(frozen=True, slots=True)
class CaughtUp(Counted):
    """Rows at rest with a mark for each hour, read from their beginning."""

    def read(self, **options: Any) -> DataFrame:  # noqa: ANN401 - options of the source
        """Return the events under noted time, read in that way."""
        return read_noted_log(
            self.spark,
            self.root,
            STREAM,
            controller_url=self.url,
            event_time="time",
            strict=False,
            columns=["time"],
            **options,
        )


def _spark(run: Run) -> list[Figure]:
    rows = 200_000 if run.quick else 1_000_000
    run.say(f"Spark: {rows} rows, a mark for each of {HOURS} hours")
    with controller(sqlite_url(run.directory / "seeds.db")) as server, spark_session() as spark:
        url = f"http://127.0.0.1:{server.port}"
        log = CaughtUp(spark, run.directory / "seeds", rows, url)
        _write(log)
        return [_by_time(run, log), _catching_up(run, log), one_hour.measure(run, spark, url)]


def _by_time(run: Run, log: CaughtUp) -> Figure:
    limit = log.rows // 10
    by_time, by_share = _in_turn(
        run,
        log,
        {"max_rows_per_trigger": limit, "order": "time"},
        {"max_rows_per_trigger": limit, "order": "share"},
    )
    return Figure("Spark: batches by time", "rows/s", by_time, by_share, "by share", BY_TIME)


def _catching_up(run: Run, log: CaughtUp) -> Figure:
    policy = BacklogPolicy(behind_ms=HOUR_MS)
    large, small = _in_turn(
        run,
        log,
        {"max_rows_per_trigger": SMALL_LIMIT, "backlog": policy},
        {"max_rows_per_trigger": SMALL_LIMIT},
    )
    floor = f"batches of {SMALL_LIMIT:,} rows"
    name = "Spark: catching up with backlog batches"
    return Figure(name, "rows/s", large, small, floor, CATCHING_UP)


def _in_turn(
    run: Run, log: CaughtUp, ours: dict[str, Any], floor: dict[str, Any]
) -> tuple[Samples, Samples]:
    """Return rows/s of both ways, after one run of each that is not counted.

    They take turns in who is first: a run leaves the machine in another state than it found it.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    ways = list(zip(taken, (ours, floor), strict=True))
    for number in range(run.repeats(full=9, quick=1) + 1):
        run.say(f"Spark: {', '.join(ours)}, round {number}")
        for samples, options in ways if number % 2 else reversed(ways):
            rate = log.rows_per_second(log.read(**options))
            if number:
                samples.append(rate)
    return Samples(tuple(taken[0])), Samples(tuple(taken[1]))


def _write(log: CaughtUp) -> None:
    """Write a file for each hour and segment, and note each hour when it is written."""
    each = log.rows // SEGMENTS // HOURS
    stream = f"{log.url}/v1/streams/{STREAM}"
    httpx.put(stream, json={"mark_interval_ms": 0}).raise_for_status()
    for hour in range(HOURS):
        begun = BEGUN_MS + hour * HOUR_MS
        times = [begun + row * HOUR_MS // each for row in range(each)]
        rows = pa.table({"time": pa.array(times).cast(pa.timestamp("ms", tz="UTC"))})
        for segment in range(SEGMENTS):
            _append(log.root, segment, hour * each, rows)
        position = {str(segment): (hour + 1) * each for segment in range(SEGMENTS)}
        note = {"writer": "w", "time": begun + HOUR_MS, "position": position}
        (result,) = httpx.post(f"{stream}/notes", json={"notes": [note]}).json()["results"]
        if result["status"] != "accepted":
            raise WrongResult(f"the note was {result}")


def _append(root: Path, segment: int, start: int, rows: pa.Table) -> None:
    directory = segment_directory(root, STREAM, segment)
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, directory / file_name(STREAM, segment, start))
