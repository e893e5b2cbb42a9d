"""The Spark examples of the pages. The README runs in `tests/acceptance`, Kafka in `test_kafka`."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from demo.trials.served import Served
from demo.trials.waiting import eventually
from tests.support.noted_stream import NotedStream
from tests.support.page import BINDING, Runner, Session, agrees, list_examples, read_page
from tests.support.query_output import QueryOutput

pytestmark = pytest.mark.spark

NINE = datetime(2013, 1, 1, 9, tzinfo=UTC)
TEN_MS = 1_357_034_400_000


@pytest.fixture
def half_hours(flights: NotedStream) -> NotedStream:
    """Return departures every half hour from nine on; all before ten are noted."""
    times = [NINE + timedelta(minutes=30 * n) for n in range(4)]
    table = pa.table(
        {"departure": pa.array(times, pa.timestamp("ms", tz="UTC")), "origin": ["EWR"] * 4}
    )
    flights.append_table(0, table)
    flights.marks.note("UA", TEN_MS, {0: 4})
    return flights


def elsewhere(tmp_path: Path, url: str) -> dict[str, str]:
    """Return the addresses and paths that stand for the pages' own in a test."""
    urls = {"http://controller:7464": url, BINDING: url}
    return {**urls, "/data/": f"{tmp_path}/", '"log"': f'"{tmp_path}/log"'}


@pytest.mark.usefixtures("half_hours")
def test_log_and_the_listener_of_the_spark_page_work(
    spark: SparkSession, controller: Served, output: QueryOutput, tmp_path: Path
) -> None:
    """The listener reports all four events to the controller."""
    page = Session("docs/guides/spark.md", elsewhere(tmp_path, controller.url), spark=spark)
    names = page.run("flights = read_noted_log", "PositionListener(")
    output.catch_up(names["flights"].select("origin"))

    assert eventually(lambda: controller.read_group("flights", "hourly"), ({"0": 4}, []))
    spark.streams.removeListener(names["listener"])
    names["listener"].close()


def test_quickstart_has_the_results_it_states(
    spark: SparkSession, controller: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lima holds the watermark at 9:25. Its order of 9:40 counts in the hour until 10:00."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    shell = Runner(tmp_path, controller.url)
    of_shell = {"sh", "console"}
    create, explain = (e for e in list_examples(read_page(QUICKSTART)) if e.language in of_shell)
    held: list[bool] = []
    quickstart = Session(QUICKSTART, {**elsewhere(tmp_path, controller.url), **TO_MEMORY})
    quickstart.names["input"] = lambda _: held.append(
        agrees(str(explain.shown), shell.run(explain))
    )
    shell.run(create)
    quickstart.run("SegmentLogWriter(", "ReaderClient(", "SparkSession.builder")
    spark.conf.set("spark.sql.shuffle.partitions", str(before))

    counts = spark.table("quickstart").select(F.hour("window.start"), "shop", "count")
    assert sorted(tuple(row) for row in counts.collect()) == [(9, "berlin", 60), (9, "lima", 2)]
    assert "lower=1357032300000" in capsys.readouterr().out
    assert held == [True]


QUICKSTART = "docs/start/quickstart.md"
TO_MEMORY = {
    'format("console").option("truncate", False)': 'format("memory").queryName("quickstart")'
}
