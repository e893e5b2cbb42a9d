"""The cost of a claim for a micro-batch appended to a Delta table by Spark's connector.

Two queries read the same rows and append them to a table each: one by `NotedTable`, one by the same
idempotent write without a claim. They alternate, and a sample is the time of a micro-batch, as
Spark reports it. Micro-batches that compile are not counted.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from benchmarks.figures import Figure, Run, Samples, Target, WrongResult
from benchmarks.spark_rows import rows_by_chance, spark_session
from noted_time_extensions.tables import NotedTable, TableClaims, complete_to
from tools.trials import tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    Write = Callable[[DataFrame, int], None]

ROWS = 1_000_000
"""Of a micro-batch, in one file that Spark splits."""

WARM = 4
"""How many micro-batches of each query are not counted."""

CLAIM = Target("ratio", "at most", 1.05)
LEFT_OUT = "left out: {}; ./run bench --spark 4.1 tables measures it"


@dataclass(frozen=True, slots=True)
class Written:
    """A query, which waits for files in a directory, and its table."""

    query: StreamingQuery
    directory: Path

    def seconds(self, batch: Path, number: int) -> float:
        """Let it write a batch, and return the duration."""
        os.link(batch, self.directory / "rows" / f"{number}.parquet")
        self.query.processAllAvailable()
        took = [batch for batch in self.query.recentProgress if batch.numInputRows]
        if len(took) != number + 1 or took[-1].numInputRows < ROWS:  # more if some are read twice
            raise WrongResult(f"{[batch.numInputRows for batch in took]} rows were read")
        return took[-1].durationMs["triggerExecution"] / 1000


def measure(run: Run) -> list[Figure]:
    """Measure micro-batches with and without a claim, if the connector is installed."""
    if not tables.connectors():
        run.say(LEFT_OUT.format(tables.MISSING.partition(":")[0]))
        return []
    batch = run.directory / "batch.parquet"
    pq.write_table(rows_by_chance(np.random.default_rng(1), ROWS), batch, row_group_size=ROWS // 8)
    jars = {"spark.jars": ",".join(tables.connectors())}
    with spark_session({**tables.settings(run.directory), **jars}) as spark:
        return [_figure(spark, batch, run)]


def _figure(spark: SparkSession, batch: Path, run: Run) -> Figure:
    claimed_directory = run.directory / "claimed"
    plain_directory = run.directory / "plain"
    claims = TableClaims(str(claimed_directory / "checkpoint"), "flights", "time", static_sources=1)
    table = f"delta:{claimed_directory / 'table'}"

    def write(rows: DataFrame, number: int) -> None:
        once = {"txnAppId": "plain", "txnVersion": str(number)}
        writer = rows.write.format("delta").mode("append").options(**once)
        writer.save(str(plain_directory / "table"))

    queries = (
        _start(spark, claimed_directory, NotedTable(table, claims)),
        _start(spark, plain_directory, write),
    )
    seconds_by_query: list[list[float]] = [[], []]
    for number in range(WARM + run.repeats(full=25, quick=5)):
        run.say(f"tables: micro-batch {number + 1}")
        for samples, query in zip(seconds_by_query, queries, strict=True):
            samples.append(query.seconds(batch, number))
    for each in queries:
        each.query.stop()
    if complete_to(table) is None:
        raise WrongResult("the table has no claim")
    ours, floor = (Samples(tuple(samples[WARM:])) for samples in seconds_by_query)
    name = f"Delta: a micro-batch of {ROWS:,} rows, with a claim"
    return Figure(name, "s", ours, floor, "the same write, once, without a claim", CLAIM)


def _start(spark: SparkSession, directory: Path, write: Write) -> Written:
    (directory / "rows").mkdir(parents=True)
    files = spark.readStream.schema("time TIMESTAMP, origin STRING, delay DOUBLE")
    files = files.option("maxFilesPerTrigger", 1)
    rows = files.parquet(str(directory / "rows")).withWatermark("time", "0 seconds")
    writer = rows.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    return Written(writer.start(), directory)
