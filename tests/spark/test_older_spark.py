"""The listener works without our Python sources, so with older releases of Spark, too."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from demo.trials.served import Served
from demo.trials.waiting import eventually, wait_until
from spark_integration import PositionListener
from tests.support.query_output import QueryOutput

pytestmark = [pytest.mark.spark, pytest.mark.needs_spark("3.5")]


@pytest.mark.shows("PositionListener")
def test_position_in_a_source_of_spark_is_reported(
    spark: SparkSession, controller: Served, output: QueryOutput
) -> None:
    """The reader goes offline with its query."""

    def position(offset: dict[str, Any]) -> dict[int, int]:
        return {0: offset["offset"]}

    def read_report() -> Any:  # noqa: ANN401 - whatever JSON holds
        return controller.read_group("numbers", "counters")

    controller.create("numbers")
    listener = PositionListener(controller.url, "numbers", "counters", "one", position=position)
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    spark.streams.addListener(listener)
    query = output.start(numbers)
    wait_until(lambda: read_report()[0].get("0", 0) >= 20)
    query.stop()
    offline = eventually(lambda: read_report()[1], [])
    spark.streams.removeListener(listener)
    listener.close()

    assert offline
