"""The examples of the page about backlogs, also in Spark."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from noted_time.filelog import file_name, segment_directory
from tests.support.page import BINDING, Runner, Session, agrees, list_examples, read_page
from tests.support.processes import ServeProcess
from tests.support.queries import collect_rows

pytestmark = pytest.mark.spark

PAGE = "docs/guides/backlog.md"
EIGHT, NINE = (datetime(2013, 1, 1, hour, 30, tzinfo=UTC) for hour in (8, 9))


def write_orders(root: Path) -> None:
    """Write the orders of the page: a hundred before nine and a hundred before ten."""
    placed = pa.array([EIGHT] * 100 + [NINE] * 100, pa.timestamp("ms", tz="UTC"))
    directory = segment_directory(root, "orders", 0)
    directory.mkdir(parents=True)
    pq.write_table(pa.table({"placed": placed}), directory / file_name("orders", 0, 0))


def test_examples_run_as_printed(spark: SparkSession, tmp_path: Path) -> None:
    """The calls and the reader run first, then the query until it gives out both hours."""
    write_orders(tmp_path / "log")
    hours, stopping = tmp_path / "hours", threading.Event()

    def stop_when_out() -> None:
        while not (hours.exists() and sum(map(rows_in, hours.glob("*.parquet"))) == 2):
            stopping.wait(0.2)
        stopping.set()

    with ServeProcess(tmp_path).ready() as controller:
        runner = Runner(tmp_path, controller.url)
        for example in list_examples(read_page(PAGE)):
            if example.shown is not None:
                printed = runner.run(example)
                assert agrees(example.shown, printed), f"{example.program}\nprinted:\n{printed}"
        waiting = threading.Thread(target=stop_when_out, daemon=True)
        waiting.start()
        places = {"http://controller:7464": controller.url, "/data/": f"{tmp_path}/"}
        page = Session(PAGE, {BINDING: controller.url, **places}, spark=spark, stopping=stopping)
        page.run("read_noted_log(", "is_behind(query)")

    counts = spark.read.parquet(str(hours)).select("count")
    assert collect_rows(counts) == [(100,), (100,)]


def rows_in(path: Path) -> int:
    """Return how many rows a file has that is whole, 0 if it is not yet."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowInvalid, OSError):
        return 0
