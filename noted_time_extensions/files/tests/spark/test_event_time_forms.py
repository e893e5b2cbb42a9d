"""Columns that can be read in several ways: the observer and each reader read the same instants."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time import Rejected
from noted_time.observing import IN_MS, TimeForm
from noted_time.values import EventTimeForm, parse_zone
from noted_time_extensions.files import Columns, LogTimes
from noted_time_extensions.files.tests.support.hourly_log import read_between
from noted_time_extensions.files.tests.support.reads import Reads
from tests.support.noted_stream import NotedStream
from tests.support.query_output import QueryOutput
from writer_client import EventTimeNoter, WriterClient

pytestmark = [pytest.mark.spark, pytest.mark.shows("read_noted_log", "read_complete")]

NEW_YORK = TimeForm(zone=parse_zone("America/New_York"))
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTES = [NOON.replace(tzinfo=None) - timedelta(hours=5) + timedelta(minutes=n) for n in range(60)]
"""An hour from noon in UTC, on the clock of New York."""


class Observed:
    """A log of a stream, and one observer that notes its times by a form."""

    def __init__(self, stream: NotedStream, form: TimeForm) -> None:
        self.stream = stream
        self.client = WriterClient(stream.name, "observer", controller=stream.server.url)
        times = LogTimes(stream.root, stream.name, "time", form=form)
        self.noter = EventTimeNoter(self.client, times, delay_ms=0)

    def append(self, values: Sequence[object], kind: pa.DataType) -> None:
        """Append one file, and note its newest time."""
        self.stream.append_table(0, pa.table({"time": pa.array(values, kind)}))
        self.noter.look()
        self.client.flush()


@pytest.fixture
def shift(flights: NotedStream) -> Iterator[Observed]:
    """Return three hours of local times, of which the last two end the first."""
    observed_stream = Observed(flights, NEW_YORK)
    for hour in range(3):
        later_times = [minute + timedelta(hours=hour) for minute in MINUTES]
        observed_stream.append(later_times, pa.timestamp("us"))
    yield observed_stream
    observed_stream.client.close()


def count_per_ten_minutes(reads: Reads, stream: NotedStream, *columns: Columns) -> DataFrame:
    windows = reads(stream, *columns).groupBy(F.window("time", "10 minutes")).count()
    return windows.select(F.unix_millis("window.start"), "count")


def test_local_times_are_in_the_closed_windows(
    read: Reads, shift: Observed, output: QueryOutput
) -> None:
    """No row is late, although the query names no zone."""
    output.catch_up(count_per_ten_minutes(read, shift.stream))

    starts = [int((NOON + timedelta(minutes=10 * n)).timestamp() * 1000) for n in range(17)]
    assert output.rows == [(start, 10) for start in starts]


def test_complete_hour_has_its_local_times(read: Reads, shift: Observed) -> None:
    """The filter is of the converted column."""
    rows = read_between(read.spark, shift.stream, NOON, NOON + timedelta(hours=1))

    assert rows.count() == 60
    assert rows.agg(F.min("time").cast("long")).collect() == [(int(NOON.timestamp()),)]


def test_another_zone_of_the_query_is_rejected_with_both(read: Reads, shift: Observed) -> None:
    with pytest.raises(Rejected, match=r"zone='UTC', and stream flights states time as local time"):
        read_between(read.spark, shift.stream, NOON, NOON + timedelta(hours=1), zone="UTC")


def test_column_in_doubt_is_rejected_with_remedies(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """The remedies are in the sentence, and the first of them works. A restart keeps it."""
    flights.append_table(0, pa.table({"time": pa.array(MINUTES, pa.timestamp("us"))}))
    flights.marks.note("w", int(NOON.timestamp() * 1000) + 3_600_000, {0: 60})
    end = NOON + timedelta(hours=1)
    with pytest.raises(PySparkException, match=r'no.* has times without a zone.*zone="UTC".*'):
        read_between(read.spark, flights, NOON, end).count()
    with pytest.raises(StreamingQueryException, match="time zone=UTC"):
        output.catch_up(count_per_ten_minutes(read, flights))
    rows = read_between(read.spark, flights, NOON, end, zone="America/New_York")

    assert rows.count() == 60


def test_checkpoint_keeps_the_zone_that_it_was_begun_with(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Also until the stream states another one."""
    flights.append_table(0, pa.table({"time": pa.array(MINUTES, pa.timestamp("us"))}))
    flights.marks.note("w", int(NOON.timestamp() * 1000) + 3_600_000, {0: 60})
    output.catch_up(count_per_ten_minutes(read, flights, Columns(zone="America/New_York")))
    with pytest.raises(StreamingQueryException, match=r"begun with zone='America/New_York'"):
        output.catch_up(count_per_ten_minutes(read, flights, Columns(zone="UTC")))

    assert [count for _, count in output.rows] == [10] * 6


def test_checkpoint_of_an_earlier_version_keeps_utc(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """It says so. An earlier version has no form in its offsets."""
    flights.append_table(0, pa.table({"time": pa.array(MINUTES, pa.timestamp("us"))}))
    flights.marks.note("w", int(NOON.timestamp() * 1000) - 4 * 3_600_000, {0: 60})
    counts = count_per_ten_minutes(read, flights, Columns(zone="UTC"))
    output.catch_up(counts)
    drop_own_form(output.checkpoint)
    flights.append_table(0, pa.table({"time": pa.array(MINUTES[-1:], pa.timestamp("us"))}))
    output.catch_up(count_per_ten_minutes(read, flights))
    before = list(output.rows)
    form = {"column": "time", "kind": "local", "zone": "America/New_York"}
    flights.server.call("POST", f"/{flights.name}/event-time-form", form)
    flights.append_table(0, pa.table({"time": pa.array(MINUTES[-1:], pa.timestamp("us"))}))

    assert [count for _, count in before] == [10] * 6
    with pytest.raises(StreamingQueryException, match="has read column `time` as UTC"):
        output.catch_up(count_per_ten_minutes(read, flights))


def drop_own_form(checkpoint: Path) -> None:
    """Make the offsets of a checkpoint those of an earlier version."""
    for path in (checkpoint / "offsets").glob("[0-9]*"):
        version, metadata, *offsets = path.read_text().splitlines()
        changed_lines = []
        for offset in offsets:
            streams = json.loads(offset)
            for source in streams["noted_streams"].values():
                source["facts"].pop("own_form", None)
            changed_lines.append(json.dumps(streams))
        path.write_text("\n".join((version, metadata, *changed_lines)))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("form", "values", "kind"),
    [
        (TimeForm("s"), [1_795_651_200, 1_795_651_201], pa.int64()),
        (TimeForm("ns"), [1_795_651_200_000_000_000, 1_795_651_201_000_000_000], pa.int64()),
        (IN_MS, [1_795_651_200_000, 1_795_651_201_000], pa.int64()),
        (TimeForm(), ["2026-11-26T00:00:00Z", "2026-11-26T01:00:01+01:00"], pa.string()),
        (
            TimeForm(format="%d.%m.%Y %H:%M:%S", zone=UTC),
            ["26.11.2026 00:00:00", "26.11.2026 00:00:01"],
            pa.string(),
        ),
        (TimeForm("s"), [1_795_651_200.0, 1_795_651_201.0], pa.float64()),
    ],
)
def test_numbers_and_texts_are_read_as_the_observer_reads_them(
    read: Reads, flights: NotedStream, form: TimeForm, values: Sequence[object], kind: pa.DataType
) -> None:
    observed_stream = Observed(flights, form)
    observed_stream.append(values, kind)
    start = datetime(2026, 11, 26, tzinfo=UTC)
    rows = read_between(read.spark, flights, start, start + timedelta(seconds=1)).collect()
    observed_stream.client.close()

    assert len(rows) == 1
    stated_forms = flights.server.call("GET", f"/{flights.name}")["event_time_forms"]["default"]
    assert [form["form"]["column"] for form in stated_forms] == ["time"]


def test_form_changes_at_the_positions_where_it_was_replaced(
    read: Reads, flights: NotedStream
) -> None:
    """Rows before are read as before."""
    form = EventTimeForm(column="time", kind="number", unit="s")
    observed_stream = Observed(flights, TimeForm("s"))
    observed_stream.append([1_795_651_200], pa.int64())
    body = {"column": form.column, "kind": form.kind, "unit": "ms"}
    flights.server.call("PUT", f"/{flights.name}/event-time-form", body)
    flights.append_table(0, pa.table({"time": pa.array([1_795_651_201_000], pa.int64())}))
    flights.marks.note("w", 1_795_651_202_000, {0: 2})
    flights.marks.note("observer", 1_795_651_202_000, {0: 2})
    start = datetime(2026, 11, 26, tzinfo=UTC)
    rows = read_between(read.spark, flights, start, start + timedelta(seconds=2))
    observed_stream.client.close()

    assert rows.count() == 2
