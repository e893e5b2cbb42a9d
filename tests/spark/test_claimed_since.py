"""The time since which a claim has all rows."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time.reading import WHOLE_LOG
from noted_time.tables import TableClaim, standing
from noted_time.values import MIN_INT64
from spark_integration import NotedTable, ReadRange, TableClaims
from spark_integration.tables.claims import find_whole_from
from tests.spark.test_claimed_domains import plan_log
from tests.support.claimed import TEN
from tests.support.noted_stream import NotedStream
from tests.support.offset_log import plan, write_start

NOTED, KAFKA = {"flights.noted": {"0": 2}}, {"flights": {"0": 5, "1": 5}}
MARKS: Any = {"noted_streams": {"flights": {}}, "token": "t"}
READ: Any = {"segments": {"0": 7}, "mark": {"lower": TEN}}
HOUR_MS = 3_600_000


def test_file_log_is_whole_if_each_segment_begins_at_zero(flights: NotedStream) -> None:
    """The first listing shows it, or the first file of a later segment."""
    flights.begin_log().append(0, (1000, "a"))
    whole = find_whole_from(plan_log(flights), {})
    ranged = find_whole_from(plan_log(flights, ReadRange(start_at=500)), {})
    flights.position[1] = 100
    flights.append(1, (2000, "b"))
    flights.note(2001)
    later = find_whole_from(plan_log(flights), {})

    assert (whole, ranged.time, later.time) == (WHOLE_LOG, 500, None)
    assert not later.is_pending


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
    assert claims.of(1).claim.since == since


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
    claim = TableClaims(str(tmp_path), "flights", "time", since=5).of(1).claim

    assert (claim.since, claim.is_since_stated) == since


@pytest.mark.parametrize(
    ("time_of", "options", "since"),
    [
        ("time", {}, TEN),
        ("time", {"delay_ms": 5}, TEN + 5),
        ("window.end", {}, None),
        ("hour_end", {}, None),
        ("window.end", {"window": "1h"}, TEN + HOUR_MS),
        ("hour", {"window": "1h"}, TEN + HOUR_MS),
    ],
)
def test_claim_of_windows_begins_a_window_later(
    tmp_path: Path, time_of: str, options: dict[str, Any], since: int | None
) -> None:
    """The window of the first remaining row lacks rows. Its size may have to be stated."""
    for batch in (0, 1):
        plan_whole(tmp_path, batch, {"time": TEN})
    whole = TableClaims(str(tmp_path), "flights", time_of, **options).of(1).claim.since
    plan_whole(tmp_path, 2, {"time": MIN_INT64})

    assert whole == since
    assert TableClaims(str(tmp_path), "flights", time_of).of(2).claim.since == MIN_INT64


@pytest.mark.spark
def test_size_of_a_window_is_read_from_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The largest size so far counts. A batch without rows keeps the claim."""
    url = f"delta:{tmp_path / 'table'}"
    table = NotedTable(url, TableClaims(str(tmp_path), "flights", "window.end"), claim_every="0s")
    found = []
    for batch, sizes in enumerate([[1], [2, 1], [], [1]]):
        plan_whole(tmp_path, batch, {"time": TEN}, watermark=batch and TEN + batch)
        rows = spark.createDataFrame([(TEN / 1000 + 1, size) for size in sizes], "at double, h int")
        start = F.timestamp_seconds("at")
        end = F.timestamp_seconds(F.col("at") + 3600 * F.col("h"))
        table(rows.select(F.struct(start.alias("start"), end.alias("end")).alias("window")), batch)
        claimed = standing(url)
        found.append(claimed.since if isinstance(claimed, TableClaim) else claimed)

    assert found[1:] == [TEN + 2 * HOUR_MS] * 3


def plan_whole(checkpoint: Path, batch: int, whole: object, watermark: int = TEN) -> None:
    """Plan a batch of a file log whose offset has a `whole` fact."""
    about = {"batchWatermarkMs": watermark, "conf": {}}
    read = READ if whole is None else {**READ, "facts": {"whole": whole}}
    plan(checkpoint, batch, {"noted_streams": {"flights": read}, "root": "/log"}, metadata=about)
