"""Counts the events of a file log per second into a log of its own, and notes how far that is.

It kills itself once the log has `dies_at` files: after an append, before the note that follows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from examples.flights.starting import connected, started
from noted_time.values import Time
from spark_integration import Batches, Noted, NotedLogSink, WatermarkPolicy, read_noted_log
from tests.support.spark_sessions import start_spark
from writer_client import WriterClient
from writer_client.sending.vouched import NOWHERE


class Dying(WriterClient):
    """A client that never comes to note once there are enough files.

    It takes the whole process group with it, as at a power cut.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given["url"], "counts", "counter")
        self._files, self._given = Path(given["root"], "counts"), given

    def note_time(
        self,
        time: Time,
        position: Mapping[int, int] = NOWHERE,
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Note, or die."""
        if len(list(self._files.rglob("*.parquet"))) >= self._given["dies_at"]:
            os.killpg(0, signal.SIGKILL)
        super().note_time(time, position, **options)


def main(given: dict[str, Any]) -> None:
    """Read everything that is there, and stop."""
    spark = start_spark({"spark.sql.session.timeZone": "Europe/Berlin"})
    root, url, checkpoint = given["root"], given["url"], given["checkpoint"]
    where: dict[str, Any] = {"event_time": "time", "policy": WatermarkPolicy(strict=False)}
    noted = Noted(url, "flights")
    events = connected(lambda: read_noted_log(spark, root, noted, Batches(20), **where))
    counts = events.groupBy(F.window("time", "1 second")).count()
    with Dying(given) as client:
        sink = NotedLogSink(root, "counts", client, checkpoint_location=checkpoint, seal=True)
        query = counts.writeStream.foreachBatch(sink).trigger(availableNow=True)
        started(query.option("checkpointLocation", checkpoint).start).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
