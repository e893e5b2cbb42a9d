"""File logs in a bucket, read and appended by Spark."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import window

from noted_time_extensions.files import (
    LogEnds,
    NotedLogSink,
    SegmentLogWriter,
    read_complete,
    read_noted_log,
)
from noted_time_extensions.files.tests.stores.proxy import Proxy
from spark_integration import Noted
from tests.support.object_store import SECRET
from tests.support.queries import collect_rows, count_per_second
from tools.trials.served import Served
from writer_client import WriterClient

pytestmark = pytest.mark.spark


def append(served: Served, root: str, *seconds: int) -> None:
    """Append a row of each second, and note the time after them."""
    with WriterClient("flights", "w", controller=served.url) as client:
        log = SegmentLogWriter(root, "flights", client=client, event_time="time")
        log.append([{"time": 1000 * second, "name": str(second)} for second in seconds])
        log.note_time(1000 * (max(seconds) + 1))


def test_query_reads_and_appends_in_a_bucket(
    s3: Proxy, bucket: str, spark: SparkSession, served: Served, tmp_path: Path
) -> None:
    """The query continues after a restart. A batch job reads a complete window of the same log."""
    root = f"{bucket}/topics"
    checkpoint = str(tmp_path / "checkpoint")
    for stream in ("flights", "counts"):
        served.create(stream)

    def count() -> None:
        noted_stream = Noted("flights", controller=served.url)
        events = read_noted_log(spark, root, noted_stream, event_time="time")
        counts = events.groupBy(window("time", "1 second")).count()
        sink = NotedLogSink(
            root,
            "counts",
            partial(WriterClient, "counts", "counter", controller=served.url),
            checkpoint_location=checkpoint,
        )
        writer = counts.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        sink.close()

    append(served, root, 1, 2, 2)
    count()
    append(served, root, 3, 4)
    count()
    window_of = read_complete(
        spark, root, Noted("flights", controller=served.url), 2000, 4000, event_time="time"
    )

    assert collect_rows(count_per_second(window_of)) == [(2, 2), (3, 1)]
    assert LogEnds(root, "counts")().ends == {0: 3}
    assert s3.counts["PUT"] >= 4
    contents = [
        path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()
    ]
    assert not any(SECRET.encode() in content for content in contents)
