"""Late rows that are kept: the read has them all, and Spark drops no other row."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from noted_time import Rejected
from noted_time_extensions.files import Batches, Columns, split_late
from noted_time_extensions.files.spark.log_rows import build_scan_schema
from noted_time_extensions.files.tests.support.log_reading import Batch, build_query, read_batches
from noted_time_extensions.files.tests.support.reads import Reads
from tests.support.disorder import Step, disorder, replay
from tests.support.noted_stream import NotedStream
from tests.support.page import BINDING, Session
from tests.support.queries import collect_rows, count_per_second, read_all
from tests.support.query_output import QueryOutput
from tools.trials.served import Served

pytestmark = pytest.mark.shows("split_late")

EVENTS = StructType([StructField("time", TimestampType()), StructField("name", StringType())])


def break_promises(stream: NotedStream, steps: list[Step], chance: random.Random) -> None:
    """Replay the steps, and break the writers' promises with some rows."""
    for step in steps:
        replay(stream, [step])
        if chance.random() < 0.3:
            stream.append(step.segment, (chance.randrange(step.time), "late"), writer="other")


def run_query(flights: NotedStream, seed: int, rows: int, *, keeps: bool) -> list[Batch]:
    """Return the batches of a query that reads while the writers write."""
    steps = disorder(seed)
    chance = random.Random(seed)
    batches_found = list[Batch]()
    flights.join("w0", "w1", "w2")
    query = build_query(flights, Columns(late="keep"), Batches(rows))
    for first in range(0, len(steps), 6):
        some_steps = steps[first : first + 6]
        if keeps:
            replay(flights, some_steps)
        else:
            break_promises(flights, some_steps, chance)
        batches_found += read_batches(query, batches_found[-1].end if batches_found else None)
    if not keeps:
        flights.append(0, (27_999, "late"), (28_000, "in time"))
        batches_found += read_batches(query, batches_found[-1].end)
    return batches_found


@pytest.mark.parametrize("seed", range(2))
def test_rows_below_the_lower_sent_before_their_batch_are_late(
    flights: NotedStream, seed: int
) -> None:
    """Rows are appended and noted between the batches."""
    batches = run_query(flights, seed, 30, keeps=False)

    assert sum(len(batch.rows) for batch in batches) == sum(flights.position.values())
    for before, batch in pairwise(batches):
        lower = before.read.mark.lower
        assert batch.late == [time for time, _ in batch.rows if lower is not None and time < lower]
    assert (batches[0].late, batches[-1].late, len(batches[-1].rows)) == ([], [27_999], 2)


@pytest.mark.parametrize("seed", range(2))
def test_no_row_of_writers_that_keep_their_promises_is_late(
    flights: NotedStream, seed: int
) -> None:
    """The batches have several sizes, and each may admit several marks."""
    batches = run_query(flights, seed, 7 + 60 * seed, keeps=True)

    assert [batch.late for batch in batches if batch.late] == []


def parts(events: DataFrame) -> DataFrame:
    """Return (part, second, rows) for kept rows, rows in time, and late rows."""
    in_time, late = split_late(events)
    seconds = late.select(F.unix_seconds(F.date_trunc("second", "time")), F.lit(1).cast("long"))
    return (
        count_per_second(events.drop("_late"))
        .select(F.lit("kept"), "second", "count")
        .union(count_per_second(in_time).select(F.lit("in time"), "second", "count"))
        .union(seconds.select(F.lit("late"), "*"))
    )


def sum_part(output: QueryOutput, part: str) -> Counter[int]:
    """Return the rows per second of one part."""
    seconds: Counter[int] = Counter()
    for name, second, count in output.rows:
        if name == part:
            seconds[int(str(second))] += int(str(count))
    return seconds


@pytest.mark.spark
def test_rows_in_time_and_late_rows_are_all_rows(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """The query restarts. Rows that only Spark drops are late."""
    steps = disorder(7)
    chance = random.Random(7)
    flights.join("w0", "w1", "w2")
    events = read(flights.begin_log(), Columns(late="keep"), Batches(120))
    break_promises(flights, steps[:18], chance)
    output.catch_up(parts(events))
    break_promises(flights, steps[18:], chance)
    for writer in ("w0", "w1", "w2"):
        flights.note(60_000, writer)
    output.catch_up(parts(events))

    every = Counter(int(row.time.timestamp()) for row in read_all(read.spark, flights).collect())
    kept_rows, in_time, late = (sum_part(output, part) for part in ("kept", "in time", "late"))
    assert in_time + late == every
    assert every - kept_rows <= late
    assert late.total() > 0
    assert kept_rows.total() < every.total()


@pytest.mark.spark
def test_late_rows_are_read_under_no_watermark(read: Reads, flights: NotedStream) -> None:
    """No operator drops them, and both results have the columns of the log."""
    in_time, late = split_late(read(flights.begin_log(), Columns(late="keep")))

    assert (in_time.columns, late.columns) == (["time", "name"], ["time", "name"])
    assert (dict(in_time.schema["time"].metadata), dict(late.schema["time"].metadata)) == (
        {"spark.watermarkDelayMs": 0},
        {},
    )


@pytest.mark.spark
def test_events_without_late_column_cannot_be_split(read: Reads, flights: NotedStream) -> None:
    """A log with a column of that name is refused, too."""
    with pytest.raises(Rejected, match=r'read them with Columns\(late="keep"\)'):
        split_late(read(flights.begin_log()))
    with pytest.raises(Rejected, match="column _late of the log is taken"):
        build_scan_schema(
            build_query(flights, Columns(late="keep")),
            StructType([*EVENTS.fields, StructField("_late", StringType())]),
        )


@pytest.mark.spark
def test_example_of_the_page_separates_hours_and_late_rows(
    read: Reads, flights: NotedStream, controller: Served, tmp_path: Path
) -> None:
    """Two departures of the hour are counted. One comes later, and is kept as late."""
    flights.append_table(0, departures(NINE, NINE + timedelta(minutes=30)))
    flights.marks.note("UA", TEN_MS, {0: 2})
    elsewhere = {
        BINDING: controller.url,
        '"hourly"': f'"{flights.name}"',
        '"log"': f'"{flights.root}"',
        'parquet(f"': f'parquet(f"{tmp_path}/',
        '"hours-and-late"': f'"{tmp_path}/checkpoint"',
    }
    page = Session("docs/guides/complete-windows.md", elsewhere)
    page.run("split_late(events)")
    assert read_hour_counts(read, tmp_path / "counted") == [(2,)]
    flights.append_table(0, departures(NINE + timedelta(minutes=59)))
    page.run("split_late(events)")

    late = read.spark.read.parquet(str(tmp_path / "late"))
    assert collect_rows(late.select(F.minute("departure"), "origin")) == [(59, "EWR")]
    assert read_hour_counts(read, tmp_path / "counted") == [(2,)]


NINE = datetime(2013, 1, 1, 9, tzinfo=UTC)
TEN_MS = 1_357_034_400_000


def departures(*times: datetime) -> pa.Table:
    """Return departures from EWR."""
    instants = pa.array(times, pa.timestamp("ms", tz="UTC"))
    return pa.table({"departure": instants, "origin": ["EWR"] * len(times)})


def read_hour_counts(reads: Reads, table: Path) -> list[tuple[object, ...]]:
    """Return the counts of the hours in the batches of a table that are whole."""
    whole_folders = [str(path.parent) for path in table.glob("*/_SUCCESS")]
    batches = [reads.spark.read.parquet(path).select("count") for path in whole_folders]
    return [row for batch in batches for row in collect_rows(batch)]
