"""The Spark examples of the guides. The pages of `tests/pages` are not repeated here."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time.filelog import file_name, segment_directory
from tests.support.kafka_judge import count_covered, judge_marks
from tests.support.noted_stream import INSTANT, NotedStream
from tests.support.page import BINDING, Runner, Session, agrees, list_examples, read_page
from tests.support.processes import ServeProcess
from tests.support.queries import collect_rows
from tests.support.query_output import QueryOutput
from tools.trials import java
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import eventually, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]


GUIDE, BACKLOG, QUICKSTART = (
    "docs/guides/spark.md",
    "docs/guides/backlog.md",
    "docs/start/quickstart.md",
)
NINE, TEN = 1_357_030_800_000, 1_357_034_400_000
HALF_HOUR = 1_800_000
HOURS = ("09:00", "09:59", "10:00")
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


def elsewhere(tmp_path: Path, url: str) -> dict[str, str]:
    """Return the addresses and paths that stand for the pages' own in a test."""
    urls = {"http://controller:7464": url, BINDING: url}
    return {**urls, "/data/": f"{tmp_path}/", '"log"': f'"{tmp_path}/log"'}


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


def write_orders(root: Path) -> None:
    """Write the orders of the page: a hundred before nine and a hundred before ten."""
    placed = pa.array([NINE - HALF_HOUR] * 100 + [NINE + HALF_HOUR] * 100, INSTANT)
    directory = segment_directory(root, "orders", 0)
    directory.mkdir(parents=True)
    pq.write_table(pa.table({"placed": placed}), directory / file_name("orders", 0, 0))


def test_examples_of_the_backlog_page_run_as_printed(spark: SparkSession, tmp_path: Path) -> None:
    """The calls and the reader run first, then the query until it gives out both hours."""
    write_orders(tmp_path / "log")
    hours, stopping = tmp_path / "hours", threading.Event()

    def stop_when_out() -> None:
        while not (hours.exists() and sum(map(rows_in, hours.glob("*.parquet"))) == 2):
            stopping.wait(0.2)
        stopping.set()

    with ServeProcess(tmp_path).ready() as controller:
        runner = Runner(tmp_path, controller.url)
        for example in list_examples(read_page(BACKLOG)):
            if example.shown is not None:
                printed = runner.run(example)
                assert agrees(example.shown, printed), f"{example.program}\nprinted:\n{printed}"
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


def send(broker: Broker, topic: str, rows: Sequence[str]) -> None:
    """Send values to a partition of a new topic."""
    broker.create(topic)
    broker.send(topic, [(0, value, 0) for value in rows])


def test_function_of_the_page_maps_two_topics_to_segments() -> None:
    """Partition 1 of `tb` is segment 101."""
    position = Session(GUIDE, {}).run("def position(offset)")["position"]

    ends = {"ta": {"0": 7, "1": 5}, "tb": {"1": 3}}
    assert position(ends) == {0: 7, 1: 5, 101: 3}


@pytest.fixture
def guide(spark: SparkSession, broker: Broker, served: Served, tmp_path: Path) -> Session:
    """Return the page with the addresses and paths of a test."""
    places = {"kafka:9092": broker.address, **elsewhere(tmp_path, served.url)}
    return Session(GUIDE, places, spark=spark)


def test_query_of_the_page_gives_out_an_hour_once_it_is_over(
    spark: SparkSession, guide: Session, broker: Broker, served: Served, tmp_path: Path
) -> None:
    """The same query with a delay of six hours has no output yet."""
    rows = [f'{{"departure": "2013-01-01T{hour}:00Z", "origin": "EWR"}}' for hour in HOURS]
    send(broker, "flights", rows)
    served.create("flights")
    served.note("flights", TEN + 1, {"0": len(rows)})
    flights = guide.run("records = topic.")["flights"].withWatermark("departure", "6 hours")
    counted = flights.groupBy(F.window("departure", "1 hour"), "origin").count().writeStream
    guessed_at = counted.option("checkpointLocation", str(tmp_path / "guessed-counts"))
    guessed = guessed_at.format("parquet").start(str(tmp_path / "guessed-hourly"))
    guessed.processAllAvailable()
    query = guide.run("timed.groupBy")["query"]

    assert eventually(lambda: read_counts(spark, tmp_path / "hourly"), [(NINE, 2)])
    assert read_counts(spark, tmp_path / "guessed-hourly") == []
    query.stop()
    guessed.stop()


def test_union_of_the_page_counts_every_row_of_two_topics(
    guide: Session, broker: Broker, served: Served, tmp_path: Path, output: QueryOutput
) -> None:
    """The refusals name this remedy. The departures are an hour behind."""
    for name, noted in ("arrivals", 2 * TEN - NINE), ("departures", TEN + 1):
        rows = [f'{{"at": "2013-01-01T{hour}:00Z", "airport": "EWR"}}' for hour in HOURS]
        send(broker, name, rows)
        served.create(name)
        served.note(name, noted, {"0": len(rows)})
    counts = guide.run("movements =")["movements"]
    hourly = counts.groupBy(F.window("at", "1 hour")).count()
    output.checkpoint = tmp_path / "movements"
    output.catch_up(hourly.select(F.unix_millis("window.start"), "count"))

    assert output.rows == [(NINE, 4)]


def read_counts(spark: SparkSession, directory: Path) -> list[tuple[object, ...]]:
    """Return (start of the window, count) of each row that a query has committed there."""
    if not (directory / "_spark_metadata" / "0").exists():
        return []
    schema = "window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, count LONG"
    counts = spark.read.schema(schema).parquet(str(directory))
    return collect_rows(counts.select(F.unix_millis("window.start"), "count"))


@pytest.mark.skipif(java.compiler() is None, reason=java.MISSING)
def test_notes_of_the_pages_sink_cover_its_rows_over_a_restart(
    spark: SparkSession, broker: Broker, controller: Served, tmp_path: Path
) -> None:
    """Two tasks of a micro-batch share one producer, and so does the restarted query."""
    broker.create("raw")
    broker.create("counts")
    controller.create("counts")
    reading = {"subscribe": "raw", "kafka.bootstrap.servers": broker.address}
    reading |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
    raw = spark.readStream.format("kafka").options(**reading).load()
    places = {
        "127.0.0.1:9092": broker.address,
        BINDING: controller.url,
        '"kafka.noted.time.delay.ms", 1000': '"kafka.noted.time.period.ms", 50',
        "counts-checkpoint": str(tmp_path / "checkpoint"),
    }
    page = Session("docs/guides/java.md", places, counts=raw.select("value"))
    for _ in range(2):
        broker.send("raw", [(row % 2, "any", 0) for row in range(400)])
        query = page.run("kafka.interceptor.classes")["query"]
        query.processAllAvailable()
        query.stop()

    wait_until(lambda: count_covered(controller, "counts") == 800)
    assert judge_marks(broker, "counts", controller=controller).violations == ()
    assert len(controller.writers("counts")) == 1
