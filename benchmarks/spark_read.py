"""The cost of noted time for a Spark query: a windowed count over the file log, three ways.

The rows are counted under noted time, under Spark's own watermark over the same source, and under
its own over Parquet. A sample is rows over the time of micro-batches, as Spark reports it. The
first run, which compiles, is not counted.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from benchmarks.processes import controller
from benchmarks.spark_rows import BEGUN_MS, DAY_MS, rows_by_chance, spark_session
from benchmarks.stored import sqlite_url
from noted_time_extensions.files import Columns, read_noted_log
from noted_time_extensions.files.layout import file_name, segment_directory
from noted_time_extensions.files.spark.log_source import LogSource
from noted_time_extensions.files.spark.query import LogQuery
from spark_integration import Noted, WatermarkPolicy
from spark_integration.marks.watermark import MARK_TIME
from spark_integration.session.sources import build_options, create_reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

STREAM = "counted"
SEGMENTS = 4
FILES = 8
"""Files per segment."""

OWN = Target("ratio", "at least", 0.9)
BUILT_IN = Target("ratio", "at least", 0.6)


@dataclass(frozen=True, slots=True)
class Counted:
    """The rows at rest, and as streams."""

    spark: SparkSession
    directory: Path
    rows: int
    url: str

    @property
    def root(self) -> Path:
        return self.directory / "log"

    def read_noted(self) -> DataFrame:
        return read_noted_log(
            self.spark,
            self.root,
            Noted(STREAM, controller=self.url),
            Columns(["time"]),
            event_time="time",
            policy=WatermarkPolicy(strict=False),
        )

    def own(self) -> DataFrame:
        """Return the events of the same source under Spark's own watermark."""
        query = LogQuery(str(self.root), STREAM, self.url, "time", columns=Columns(["time"]))
        rows = create_reader(
            self.spark, self.spark.readStream, LogSource, build_options(query)
        ).load()
        return rows.drop(MARK_TIME).withWatermark("time", "1 day")

    def built_in(self) -> DataFrame:
        """Return the events of Spark's Parquet stream under its own watermark."""
        source = self.spark.readStream.schema("time TIMESTAMP, origin STRING, delay DOUBLE")
        return source.parquet(str(self.root / STREAM)).withWatermark("time", "1 day")

    def rows_per_second(self, events: DataFrame) -> float:
        """Count all events per hour, or raise `WrongResult` for other rows."""
        counts = events.groupBy(F.window("time", "1 hour")).count()
        with tempfile.TemporaryDirectory(dir=self.directory) as checkpoint:
            writer = counts.writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", checkpoint).start()
            query.awaitTermination()
            batches = query.recentProgress
        read_count = sum(batch.numInputRows for batch in batches)
        if not self.rows <= read_count <= self.rows + len(batches):
            raise WrongResult(f"{read_count} rows read of {self.rows}")
        return self.rows * 1000 / sum(batch.durationMs["triggerExecution"] for batch in batches)


def measure(run: Run) -> list[Figure]:
    rows = 400_000 if run.quick else 4_000_000
    run.say(f"Spark: {rows} rows in {SEGMENTS} segments")
    with controller(sqlite_url(run.directory / "spark.db")) as server, spark_session() as spark:
        counted_log = Counted(
            spark, run.directory / "spark", rows, f"http://127.0.0.1:{server.port}"
        )
        write(counted_log.root, rows, counted_log.url)
        return _figures(counted_log, run)


def _figures(counted_log: Counted, run: Run) -> list[Figure]:
    ways: list[Callable[[], DataFrame]] = [
        counted_log.read_noted,
        counted_log.own,
        counted_log.built_in,
    ]
    for way in ways:
        run.say(f"Spark: warming up {way.__name__}")
        counted_log.rows_per_second(way())
    rates_by_way: list[list[float]] = [[], [], []]
    for number in range(run.repeats(full=5, quick=1)):
        run.say(f"Spark: round {number + 1}")
        for samples, way in zip(rates_by_way, ways, strict=True):
            samples.append(counted_log.rows_per_second(way()))
    noted_rates, own_rates, built_in = (Samples(tuple(samples)) for samples in rates_by_way)
    name = "Spark: windowed count under noted time"
    return [
        Figure(name, "rows/s", noted_rates, own_rates, "Spark's own watermark, same source", OWN),
        Figure(name, "rows/s", noted_rates, built_in, "Spark's own Parquet stream", BUILT_IN),
    ]


def write(root: Path, rows: int, url: str) -> None:
    """Write the log in rising disorder, with a final note that covers all rows."""
    rows_per_file = rows // SEGMENTS // FILES
    chance = np.random.default_rng(1)
    for segment in range(SEGMENTS):
        directory = segment_directory(root, STREAM, segment)
        directory.mkdir(parents=True)
        for number in range(FILES):
            start = number * rows_per_file
            pq.write_table(
                rows_by_chance(chance, rows_per_file), directory / file_name(STREAM, segment, start)
            )
    position = {str(segment): FILES * rows_per_file for segment in range(SEGMENTS)}
    note = {"writer": "w", "time": BEGUN_MS + DAY_MS, "position": position}
    stream = f"{url}/v1/streams/{STREAM}"
    httpx.put(stream, json={}).raise_for_status()
    (result,) = httpx.post(f"{stream}/notes", json={"notes": [note]}).json()["results"]
    if result["status"] != "accepted":
        raise WrongResult(f"the note was {result}")
