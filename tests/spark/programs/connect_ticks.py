"""Counts ticks per second under a noted watermark, through a Spark Connect session."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_integration import PositionListener, with_noted_watermark
from tests.support.queries import per_second


class Ending(StreamingQueryListener):
    """Sees the last event of a query."""

    def __init__(self) -> None:
        self.seen = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Wait."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Wait."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802, ARG002 - Spark's
        """See it."""
        self.seen.set()


def main(given: dict[str, str]) -> None:
    """Print the counts once there are three."""
    os.environ["SPARK_TESTING"] = "1"  # the local server picks a free port
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.connect.grpc.binding.address", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    listener = PositionListener(given["url"], "ticks", "counters", "one", position=position)
    ending = Ending()
    spark.streams.addListener(listener)
    spark.streams.addListener(ending)
    source = spark.readStream.format("rate-micro-batch")
    ticks = with_noted_watermark(
        source.options(rowsPerBatch=10, startTimestamp=0, numPartitions=1).load(),
        "timestamp",
        stream="ticks",
        controller_url=given["url"],
        checkpoint_location=given["checkpoint"],
        position=position,
        strict=False,
    )
    memory = per_second(ticks, "timestamp").writeStream.format("memory").queryName("counts")
    query = memory.option("checkpointLocation", given["checkpoint"]).start()
    while len(rows := spark.table("counts").collect()) < 3:
        time.sleep(0.2)
    query.stop()
    # PySpark 4.3 removes its last listener under the lock that a last event needs, and waits for it
    ending.seen.wait(60)
    spark.streams.removeListener(listener)
    listener.close()
    print(json.dumps(sorted(list(row) for row in rows)[:3]), flush=True)  # noqa: T201 - the answer
    spark.stop()


def position(offset: dict[str, int]) -> dict[int, int]:
    """Return the position in the one segment that the ticks are."""
    return {0: offset["offset"]}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
