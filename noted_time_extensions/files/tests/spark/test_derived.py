"""Streams that a query derives from another, and queries that read them."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import InvalidNote, Rejected
from noted_time_extensions.files import NotedLogSink, SegmentLogWriter
from noted_time_extensions.files.layout import ForeignFile
from spark_integration.marks.watermark import LAST_MS
from tests.support.offset_log import plan
from tests.support.page import Session
from tests.support.query_output import QueryOutput
from tools.trials.served import Served
from tools.trials.waiting import eventually
from writer_client import WriterClient
from writer_client.extending import end_client

pytestmark = [pytest.mark.spark, pytest.mark.shows("NotedLogSink")]


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a controller that has the flights, and the counts derived from them."""
    with Served() as served:
        for stream in ("flights", "counts"):
            served.create(stream)
        yield served


class Sinks:
    """Makes sinks of the stream `counts`, with a checkpoint that the test writes itself."""

    def __init__(self, spark: SparkSession, served: Served, directory: Path) -> None:
        self.spark = spark
        self.served = served
        self.directory = directory
        self.client = self.make_client()

    def make_client(self) -> WriterClient:
        """Return a client for the writer `counter`, as each run of the program makes one."""
        return WriterClient("counts", "counter", controller=self.served.url)

    def __call__(
        self,
        time_of: str = "window.end",
        client: Callable[[], WriterClient] | None = None,
        **options: Any,  # noqa: ANN401 - as the sink's
    ) -> NotedLogSink:
        """Return a sink."""
        return NotedLogSink(
            self.directory / "log",
            "counts",
            client or self.client,
            time_of,
            checkpoint_location=str(self.directory / "checkpoint"),
            **options,
        )

    def plan(self, batch_id: int, watermark: int) -> None:
        """Write what Spark writes of a batch before it runs it."""
        about = {"batchWatermarkMs": watermark}
        plan(self.directory / "checkpoint", batch_id, {}, metadata=about)

    def windows(self, *seconds: int) -> DataFrame:
        """Return a count of 1 for each of these seconds."""
        times = self.spark.createDataFrame([(second,) for second in seconds], "second INT")
        stamped_times = times.select(F.timestamp_seconds("second").alias("time"))
        return stamped_times.groupBy(F.window("time", "1 second")).count()

    def take(
        self, batch_id: int, watermark: int, *seconds: int, sink: NotedLogSink | None = None
    ) -> None:
        """Plan a batch, give a sink its windows, and wait until its notes are durable."""
        self.plan(batch_id, watermark)
        (sink or self())(self.windows(*seconds), batch_id)
        self.client.flush()

    @property
    def state(self) -> str:
        """The state of the writer at the controller."""
        return str(self.served.writers("counts")["counter"]["state"])

    def get_last_mark(self) -> tuple[int, dict[str, int]]:
        """Return the lower and the cut of the last mark."""
        mark = self.served.call("GET", "/counts")["marks"]["default"]
        return mark["lower"], mark["cut"]

    def get_seal_cut(self) -> dict[str, int] | None:
        """Return the cut of the seal, `None` without one."""
        seal = self.served.call("GET", "/counts")["seal"]
        return seal and dict(seal["cut"])


@pytest.fixture
def sinks(spark: SparkSession, served: Served, tmp_path: Path) -> Iterator[Sinks]:
    """Return how a test makes sinks."""
    new_sinks = Sinks(spark, served, tmp_path)
    yield new_sinks
    end_client(new_sinks.client, 2.0)


class Killed(BaseException):
    """The process ends here."""


def build_death(step: str) -> Callable[..., NoReturn]:
    """Return a call of a client that ends the process, before the call or after the seal."""
    seal = WriterClient.seal

    def die(client: WriterClient, *_: object, **__: object) -> NoReturn:
        if step == "commit":
            seal(client)
        raise Killed

    return die


def test_rerun_batch_only_notes(sinks: Sinks) -> None:
    """The same sink or one of a restart runs the batch. The position covers the appended rows."""
    sinks.plan(0, 0)
    for sink in (sinks(), sinks()):
        sinks.take(1, 5000, 1, 3, sink=sink)

    rows = sinks.spark.read.parquet(str(sinks.directory / "log" / "counts"))
    assert (rows.count(), sinks.get_last_mark()) == (2, (5000, {"0": 2}))


def test_empty_batch_notes_and_batch_without_watermark_does_not(sinks: Sinks) -> None:
    """Spark states 0 until it has a watermark. The delay is subtracted from each watermark."""
    sink = sinks(delay_ms=100)
    lowers = []
    for batch_id, watermark in enumerate([0, 5000, 6000]):
        sinks.take(batch_id, watermark, sink=sink)
        lowers.append(last_lower(sinks.served, "counts"))

    assert lowers == [None, 4900, 5900]


def test_unreachable_controller_holds_up_no_batch_after_joining(sinks: Sinks) -> None:
    """The rows are appended at once, and noted later."""
    sink = sinks()
    sinks.take(0, 5000, 3, sink=sink)
    sinks.served.stop()
    sinks.plan(1, 7000)
    sink(sinks.windows(6), 1)
    sinks.served.start()
    sinks.client.flush(60)

    assert sinks.get_last_mark() == (7000, {"0": 2})


def test_refused_note_fails_a_later_batch(sinks: Sinks) -> None:
    """Here a query starts again with a new checkpoint, below the last noted time of the writer."""
    sinks.client.note_time(9000, {})
    sinks.client.flush()
    sinks.client.close()
    sinks.client = sinks.make_client()
    sink = sinks()

    def run() -> None:
        for batch_id in count():
            sinks.plan(batch_id, 5000)
            sink(sinks.windows(), batch_id)

    with pytest.raises(InvalidNote):
        run()


@pytest.mark.parametrize("step", ["", "note_time", "finish", "seal", "commit"])
def test_end_of_a_sealed_source_ends_the_derived_stream(sinks: Sinks, step: str) -> None:
    """It ends with the sink's rows, after a kill at any step. The next batch is empty."""
    sinks.take(0, 5000, 3)
    sinks.plan(1, LAST_MS)
    if step:
        method = "seal" if step == "commit" else step
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(WriterClient, method, build_death(step))
            with pytest.raises(Killed):
                sinks(seal=True)(sinks.windows(6, 7), 1)
        sinks.client.close()
    for rows, batch_id in (((6, 7), 1), ((), 2)):
        sinks.client = sinks.make_client()
        sinks.take(batch_id, LAST_MS, *rows, sink=sinks(seal=True))

    assert (sinks.get_seal_cut(), sinks.get_last_mark(), sinks.state) == (
        {"0": 3},
        (8001, {"0": 3}),
        "finished",
    )


def test_derived_stream_with_other_writers_is_not_sealed(sinks: Sinks) -> None:
    """Only the sink's own writer finishes."""
    sinks.served.note("counts", 4000, {"1": 1})
    sinks.take(0, LAST_MS, 3, 7, sink=sinks(seal=True))
    before = last_lower(sinks.served, "counts")
    sinks.served.note("counts", 9000, {"1": 2})

    final_state = before, last_lower(sinks.served, "counts"), sinks.state
    assert final_state == (4000, 9000, "finished")


def test_sink_without_seal_notes_the_end_of_its_rows(sinks: Sinks) -> None:
    """The writer does not note the end of time, because others may still write to the stream."""
    sinks.take(0, LAST_MS, 3, 7)

    final_state = last_lower(sinks.served, "counts"), sinks.get_seal_cut(), sinks.state
    assert final_state == (8001, None, "finished")


def test_last_windows_in_the_future_end_the_derived_stream(sinks: Sinks) -> None:
    """The end of today's window cannot be noted yet, but the seal covers its row."""
    in_two_days = int(time.time()) + 2 * 86_400
    sinks.take(0, LAST_MS, 3, in_two_days, sink=sinks(seal=True))

    assert (sinks.get_seal_cut(), sinks.state) == ({"0": 2}, "finished")


def test_last_rows_refused_by_a_sealed_stream_fail_the_query(sinks: Sinks) -> None:
    """An operator sealed the stream before they were appended."""
    sinks.take(0, 5000, 3)
    sinks.served.call("POST", "/counts/seal")
    sinks.client = sinks.make_client()

    with pytest.raises(InvalidNote, match="sealed"):
        sinks.take(1, LAST_MS, 7)


def test_impossible_promise_of_a_sink_is_refused(sinks: Sinks) -> None:
    sinks.plan(0, 5000)
    batch = sinks.windows(1)
    with pytest.raises(Rejected, match=r"use window\.end, or window_time\(window\)"):
        sinks("window.start")(batch, 0)
    with pytest.raises(Rejected, match="it is at batch 0, and this is batch 3"):
        sinks()(batch, 3)
    with pytest.raises(Rejected, match="column window_end is taken"):
        sinks()(batch.withColumn("window_end", F.lit(1)), 0)
    with pytest.raises(Rejected, match="no event-time column 'at'"):
        sinks("at")(batch, 0)
    with pytest.raises(Rejected, match="delay_ms must be 0 or more"):
        sinks(delay_ms=-1)
    with pytest.raises(Rejected, match="the client writes to stream 'counts', not 'sums'"):
        NotedLogSink("/log", "sums", sinks.client, checkpoint_location="/checkpoint")


def test_sink_leaves_out_ignored_files_of_its_log(sinks: Sinks) -> None:
    sinks.take(0, 5000, 1)
    (sinks.directory / "log/counts/partition=0/all.csv").touch()
    with pytest.raises(ForeignFile, match=r"ignore=\['all\.csv'\]"):
        sinks.take(1, 6000, 5, sink=sinks())
    sinks.take(1, 6000, 5, sink=sinks(ignore=["*.csv"]))

    assert sinks.get_last_mark() == (6000, {"0": 2})


def test_sink_makes_its_client_with_the_first_batch_and_ends_it(sinks: Sinks) -> None:
    """The client serves all runs of the query in this process, until the sink is closed."""
    clients: list[WriterClient] = []

    def client() -> WriterClient:
        clients.append(sinks.make_client())
        return clients[-1]

    sink = sinks(client=client)
    with closing(sink), ThreadPoolExecutor() as callbacks:  # a query never runs in the main thread
        for batch_id, watermark in enumerate([5000, 6000]):
            sinks.plan(batch_id, watermark)
            callbacks.submit(sink, sinks.windows(), batch_id).result()

    assert [client.state for client in clients] == ["live"]
    assert last_lower(sinks.served, "counts") == 6000
    with pytest.raises(Rejected, match="closed"):
        clients[0].join()


def test_examples_of_the_page_derive_minutes_and_hours(
    spark: SparkSession, served: Served, output: QueryOutput, tmp_path: Path
) -> None:
    """The minute that ends at ten belongs to the hour from nine. The filter goes idle at ten."""
    served.create("per-minute")
    served.create("cleaned")
    with WriterClient("flights", "UA", controller=served.url) as client:
        log = SegmentLogWriter(tmp_path / "log", "flights", client=client, event_time="departure")
        times = [NINE, NINE + timedelta(seconds=20), NINE + timedelta(minutes=59, seconds=59)]
        log.append([{"departure": time, "origin": "EWR"} for time in times])
        log.note_time(NINE + timedelta(hours=1))
    elsewhere = {"http://controller:7464": served.url, "/data/": f"{tmp_path}/", "60_000": "500"}
    page = Session("docs/guides/derived-streams.md", elsewhere, spark=spark).run()
    lower = NINE_MS + 3_600_000
    try:
        assert eventually(lambda: last_lower(served, "per-minute"), lower)
        assert eventually(lambda: last_lower(served, "cleaned"), lower)
        assert eventually(lambda: page["cleaner"].state, "idle")
    finally:
        for query in "counting", "cleaning":
            page[query].stop()
        page["client"].close()
        page["cleaner"].close()
    output.catch_up(page["hourly"].select(F.unix_millis("window.start"), "origin", "sum(count)"))

    assert output.rows == [(NINE_MS, "EWR", 3)]


NINE = datetime(2013, 1, 1, 9, tzinfo=UTC)
NINE_MS = 1_357_030_800_000


def last_lower(served: Served, stream: str) -> int | None:
    """Return the lower of the last mark of a stream."""
    mark = served.call("GET", f"/{stream}")["marks"]["default"]
    lower: int | None = mark and mark["lower"]
    return lower
