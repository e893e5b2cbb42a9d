"""Facts of claims: the domain of a query's streams, and the time since which it has all rows."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.datasource import ReadAllAvailable

from noted_time.client import Json
from noted_time.reading import WHOLE_LOG
from noted_time.values import MIN_INT64
from noted_time_extensions.files import ReadRange
from noted_time_extensions.files.spark.options import Option
from noted_time_extensions.files.tests.support.log_reading import build_query, open_reader
from noted_time_extensions.tables import NotedTable, TableClaim, TableClaims, standing
from noted_time_extensions.tables.spark.claims import describe_read, find_whole_from
from noted_time_extensions.tables.spark.table import is_window_end
from noted_time_extensions.tables.tests.support.claimed import TEN, Orders
from spark_integration import Ingestion
from spark_integration.checkpoint.query_progress import PlannedBatch
from spark_integration.checkpoint.source_positions import KafkaTopic
from spark_integration.marks_source.query import MarksQuery
from spark_integration.marks_source.topics import create_planner
from tests.cli.conftest import Commands
from tests.support.asking import ask
from tests.support.noted_stream import NotedStream
from tests.support.offset_log import plan, write_start
from tools.trials.served import Served

DOMAINS = ["default", "ship", "ingestion"]


def plan_log(stream: NotedStream, *options: Option, **fields: str) -> tuple[Json, ...]:
    """Return the offsets of the first batch of a query on the file log."""
    reader = open_reader(build_query(stream, *options, **fields))
    try:
        return (reader.latestOffset(reader.initialOffset(), ReadAllAvailable()),)
    finally:
        reader.stop()


def plan_topic(stream: NotedStream, domain: str | None, lag_ms: int = 0) -> tuple[Json, ...]:
    """Return the offsets of the first batch of a query on a topic, after its marks."""
    name = stream.name
    place = str(stream.root)
    query = MarksQuery({name: KafkaTopic(name)}, stream.server.url, place, domain, lag_ms=lag_ms)
    with closing(create_planner(query, None, {})) as planner:
        planned_offset = planner.plan(planner.beginning, ReadAllAvailable()).to_json()
    return planned_offset, {name: {"0": 0}}


def test_offsets_of_all_sources_have_domain_lag_and_first_mark(
    controller: Served, tmp_path: Path
) -> None:
    """The offsets name the domain of a stream with only one.

    The lag is subtracted from the first mark.
    """
    stream = NotedStream(tmp_path, "flights", controller, *DOMAINS).begin_log()
    shipped_log = NotedStream(tmp_path, "shipped", controller, "ship").begin_log()
    for time, domain in enumerate(DOMAINS, start=10):
        controller.note("flights", time, {"0": 1}, domain=domain)
    offsets = [
        plan_log(stream, domain="ship"),
        plan_log(stream),
        plan_log(shipped_log),
        plan_log(stream, Ingestion(5), domain="ingestion"),
        plan_topic(stream, "ship"),
        plan_topic(shipped_log, None),
        plan_topic(stream, "ingestion", 5),
    ]

    sources = [describe_read(PlannedBatch("q", 0, 1, "min", offset)) for offset in offsets]
    facts = [(source["domain"], source["lag_ms"], source["first_lower"]) for source in sources]
    ship = ("ship", 0, 11)
    unmarked_facts = ("ship", 0, None)
    ingestion = ("ingestion", 5, 7)
    assert facts == [
        ship,
        ("default", 0, 10),
        unmarked_facts,
        ingestion,
        ship,
        unmarked_facts,
        ingestion,
    ]


def plan_read(source: str, stream: NotedStream, domain: str) -> tuple[Json, ...]:
    return plan_topic(stream, domain) if source == "topic" else plan_log(stream, domain=domain)


WRITERS = ["lima", "oslo"]
PAIRS = st.tuples(st.sampled_from(WRITERS), st.sampled_from(DOMAINS[:2]))


@given(
    notes=st.lists(PAIRS, max_size=9),
    expected=st.sampled_from([[], WRITERS]),
    removed=st.sampled_from(["", "lima"]),
    domain=st.sampled_from(DOMAINS[:2]),
    source=st.sampled_from(["log", "topic"]),
)
@settings(max_examples=15)
def test_table_has_the_status_of_its_stream_in_the_domain(  # noqa: PLR0913, PLR0917 - what is drawn
    shared_controller: Served,
    notes: list[tuple[str, str]],
    expected: list[str],
    removed: str,
    domain: str,
    source: str,
) -> None:
    """The status is the same for each requirement, and before the first mark."""
    run = Commands(shared_controller.url)
    times = enumerate(notes, start=TEN)
    with TemporaryDirectory() as place:
        stream = NotedStream(Path(place, "log"), "flights", shared_controller, *DOMAINS[:2])
        stream.begin_log()
        initial = [{"writer": w, "domain": d, "time": TEN} for w in WRITERS for d in DOMAINS[:2]]
        later_notes = [{"writer": w, "domain": d, "time": time} for time, (w, d) in times]
        shared_controller.call("PUT", "/flights", {"expected_writers": expected})
        shared_controller.post("flights", *initial, *later_notes)
        if removed:
            shared_controller.ask("DELETE", f"/streams/flights/writers/{removed}")
        lower = shared_controller.lower("flights", domain)
        for batch in (0, 1):
            about = {"batchWatermarkMs": lower - 1, "conf": {}}
            plan(Path(place), batch, *plan_read(source, stream, domain), metadata=about)
        write_start(Path(place), "1", {"flights": {"0": 0}})
        orders = Orders(Path(place))
        orders.record(TableClaims(place, "orders", "time").of(1).claim)
        ways = ["", "all", "known", *WRITERS]
        questions = [(time, way) for time in (TEN - 1, lower) for way in ways]
        statuses = [
            ask(run, "wait", orders.url, time, require=way).status for time, way in questions
        ]
        truth = [
            ask(run, "wait", "flights", time, require=way, domain=domain).status
            for time, way in questions
        ]

    assert statuses == truth


NOTED = {"flights.noted": {"0": 2}}
KAFKA = {"flights": {"0": 5, "1": 5}}
MARKS: Any = {"noted_streams": {"flights": {}}, "token": "t"}
READ: Any = {"segments": {"0": 7}, "mark": {"lower": TEN}}
HOUR_MS = 3_600_000


def test_file_log_is_whole_if_each_segment_begins_at_zero(flights: NotedStream) -> None:
    """The first listing shows it, or the first file of a later segment."""
    flights.begin_log().append(0, (1000, "a"))
    whole_from = find_whole_from(plan_log(flights), {})
    ranged_from = find_whole_from(plan_log(flights, ReadRange(start_at=500)), {})
    flights.position[1] = 100
    flights.append(1, (2000, "b"))
    flights.note(2001)
    later_from = find_whole_from(plan_log(flights), {})

    assert (whole_from, ranged_from.time, later_from.time) == (WHOLE_LOG, 500, None)
    assert not later_from.is_pending


@pytest.mark.parametrize(
    ("start", "since"),
    [
        ({"flights": {"0": 0, "1": 0}}, MIN_INT64),
        ({"flights": {"0": 0, "1": 3}}, None),
        ({"landings": {"0": 0}}, None),
        ({"flights": {}}, None),
        (None, None),
    ],
)
@pytest.mark.parametrize("marks", [NOTED, MARKS])
def test_first_offsets_of_zero_prove_that_no_row_is_missing(
    tmp_path: Path, marks: object, start: object, since: int | None
) -> None:
    """This includes all partitions of Spark's own source."""
    for batch in (0, 1):
        plan(tmp_path, batch, marks, KAFKA, metadata={"batchWatermarkMs": TEN, "conf": {}})
    if start is not None:
        write_start(tmp_path, "1", start)

    claims = TableClaims(str(tmp_path), "flights", "time", strict=True)
    assert claims.of(1).claim.from_time == since


@pytest.mark.parametrize(
    ("whole", "since"),
    [
        (None, (5, True)),
        ({"unknown": "compacted"}, (5, True)),
        ({"time": 70}, (70, False)),
        ({"begins": {"0": 7}}, (None, False)),
    ],
)
def test_unknown_start_may_be_stated(
    tmp_path: Path, whole: object, since: tuple[int | None, bool]
) -> None:
    """A stated start does not replace a known one."""
    plan_whole(tmp_path, 0, whole)
    plan_whole(tmp_path, 1, whole)
    claim = TableClaims(str(tmp_path), "flights", "time", from_time=5).of(1).claim

    assert (claim.from_time, claim.is_from_time_stated) == since


@pytest.mark.parametrize(
    ("time_of", "has_state", "options", "since"),
    [
        ("time", False, {}, TEN),
        ("time", False, {"delay_ms": 5}, TEN + 5),
        ("hour_end", False, {}, TEN),
        ("window.end", False, {}, None),
        ("window.end", True, {}, None),
        ("time", True, {}, None),
        ("hour", True, {}, None),
        ("until", True, {}, None),
        ("time", True, {"window": "0s"}, TEN),
        ("time", True, {"window": "0s", "delay_ms": 5}, TEN + 5),
        ("window.end", True, {"window": "1h"}, TEN + HOUR_MS),
        ("hour", True, {"window": "1h"}, TEN + HOUR_MS),
    ],
)
def test_claim_of_windows_begins_a_window_later(
    tmp_path: Path,
    time_of: str,
    has_state: bool,  # noqa: FBT001 - of the case
    options: dict[str, Any],
    since: int | None,
) -> None:
    """The window of the first remaining row lacks rows. Its size may have to be stated.

    The name of a column does not show that a query with state has no windows.
    """
    if has_state:
        write_state(tmp_path)
    for batch in (0, 1):
        plan_whole(tmp_path, batch, {"time": TEN})
    from_time = TableClaims(str(tmp_path), "flights", time_of, **options).of(1).claim.from_time
    plan_whole(tmp_path, 2, {"time": MIN_INT64})

    assert from_time == since
    assert TableClaims(str(tmp_path), "flights", time_of).of(2).claim.from_time == MIN_INT64


@pytest.mark.parametrize(
    ("has_state", "options", "keeps"),
    [
        (False, {}, [None, True]),
        (True, {}, [False, False]),
        (True, {"keeps_late_rows": True}, [True, True]),
    ],
)
def test_claim_says_whether_its_query_keeps_late_rows(
    tmp_path: Path,
    has_state: bool,  # noqa: FBT001 - of the case
    options: dict[str, Any],
    keeps: list[bool | None],
) -> None:
    """Spark writes state with the first batch, so before that it is not known."""
    if has_state:
        write_state(tmp_path)
    for batch in (0, 1):
        plan_whole(tmp_path, batch, {"time": TEN}, watermark=batch and TEN)
    claims = TableClaims(str(tmp_path), "flights", "time", **options)

    assert [claims.of(batch).claim.keeps_late_rows for batch in (0, 1)] == keeps


def write_state(checkpoint: Path) -> None:
    """Leave the state of an operator, as Spark does."""
    (checkpoint / "state" / "0").mkdir(parents=True)


@pytest.mark.spark
def test_size_of_a_window_is_read_from_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The largest size so far counts. A batch without rows keeps the claim."""
    write_state(tmp_path)
    url = f"delta:{tmp_path / 'table'}"
    table = NotedTable(url, TableClaims(str(tmp_path), "flights", "window.end"), claim_every="0s")
    from_times = []
    for batch, sizes in enumerate([[1], [2, 1], [], [1]]):
        plan_whole(tmp_path, batch, {"time": TEN}, watermark=batch and TEN + batch)
        rows = spark.createDataFrame([(TEN / 1000 + 1, size) for size in sizes], "at double, h int")
        start = F.timestamp_seconds("at")
        end = F.timestamp_seconds(F.col("at") + 3600 * F.col("h"))
        table(rows.select(F.struct(start.alias("start"), end.alias("end")).alias("window")), batch)
        claim = standing(url)
        from_times.append(claim.from_time if isinstance(claim, TableClaim) else claim)

    assert from_times[1:] == [TEN + 2 * HOUR_MS] * 3


@pytest.mark.spark
@pytest.mark.parametrize(
    ("columns", "name", "is_window"),
    [
        ("window struct<start: timestamp, end: timestamp>", "window.end", True),
        ("w struct<start: timestamp_ntz, end: timestamp_ntz>", "w.end", True),
        ("window struct<start: timestamp, end: timestamp>", "window.start", False),
        ("window struct<start: bigint, end: bigint>", "window.end", False),
        ("window struct<start: timestamp, end: timestamp, n: int>", "window.end", False),
        ("hour_start timestamp, hour_end timestamp", "hour_end", False),
    ],
)
def test_only_the_type_shows_the_end_of_a_window(
    spark: SparkSession,
    columns: str,
    name: str,
    is_window: bool,  # noqa: FBT001 - of the case
) -> None:
    assert is_window_end(spark.createDataFrame([], columns), name) == is_window


def plan_whole(checkpoint: Path, batch: int, whole: object, watermark: int = TEN) -> None:
    """Plan a batch of a file log whose offset has a `whole` fact."""
    about = {"batchWatermarkMs": watermark, "conf": {}}
    source = READ if whole is None else {**READ, "facts": {"whole": whole}}
    plan(checkpoint, batch, {"noted_streams": {"flights": source}, "root": "/log"}, metadata=about)
