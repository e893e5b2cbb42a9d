"""Batch reads of a window of a file log: they have exactly its rows, and read little else."""

import json
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from demo.trials.served import Served
from noted_time import NotCompleteYet, Rejected, RowsMissing, UnknownStream
from noted_time.client import position_from_wire
from noted_time.filelog import file_name, segment_directory
from spark_integration import BatchRead, Noted, read_complete
from spark_integration.complete.source import CompleteSource, WindowQuery, WindowReader
from spark_integration.complete.window import wait_for_window
from spark_integration.log.rows import RowShape
from spark_integration.scan.files import CutRange, LogFiles
from spark_integration.session.sources import build_options
from tests.support.hostile import HostileServer, answer
from tests.support.hourly_log import HOUR, HourlyLog, write_hours
from tests.support.page import Runner, list_examples, read_page

pytestmark = pytest.mark.shows("read_complete")


def count_planned_rows(log: HourlyLog, query: dict[str, Any]) -> int:
    """Return how many rows the tasks of a window would read."""
    asked = log.served.call(
        "GET",
        f"/flights/windows?size_ms={query['end'] - query['start']}"
        f"&origin={query['start']}&after={query['start']}&limit=1",
    )["windows"][0]
    from_cut, to_cut = (position_from_wire(asked[name]) for name in ("from", "to"))
    between = CutRange(from_cut, to_cut, "time")
    asking = WindowQuery(str(log.files.root), "flights", between=between, **query)
    source = CompleteSource(build_options(asking))
    reader = WindowReader(source.query, RowShape(source.schema(), "time"))
    return sum(each.rows for task in reader.partitions() for each in task.work)  # type: ignore[attr-defined]


def test_hour_out_of_a_month_reads_little_more_than_the_hour(log: HourlyLog) -> None:
    """It reads at most 1.2 times the rows, and those between two marks at either end."""
    write_hours(log, 24 * 30)
    start, between_marks = 24 * 15 * HOUR, 10
    query = {"start": start, "end": start + HOUR}
    read = [count_planned_rows(log, {**query, "own_segments": own}) for own in (False, True)]

    assert [20 <= rows <= 1.2 * 20 + 2 * between_marks for rows in read] == [True, True], read


def test_own_segments_open_no_files_below_the_start_cut(log: HourlyLog) -> None:
    """The old files may have another schema by now. Without own segments, all files are opened."""
    write_hours(log, 6)
    first = min(log.files.root.glob("flights/partition=0/*"))
    first.write_bytes(b"no Parquet")

    assert count_planned_rows(log, {"start": 4 * HOUR, "end": 5 * HOUR, "own_segments": True}) > 0
    with pytest.raises(Rejected, match="not a whole Parquet file"):
        count_planned_rows(log, {"start": 4 * HOUR, "end": 5 * HOUR})


@pytest.mark.spark
@pytest.mark.parametrize("shared", [False, True])
def test_consecutive_hours_give_each_row_once(
    spark: SparkSession, log: HourlyLog, *, shared: bool
) -> None:
    """The writers may share a segment."""
    write_hours(log, 6, shared=shared)
    found = []
    for hour in range(6):
        own = not shared and hour % 2 == 1
        frame = log.read(spark, hour * HOUR, (hour + 1) * HOUR, own_segments=own)
        found += [(row.time.replace(tzinfo=UTC), row.name) for row in frame.collect()]
    whole = spark.read.parquet(str(log.files.root / "flights"))
    end = datetime(1970, 1, 1, 6, tzinfo=UTC)
    rows = [(row.time.replace(tzinfo=UTC), row.name) for row in whole.collect()]

    assert sorted(found) == sorted(row for row in rows if row[0] < end)


@pytest.mark.spark
def test_rows_beyond_the_cut_belong_to_no_window(spark: SparkSession, log: HourlyLog) -> None:
    """A window that was complete before a late row does not get it."""
    log.files.append(0, (1, "a"), (5, "at the end"), (3, "b"), writer="w")
    log.note("w", 5, {0: 3}, 5)
    before = log.read(spark, 0, 5).collect()
    log.files.append(0, (2, "late"), writer="w")
    log.note("w", 9, {0: 4}, 5)
    after = log.read(spark, 0, 5).collect()
    wider = log.read(spark, 0, 9).collect()

    assert [sorted(row.name for row in rows) for rows in (before, after, wider)] == [
        ["a", "b"],
        ["a", "b"],
        ["a", "at the end", "b", "late"],
    ]


@pytest.mark.spark
def test_recreated_stream_has_every_row_after_a_wrong_offset(
    spark: SparkSession, log: HourlyLog, tmp_path: Path
) -> None:
    """The commands of the page are run. Then each row is in the window of its time."""
    times = [(time, f"{time}") for time in (0, 1, 2, 3, 5, 6, 7, 10, 11, 12)]
    log.files.append(0, *times, writer="w")
    log.note("w", 5, {0: 4}, 3)
    log.note("w", 15, {0: 10**6}, 12)
    page = Runner(tmp_path, log.served.url, {"trips": "flights"})
    for each in list_examples(read_page("docs/guides/symptoms.md")):
        if each.program.startswith("noted-time stream ") and "trips" in each.program:
            page.run(each)
    log.note("w", 15, {0: 10}, 12)
    frames = [log.read(spark, n, n + 5, own_segments=True) for n in (0, 5, 10)]

    assert [len(each.collect()) for each in frames] == [4, 3, 3]


@pytest.mark.spark
def test_columns_and_schema_are_those_asked_for(spark: SparkSession, log: HourlyLog) -> None:
    """The event time is always included. Integers are read as Unix ms."""
    rows = pa.table({"time": [1, 7], "name": ["a", "b"], "other": [True, False]})
    log.files.append_table(0, rows)
    log.note("w", 5, {0: 2}, 7)
    some = log.read(spark, 0, 5, columns=["name"])
    given = log.read(spark, 0, 5, schema=some.schema)

    assert [row.asDict() for row in some.collect()] == [
        {"name": "a", "time": datetime(1970, 1, 1, 0, 0, 0, 1000)}  # noqa: DTZ001 - as Spark's
    ]
    assert given.collect() == some.collect()


@pytest.mark.spark
def test_window_without_rows_is_empty(spark: SparkSession, log: HourlyLog) -> None:
    """It has the columns of the log."""
    log.files.append(0, (1, "a"), writer="w")
    log.note("w", 50, {0: 1}, 1)
    frame = log.read(spark, 10, 50, own_segments=True)

    assert (frame.columns, frame.collect()) == (["time", "name"], [])


@pytest.mark.spark
@pytest.mark.parametrize(
    ("gone", "says"),
    [
        ("partition=0", "host {} does not see .*partition=0: the log's root must be a path under"),
        ("partition=0/*", "was deleted after it was listed, while host {} sees its directory"),
    ],
)
def test_file_missing_on_a_worker_is_named_with_its_host(
    spark: SparkSession, log: HourlyLog, gone: str, says: str
) -> None:
    """The worker has another root than the driver, or the file was deleted after planning."""
    write_hours(log, 2)
    rows = log.read(spark, 0, HOUR).rdd
    rows.getNumPartitions()
    for each in (log.files.root / "flights").glob(gone):
        each.rename(log.files.root / f"_{each.name}")

    with pytest.raises(PySparkException, match=says.format(socket.gethostname())):
        rows.collect()


@pytest.mark.parametrize("own", [{}, {"own_segments": True}])
def test_window_without_marks_and_files_is_refused(log: HourlyLog, own: dict[str, bool]) -> None:
    """Its start cut is unknown, so the deleted files may have had rows of it."""
    paths = [log.files.append(0, (hour * HOUR, "a"), (hour * HOUR + 1, "b")) for hour in range(3)]
    log.note("w", 3 * HOUR, {0: 6}, 2 * HOUR + 1)
    query = {"start": 2 * HOUR, "end": 3 * HOUR, **own}
    before = count_planned_rows(log, query)
    for path in paths[:2]:
        path.unlink()

    assert before == 2
    with pytest.raises(Rejected, match="offsets 0 to 4 are missing: before flights"):
        count_planned_rows(log, query)


def test_incomplete_window_is_refused(log: HourlyLog) -> None:
    """The error names the holder. An invalid window is refused, too."""
    log.files.append(0, (1, "a"), writer="w")
    log.note("w", 5, {0: 1}, 1)
    nothing: Any = None
    noon = datetime(2013, 1, 1, 12, tzinfo=UTC)

    for start, end, error, says in (
        (0, 6, NotCompleteYet, "not known to be complete to 6: its lower is 5, and it waits for w"),
        (5, 5, Rejected, "its start 5 is not before its end 5"),
        (0, 10**18, Rejected, "not one that Spark can express"),
        (noon, noon + timedelta(microseconds=1500), Rejected, "sub-millisecond precision"),
    ):
        with pytest.raises(error, match=says):
            log.read(nothing, start, end)
    with pytest.raises(UnknownStream):
        read_complete(nothing, "log", Noted(log.served.url, "nope"), 0, 1, event_time="time")


def test_window_after_the_end_of_a_sealed_stream_is_refused(log: HourlyLog) -> None:
    """It is refused at once, because no mark follows."""
    log.files.append(0, (1, "a"), writer="w")
    log.note("w", 5, {0: 1}, 1)
    log.served.call("POST", "/flights/seal", {})
    nothing: Any = None

    with pytest.raises(Rejected, match="flights is sealed at 5: no window follows"):
        log.read(nothing, 10, 20)


def look_up_window(url: str, start: int, end: int, **asked: Any) -> None:  # noqa: ANN401
    """Look a window up, as each read does before Spark plans anything."""
    late = asked.pop("late", "warn")
    noted, read = Noted(url, "flights"), BatchRead(**asked)
    wait_for_window(noted, start, end, domain=None, read=read, late=late)


def test_window_with_a_missing_writer_is_read_with_a_warning(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """An accepted missing writer causes no warning. The warning has readable times."""
    ten = 1_357_034_400_000
    for time in (ten - HOUR, ten):
        served.post("flights", *({"writer": name, "time": time} for name in ("shop", "depot")))
    served.call("DELETE", "/flights/writers/depot")
    served.post("flights", {"writer": "shop", "time": ten + HOUR})
    with caplog.at_level("WARNING"):
        look_up_window(served.url, ten - HOUR, ten)
        look_up_window(served.url, ten, ten + HOUR, missing="accept")
        quiet = list(caplog.messages)
        look_up_window(served.url, ten, ten + HOUR)
    with pytest.raises(RowsMissing, match="without depot: removed by an operator") as refused:
        look_up_window(served.url, ten, ten + HOUR, missing="fail")
    with pytest.raises(Rejected, match="start 2013-01-01T11:00:00Z is not before its end 2013-"):
        look_up_window(served.url, ten + HOUR, ten)

    assert [each.time for each in refused.value.missing.writers] == [ten]
    says = "is complete, without depot: removed by an operator"
    window = "from 2013-01-01T10:00:00Z to 2013-01-01T11:00:00Z"
    assert (quiet, caplog.messages) == ([], [f"stream 'flights' {window} {says}"])


def test_window_with_late_rows_is_read_with_a_warning(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """It is refused or read without a warning on request.

    A window before the first mark is treated alike.
    """
    for time in (1, 9):
        served.note("flights", time, {"0": 1})
    served.post("flights", {"writer": "w", "late": {"rows": 112, "least": 5, "most": 6}})
    with pytest.raises(RowsMissing, match=r"complete, with late rows of w \(112\)$") as refused:
        look_up_window(served.url, 1, 9, late="fail")
    with pytest.raises(Rejected, match="late must be 'warn' or 'fail' or 'accept'"):
        look_up_window(served.url, 1, 9, late="no")
    look_up_window(served.url, 1, 9, late="accept")
    look_up_window(served.url, 1, 5)
    quiet = list(caplog.messages)
    look_up_window(served.url, 1, 6)
    look_up_window(served.url, 0, 5)

    unknown = "who is missing is not known: it is older than the ledger or the first mark"
    assert [each.rows for each in refused.value.late.writers] == [112]
    assert (quiet, caplog.messages) == (
        [],
        [
            "stream 'flights' from 1 to 6 is complete, with late rows of w (at most 112)",
            f"stream 'flights' from 0 to 5 is complete, but {unknown}",
        ],
    )


def test_window_survives_outage_after_verdict(served: Served) -> None:
    served.note("flights", 5, {"0": 1})
    verdict = served.call("POST", "/flights/completeness", {"to": 5})
    found = iter([answer(json.dumps(verdict).encode())])
    with HostileServer(served.url, lambda: found, lambda: iter([answer(b"", 503)])) as server:
        noted, read = Noted(server.url, "flights"), BatchRead(timeout=60)
        window = wait_for_window(noted, 0, 5, domain="default", read=read, late="warn")

    assert (window.end, len(server.sent)) == (5, 2)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_statistics_of_every_unit_are_understood(tmp_path: Path, unit: str) -> None:
    """Files without such times are not read."""
    times = pa.array([-1500, 2000], pa.timestamp("ms")).cast(pa.timestamp(unit), safe=False)
    path = segment_directory(tmp_path, "flights", 0)
    path.mkdir(parents=True)
    pq.write_table(pa.table({"time": times}), path / file_name("flights", 0, 0))
    files = LogFiles(tmp_path, "flights", between=CutRange({}, {0: 2}, "time")).refresh()

    least = -1000 if unit == "s" else -1500
    assert [(g.least, g.most) for g in files[0][0].groups] == [(least, 2000)]
