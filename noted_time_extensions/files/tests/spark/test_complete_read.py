"""Batch reads of a window of a file log: they have exactly its rows, and read little else."""

import json
import socket
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from noted_time import Rejected, RowsMissing
from noted_time.values import DAY_MS
from noted_time_extensions.files.layout import APPEND_KEY, file_name, segment_directory
from noted_time_extensions.files.spark.log_files import CutRange, LogFiles
from noted_time_extensions.files.tests.support.hourly_log import HOUR, read_between, write_hours
from noted_time_extensions.files.tests.support.log_reading import read_window
from spark_integration import BatchRead, Noted
from spark_integration.marks.window import wait_for_window
from tests.support.hostile import HostileServer, answer
from tests.support.noted_stream import NotedStream
from tests.support.page import Runner, list_examples, read_page
from tools.trials.served import Served

pytestmark = pytest.mark.shows("read_complete")


def test_hour_out_of_a_month_reads_little_more_than_the_hour(flights: NotedStream) -> None:
    """It reads at most 1.2 times the rows, and those between two marks at either end."""
    write_hours(flights, 24 * 30)
    start = 24 * 15 * HOUR
    between_marks = 10
    row_counts = [
        read_window(flights, start, start + HOUR, own_segments=own_segments)[-1]
        for own_segments in (False, True)
    ]

    assert [20 <= rows <= 1.2 * 20 + 2 * between_marks for rows in row_counts] == [True, True], (
        row_counts
    )


def test_own_segments_open_no_files_below_the_start_cut(flights: NotedStream) -> None:
    """The old files may have another schema by now. Without own segments, all files are opened."""
    write_hours(flights, 6)
    first = min(flights.root.glob("flights/partition=0/*"))
    first.write_bytes(b"no Parquet")

    assert read_window(flights, 4 * HOUR, 5 * HOUR, own_segments=True)[-1] > 0
    with pytest.raises(Rejected, match="not a whole Parquet file"):
        read_window(flights, 4 * HOUR, 5 * HOUR)


@pytest.mark.spark
@pytest.mark.parametrize("shared", [False, True])
def test_consecutive_hours_give_each_row_once(
    spark: SparkSession, flights: NotedStream, *, shared: bool
) -> None:
    """The writers may share a segment."""
    write_hours(flights, 6, is_shared=shared)
    rows_found = []
    for hour in range(6):
        own_segments = not shared and hour % 2 == 1
        frame = read_between(
            spark, flights, hour * HOUR, (hour + 1) * HOUR, own_segments=own_segments
        )
        rows_found += [(row.time.replace(tzinfo=UTC), row.name) for row in frame.collect()]
    whole_frame = spark.read.parquet(str(flights.root / "flights"))
    end = datetime(1970, 1, 1, 6, tzinfo=UTC)
    rows = [(row.time.replace(tzinfo=UTC), row.name) for row in whole_frame.collect()]

    assert sorted(rows_found) == sorted(row for row in rows if row[0] < end)


@pytest.mark.spark
def test_recreated_stream_has_every_row_after_a_wrong_offset(
    spark: SparkSession, flights: NotedStream, tmp_path: Path
) -> None:
    """The commands of the page are run. Then each row is in the window of its time."""
    times = [(time, f"{time}") for time in (0, 1, 2, 3, 5, 6, 7, 10, 11, 12)]
    flights.append(0, *times, writer="w")
    flights.marks.note("w", 5, {0: 4}, max_time=3)
    flights.marks.note("w", 15, {0: 10**6}, max_time=12)
    page = Runner(tmp_path, flights.server.url, {"trips": "flights"})
    for example in list_examples(read_page("docs/guides/symptoms.md")):
        if example.program.startswith("noted-time stream ") and "trips" in example.program:
            page.run(example)
    flights.marks.note("w", 0, {0: 0})
    flights.marks.note("w", 15, {0: 10}, max_time=12)
    frames = [read_between(spark, flights, n, n + 5, own_segments=True) for n in (0, 5, 10)]

    assert [len(frame.collect()) for frame in frames] == [4, 3, 3]


@pytest.mark.spark
def test_columns_and_schema_are_those_asked_for(spark: SparkSession, flights: NotedStream) -> None:
    """The event time is always included. Integers are read in the unit that is given."""
    rows = pa.table({"time": [1, 7], "name": ["a", "b"], "other": [True, False]})
    flights.append_table(0, rows)
    flights.marks.note("w", 5, {0: 2}, max_time=7)
    some_rows = read_between(spark, flights, 0, 5, columns=["name"], unit="ms")
    rows_by_schema = read_between(spark, flights, 0, 5, schema=some_rows.schema, unit="ms")

    assert [row.asDict() for row in some_rows.collect()] == [
        {"name": "a", "time": datetime(1970, 1, 1, 0, 0, 0, 1000)}  # noqa: DTZ001 - as Spark's
    ]
    assert rows_by_schema.collect() == some_rows.collect()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("gone", "says"),
    [
        ("partition=0", "host {} does not see .*partition=0: the log's root must be a path under"),
        ("partition=0/*", "was deleted after it was listed, while host {} sees its directory"),
    ],
)
def test_file_missing_on_a_worker_is_named_with_its_host(
    spark: SparkSession, flights: NotedStream, gone: str, says: str
) -> None:
    """The worker has another root than the driver, or the file was deleted after planning."""
    write_hours(flights, 2)
    rows = read_between(spark, flights, 0, HOUR).rdd
    rows.getNumPartitions()
    for path in (flights.root / "flights").glob(gone):
        path.rename(flights.root / f"_{path.name}")

    with pytest.raises(PySparkException, match=says.format(socket.gethostname())):
        rows.collect()


def test_refused_window_has_its_missing_writers_and_late_rows(served: Served) -> None:
    served.post("flights", {"writer": "shop", "time": 1}, {"writer": "depot", "time": 5})
    served.call("DELETE", "/flights/writers/shop")
    served.post("flights", {"writer": "depot", "time": 9})
    served.post(
        "flights", {"writer": "depot", "late_rows": {"rows": 112, "min_time": 5, "max_time": 6}}
    )
    noted_stream = Noted("flights", controller=served.url)
    batch_read = BatchRead(missing="fail")
    with pytest.raises(RowsMissing) as refusal:
        wait_for_window(noted_stream, 1, 9, domain=None, read=batch_read, late="warn")

    missing = refusal.value.missing
    late = refusal.value.late
    assert [(writer.writer, writer.last_time) for writer in missing.writers] == [("shop", 1)]
    assert [(writer.writer, writer.rows) for writer in late.writers] == [("depot", 112)]


def test_window_survives_outage_after_verdict(served: Served) -> None:
    served.note("flights", 5, {"0": 1})
    verdict = served.call("POST", "/flights/completeness", {"to": 5})
    answers = iter([answer(json.dumps(verdict).encode())])
    with HostileServer(served.url, lambda: answers, lambda: iter([answer(b"", 503)])) as server:
        noted_stream = Noted("flights", controller=server.url)
        batch_read = BatchRead(timeout=60)
        window = wait_for_window(noted_stream, 0, 5, domain="default", read=batch_read, late="warn")

    assert (window.end, len(server.sent)) == (5, 2)


@pytest.mark.parametrize("zone", ["UTC", None])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_statistics_of_every_unit_are_understood(
    tmp_path: Path, unit: str, zone: str | None
) -> None:
    """Files without such times are not read. Times without a zone may be a day away from UTC.

    So it is in a file of our writer, whose stream may state a form.
    """
    plain = pa.array([-1500, 2000], pa.timestamp("ms")).cast(pa.timestamp(unit), safe=False)
    times = plain.cast(pa.timestamp(unit, zone))
    path = segment_directory(tmp_path, "flights", 0)
    path.mkdir(parents=True)
    rows = pa.table({"time": times}).replace_schema_metadata({APPEND_KEY: b"ours"})
    pq.write_table(rows, path / file_name("flights", 0, 0))
    files = LogFiles(tmp_path, "flights", between=CutRange({}, {0: 2}, "time")).refresh()

    min_time = -1000 if unit == "s" else -1500
    margin = 0 if zone else DAY_MS
    (group,) = files[0][0].groups
    assert (group.least, group.most) == (min_time - margin, 2000 + margin)
