"""File logs that a client of a Connect server reads and derives."""

import os
import signal
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.query import StreamingQuery

from noted_time import Rejected
from noted_time_extensions.files import (
    Batches,
    Columns,
    NotedLogSink,
    read_complete,
    read_noted_log,
)
from spark_integration import Noted, WatermarkPolicy
from tests.support.noted_stream import NotedStream, table
from tests.support.queries import collect_rows
from tests.support.spark_sessions import wait_for_end
from tools.trials.served import Served
from tools.trials.starting import start_query
from tools.trials.waiting import eventually, wait_until
from writer_client import WriterClient

pytestmark = pytest.mark.shows("Spark Connect")


SCHEMA = "time TIMESTAMP, name STRING"


@pytest.fixture
def flights(tmp_path: Path, token_controller: Served) -> NotedStream:
    """Return a stream without any event."""
    return NotedStream(tmp_path / "log", "flights", token_controller)


ROWS = 200_000
"""Enough for four tasks."""


def test_complete_window_is_read_by_one_task_per_core(
    remote: SparkSession, flights: NotedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cores of the client's machine do not count.

    The client asks the controller, and the executors read the files.
    """
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    flights.append_table(0, table(*[(2000, "a")] * ROWS))
    flights.append(1, (1000, "b"), (3100, "c"))
    flights.marks.note("w", 3000, flights.position)
    window = read_complete(
        remote,
        flights.root,
        Noted("flights", controller=flights.server.url, token=flights.server.token),
        1500,
        3000,
        event_time="time",
    )
    tasks = window.groupBy(F.spark_partition_id(), "name").count().collect()

    assert [name for _, name, _ in tasks] == ["a", "a"]
    assert sum(count for _, _, count in tasks) == ROWS


class Counting:
    """A query that counts flights per second into the stream `counts`.

    Its clients record their process.
    """

    def __init__(self, spark: SparkSession, flights: NotedStream, directory: Path) -> None:
        self._flights = flights
        self._directory = directory
        self._checkpoint = str(directory / "counting")
        events = read_noted_log(
            spark,
            flights.root,
            Noted("flights", controller=flights.server.url),
            Batches(60),
            Columns(schema=SCHEMA),
            event_time="time",
            policy=WatermarkPolicy(strict=False),
        )
        self._counts = events.groupBy(F.window("time", "1 second")).count()

    def start(self, *, available_now: bool = False) -> StreamingQuery:
        """Start the query, or start it again."""
        flights = self._flights
        sink = NotedLogSink(
            flights.root, "counts", self._factory(), checkpoint_location=self._checkpoint
        )
        writer = self._counts.writeStream.foreachBatch(sink)
        if available_now:
            writer = writer.trigger(availableNow=True)
        return start_query(writer.option("checkpointLocation", self._checkpoint).start)

    def pid(self) -> int:
        """Return the id of the process that runs the batches."""
        file = self._directory / "pid"
        wait_until(lambda: file.exists() and file.read_text())
        return int(file.read_text())

    def ending_state(self) -> str:
        """Return the state of the writer when its client ended with its process."""
        file = self._directory / "ended"
        return file.read_text() if file.exists() else ""

    def _factory(self) -> Callable[[], WriterClient]:
        url = self._flights.server.url
        directory = self._directory

        class Telling(WriterClient):
            def _end_with_process(self, timeout_s: float) -> None:
                super()._end_with_process(timeout_s)
                (directory / "ended").write_text(self.state)

        def client() -> WriterClient:
            (directory / "pid").write_text(str(os.getpid()))
            return Telling("counts", "counter", controller=url)

        return client


def test_killed_process_derives_each_window_once(
    remote: SparkSession, flights: NotedStream, tmp_path: Path
) -> None:
    """The sink's client reads its token there, and ends with the query."""
    flights.server.stream("counts")
    counting = Counting(remote, flights, tmp_path)
    seconds = [(1000 * n, str(k)) for n in range(21) for k in range(n + 1)]
    flights.append(0, *seconds[:100])
    flights.note(12_000)
    query = counting.start()
    os.kill(counting.pid(), signal.SIGKILL)
    with pytest.raises(PySparkException):
        wait_for_end(query)
    flights.append(0, *seconds[100:])
    flights.note(20_000)
    wait_for_end(counting.start(available_now=True))

    derived_stream = remote.read.parquet(str(flights.root / "counts"))
    counts = collect_rows(derived_stream.select(F.unix_seconds("window.start"), "count"))
    assert counts == [(second, second + 1) for second in range(20)]
    assert eventually(counting.ending_state, "live")
    assert flights.server.get("counts")["marks"]["default"]["lower"] == 20_000


def test_sink_that_cannot_travel_says_why(
    remote: SparkSession, token_controller: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds a client of this process, or a token. A token of the environment is not sent."""
    token_controller.stream("counts")
    monkeypatch.setenv("NOTED_TIME_TOKEN", "nt_s3cr3t")
    writer = partial(WriterClient, "counts", "w", controller=token_controller.url)
    batches = remote.readStream.format("rate").load().writeStream

    def sink(client: WriterClient | Callable[[], WriterClient]) -> NotedLogSink:
        return NotedLogSink("/log", "counts", client, checkpoint_location="/checkpoint")

    with writer() as client, pytest.raises(Rejected, match=r'partial\(WriterClient, .*"counts"'):
        batches.foreachBatch(sink(client))
    with pytest.raises(Rejected, match="set NOTED_TIME_TOKEN in the environment of the Connect"):
        batches.foreachBatch(sink(partial(writer, token="nt_0th3r")))  # noqa: S106 - not a real one
    with closing(sink(writer)) as used:
        assert used._client.stream == "counts"
        assert b"s3cr3t" not in cloudpickle.dumps(used)  # type: ignore[no-untyped-call]
