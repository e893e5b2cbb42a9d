"""The positions of a query at the controller."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent

from noted_time.values import InvalidName
from spark_integration import KafkaTopic, PositionListener
from spark_integration.checkpoint.listener import _join_positions
from tests.support.query_output import QueryOutput
from tools.trials.served import Served
from tools.trials.waiting import eventually, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.shows("PositionListener")]


@pytest.mark.parametrize("position", [None, KafkaTopic("flights")])
def test_topic_counts_if_the_source_reads_others_too(
    controller: Served, position: KafkaTopic | None
) -> None:
    """Unlike a watermark, progress belongs to one stream."""
    listener = PositionListener("flights", "g", "r", controller=controller.url, position=position)
    offset = '{"flights": {"0": 3}, "landings": {"0": 9}}'

    assert _join_positions([offset], listener._position_of) == {0: 3}


def test_only_the_named_query_is_reported(controller: Served) -> None:
    """A session may have other queries of the stream."""
    controller.create("flights")
    listener = PositionListener("flights", "g", "r", controller=controller.url, query_name="loader")
    for name, end in ("loader", 3), ("other", 9):
        source = SimpleNamespace(endOffset=f'{{"flights": {{"0": {end}}}}}')
        progress = SimpleNamespace(id=name, name=name, sources=[source])
        listener.onQueryProgress(cast("QueryProgressEvent", SimpleNamespace(progress=progress)))
    listener.close()

    assert controller.read_group("flights", "g") == ({"0": 3}, ["r"])


def test_bad_name_is_refused_at_once() -> None:
    """Otherwise the error would come in a thread, unseen."""
    with pytest.raises(InvalidName, match="group 'a/b'"):
        PositionListener("flights", "a/b", "one", controller="http://127.0.0.1:1")


def test_refusal_to_go_offline_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The stream was deleted before the query ended."""
    with Served() as server:
        server.create("flights")
        listener = PositionListener("flights", "counters", "one", controller=server.url)
        listener._positions["q"] = {0: 3}
        server.call("DELETE", "/flights")
        listener.onQueryTerminated(cast("QueryTerminatedEvent", SimpleNamespace(id="q")))
        listener.close()

    reader_name = "reader 'one' of group 'counters', stream 'flights',"
    assert f"{reader_name} may still be online: there is no stream 'flights'" in caplog.text


@pytest.mark.needs_spark("3.5")
def test_position_in_a_source_of_spark_is_reported(
    spark: SparkSession, controller: Served, output: QueryOutput
) -> None:
    """The reader goes offline with its query. Spark without Python sources can do this, too."""

    def position(offset: dict[str, Any]) -> dict[int, int]:
        return {0: offset["offset"]}

    def read_report() -> Any:  # noqa: ANN401 - whatever JSON holds
        return controller.read_group("numbers", "counters")

    controller.create("numbers")
    listener = PositionListener(
        "numbers", "counters", "one", controller=controller.url, position=position
    )
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    spark.streams.addListener(listener)
    query = output.start(numbers)
    wait_until(lambda: read_report()[0].get("0", 0) >= 20)
    query.stop()
    offline = eventually(lambda: read_report()[1], [])
    spark.streams.removeListener(listener)
    listener.close()

    assert offline
