"""What works without a source of ours, hence with older releases of Spark too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

import spark_integration
from tests.support.query_output import QueryOutput
from tests.support.served import Served
from tests.support.waiting import eventually, wait_until
from writer_client import WriterClient

pytestmark = pytest.mark.spark


@pytest.mark.needs_spark("3.5")
@pytest.mark.shows("PositionListener")
def test_the_position_in_a_source_of_spark_is_reported(
    spark: SparkSession, controller: Served, output: QueryOutput
) -> None:
    """And the reader goes offline with its query."""

    def position(offset: dict[str, Any]) -> dict[int, int]:
        return {0: offset["offset"]}

    def reported() -> Any:  # noqa: ANN401 - whatever JSON holds
        return controller.reported("numbers", "counters")

    controller.create("numbers")
    listener = spark_integration.PositionListener(
        controller.url, "numbers", "counters", "one", position=position
    )
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    spark.streams.addListener(listener)
    query = output.start(numbers)
    wait_until(lambda: reported()[0].get("0", 0) >= 20)
    query.stop()
    offline = eventually(lambda: reported()[1], [])
    spark.streams.removeListener(listener)
    listener.close()

    assert offline


@pytest.mark.needs_spark("4.0")
@pytest.mark.shows("NotedLogSink")
def test_windows_under_a_watermark_of_spark_become_a_noted_stream(
    spark: SparkSession, controller: Served, tmp_path: Path
) -> None:
    """Each window once, of all its rows; and what is noted is the watermark."""

    def noted() -> int:
        mark = controller.get("counts")["marks"].get("default")
        return mark["lower"] if mark else 0

    controller.create("counts")
    client, checkpoint = WriterClient(controller.url, "counts", "counter"), str(tmp_path / "check")
    sink = spark_integration.NotedLogSink(
        tmp_path / "log", "counts", client, checkpoint_location=checkpoint
    )
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    seconds = rows.withWatermark("timestamp", "0 seconds").groupBy(
        F.window("timestamp", "1 second")
    )
    writer = seconds.count().writeStream.outputMode("append").foreachBatch(sink)
    query = writer.option("checkpointLocation", checkpoint).start()
    wait_until(lambda: query.exception() or noted() >= 3000)
    query.stop()
    client.close()

    log = ds.dataset(tmp_path / "log" / "counts", format="parquet").to_table()
    counted = log.sort_by("window_end").column("count").to_pylist()
    ends = log.column("window_end").to_pylist()
    assert counted == [10] * len(counted)
    assert len({*ends}) == len(ends) >= 3
