"""The Spark examples of the guides and the quickstart that read a file log."""

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time_extensions.files.layout import file_name, segment_directory
from tests.spark.test_guides import GUIDE, NINE, TEN, elsewhere
from tests.support.noted_stream import INSTANT, NotedStream
from tests.support.page import Runner, Session, agrees, list_examples, read_page
from tests.support.processes import ServeProcess
from tests.support.queries import collect_rows
from tests.support.query_output import QueryOutput
from tools.trials.served import Served
from tools.trials.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]

BACKLOG = "docs/guides/backlog.md"
QUICKSTART = "docs/start/quickstart.md"
HALF_HOUR = 1_800_000
TO_MEMORY = {
    'format("console").option("truncate", False)': 'format("memory").queryName("quickstart")'
}


@pytest.fixture
def half_hours(flights: NotedStream) -> NotedStream:
    """Return departures every half hour from nine on; all before ten are noted."""
    times = pa.array([NINE + HALF_HOUR * n for n in range(4)], INSTANT)
    flights.append_table(0, pa.table({"departure": times, "origin": ["EWR"] * 4}))
    flights.marks.note("UA", TEN, {0: 4})
    return flights


@pytest.mark.usefixtures("half_hours")
def test_log_and_the_listener_of_the_spark_page_work(
    spark: SparkSession, controller: Served, output: QueryOutput, tmp_path: Path
) -> None:
    """The listener reports all four events to the controller."""
    page = Session(GUIDE, elsewhere(tmp_path, controller.url), spark=spark)
    names = page.run("flights = read_noted_log", "PositionListener(")
    output.catch_up(names["flights"].select("origin"))

    assert eventually(lambda: controller.read_group("flights", "hourly"), ({"0": 4}, []))
    spark.streams.removeListener(names["listener"])
    names["listener"].close()


def test_quickstart_has_the_results_it_states(
    spark: SparkSession, controller: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lima holds back the watermark at 9:25. Its order of 9:40 counts in the hour until 10:00."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    shell = Runner(tmp_path, controller.url)
    of_shell = {"sh", "console"}
    create, explain = (e for e in list_examples(read_page(QUICKSTART)) if e.language in of_shell)
    are_held: list[bool] = []
    quickstart = Session(QUICKSTART, {**elsewhere(tmp_path, controller.url), **TO_MEMORY})
    quickstart.names["input"] = lambda _: are_held.append(
        agrees(str(explain.shown), shell.run(explain))
    )
    shell.run(create)
    quickstart.run("SegmentLogWriter(", "ReaderClient(", "SparkSession.builder")
    spark.conf.set("spark.sql.shuffle.partitions", str(before))

    counts = spark.table("quickstart").select(F.hour("window.start"), "shop", "count")
    assert sorted(tuple(row) for row in counts.collect()) == [(9, "berlin", 60), (9, "lima", 2)]
    assert "lower=1357032300000" in capsys.readouterr().out
    assert are_held == [True]


def write_orders(root: Path) -> None:
    """Write the orders of the page: a hundred before nine and a hundred before ten."""
    placed_times = pa.array([NINE - HALF_HOUR] * 100 + [NINE + HALF_HOUR] * 100, INSTANT)
    directory = segment_directory(root, "orders", 0)
    directory.mkdir(parents=True)
    pq.write_table(pa.table({"placed": placed_times}), directory / file_name("orders", 0, 0))


def test_examples_of_the_backlog_page_run_as_printed(spark: SparkSession, tmp_path: Path) -> None:
    """The calls and the reader run first, then the query until it gives out both hours."""
    write_orders(tmp_path / "log")
    hours = tmp_path / "hours"
    stopping = threading.Event()

    def stop_when_out() -> None:
        while not (hours.exists() and sum(map(rows_in, hours.glob("*.parquet"))) == 2):
            stopping.wait(0.2)
        stopping.set()

    with ServeProcess(tmp_path).ready() as controller:
        runner = Runner(tmp_path, controller.url)
        for example in list_examples(read_page(BACKLOG)):
            if example.shown is not None:
                output = runner.run(example)
                assert agrees(example.shown, output), f"{example.program}\nprinted:\n{output}"
        waiting = threading.Thread(target=stop_when_out, daemon=True)
        waiting.start()
        places = elsewhere(tmp_path, controller.url)
        page = Session(BACKLOG, places, spark=spark, stopping=stopping)
        page.run("read_noted_log(", "is_behind(query)")

    counts = spark.read.parquet(str(hours)).select("count")
    assert collect_rows(counts) == [(100,), (100,)]


def rows_in(path: Path) -> int:
    """Return how many rows a file has that is whole, 0 if it is not yet."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowInvalid, OSError):
        return 0
