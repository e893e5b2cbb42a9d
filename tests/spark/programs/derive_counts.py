"""Counts the events of a file log per second into a log of its own, and notes how far that is.

It kills itself once the log has `dies_at` files: after an append, before the note that follows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from spark_integration import NotedLogSink, read_noted_log
from tests.support.spark_sessions import start_spark
from writer_client import WriterClient

if TYPE_CHECKING:
    from collections.abc import Mapping

    from noted_time.times import Time


class Dying(WriterClient):
    """A client that never comes to note once there are enough files."""

    def __init__(self, files: Path, dies_at: int, *names: str) -> None:
        super().__init__(*names)
        self._files, self._dies_at = files, dies_at

    def note_time(self, time: Time, position: Mapping[int, int], **options: Any) -> None:  # noqa: ANN401
        """Note, or die with the whole process group, as at a power cut."""
        if len(list(self._files.rglob("*.parquet"))) >= self._dies_at:
            os.killpg(0, signal.SIGKILL)
        super().note_time(time, position, **options)


def main(told: dict[str, Any]) -> None:
    """Read all that is there, and stop."""
    spark = start_spark({"spark.sql.session.timeZone": "Europe/Berlin"})
    root, url, checkpoint = told["root"], told["url"], told["checkpoint"]
    events = read_noted_log(
        spark,
        root,
        "flights",
        controller_url=url,
        event_time="time",
        strict=False,
        max_rows_per_trigger=20,
    )
    counts = events.groupBy(F.window("time", "1 second")).count()
    with Dying(Path(root, "counts"), told["dies_at"], url, "counts", "counter") as client:
        sink = NotedLogSink(root, "counts", client, checkpoint_location=checkpoint)
        query = counts.writeStream.foreachBatch(sink).trigger(availableNow=True)
        query.option("checkpointLocation", checkpoint).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
