"""Local times that Spark converts by our offsets, compared with what observers read."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructField, StructType, TimestampNTZType

from noted_time.observing import NoSuchTime, TimeForm
from noted_time.values import (
    HOUR_MS,
    YEAR_MS,
    list_clock_changes,
    list_zone_names,
    parse_time,
    parse_zone,
)
from spark_integration.session.zones import build_utc_expression

FIRST = parse_time("2010-01-01T00:00Z")
LAST = parse_time("2028-12-01T00:00Z")
LOCAL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - on the clock of any zone
LAWS_OF_2026 = ("Africa/Casablanca", "America/Edmonton", "America/Inuvik", "America/Vancouver")
ODD_ZONES = ("Pacific/Apia", "Australia/Lord_Howe", "Africa/Cairo", "UTC")
TIMES = StructType([StructField("local", TimestampNTZType())])


@pytest.fixture
def spark_in_new_york(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session with another zone, whose clock is changed, too."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", str(before))


def draw_local_times(zones: list[tzinfo], chance: random.Random) -> list[datetime]:
    """Return times near changes of the zones' clocks."""
    places = [chance.randrange(FIRST + YEAR_MS, LAST - YEAR_MS) for _ in range(30)]
    for zone in (*zones, parse_zone("America/New_York")):
        changes = [*list_clock_changes(zone, FIRST + YEAR_MS, LAST - YEAR_MS)]
        for change in chance.sample(changes, min(3, len(changes))):
            borders = (change.at + change.offset_before, change.at + change.offset_after)
            for border in borders:
                places += [border - 1, border]
            places.append(borders[0] + chance.randrange(-HOUR_MS, HOUR_MS))
    return [LOCAL_EPOCH + timedelta(milliseconds=place) for place in places]


def read_by_observer(zone: tzinfo, local: datetime) -> int | None:
    try:
        return TimeForm(zone=zone).ms_of(local)
    except NoSuchTime:
        return None


def read_by_spark(
    spark: SparkSession, zones: list[tzinfo], times: list[datetime]
) -> list[list[int | None]]:
    """Return the moments of the local times in each zone, in Unix ms."""
    expressions = [
        F.unix_millis(build_utc_expression(F.col("local"), zone, FIRST, LAST)).alias(f"zone_{n}")
        for n, zone in enumerate(zones)
    ]
    rows = spark.createDataFrame([(time,) for time in times], TIMES).select(*expressions).collect()
    return [list(moments) for moments in zip(*rows, strict=True)]


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(2))
def test_spark_and_observer_read_the_same_moment(
    spark_in_new_york: SparkSession, seed: int
) -> None:
    """A skipped time is null in both, and of an hour that exists twice both take the first."""
    chance = random.Random(seed)
    names = [*LAWS_OF_2026, *ODD_ZONES, *chance.sample([*list_zone_names()], 8)]
    zones = [parse_zone(name) for name in names]
    times = draw_local_times(zones, chance)
    expected = []
    for zone in zones:
        expected.append([read_by_observer(zone, time) for time in times])

    assert read_by_spark(spark_in_new_york, zones, times) == expected


@pytest.mark.spark
def test_spark_reads_no_time_outside_of_the_given_ones(spark_in_new_york: SparkSession) -> None:
    """Their offsets are not in the expression."""
    zone = parse_zone("Europe/Berlin")
    days = [datetime(2009, 12, 31), datetime(2010, 1, 2), datetime(2028, 12, 2)]  # noqa: DTZ001 - local

    ((before, inside, after),) = read_by_spark(spark_in_new_york, [zone], days)
    assert (before, inside, after) == (None, parse_time("2010-01-01T23:00Z"), None)


@pytest.mark.spark
def test_spark_keeps_microseconds(spark_in_new_york: SparkSession) -> None:
    local = datetime(2026, 11, 20, 12, 0, 0, 1)  # noqa: DTZ001 - local
    vancouver = parse_zone("America/Vancouver")
    rows = spark_in_new_york.createDataFrame([(local,), (None,)], TIMES)
    moments = build_utc_expression(F.col("local"), vancouver, FIRST, LAST)
    micros = [row[0] for row in rows.select(F.unix_micros(moments)).collect()]

    assert micros == [parse_time("2026-11-20T19:00Z") * 1000 + 1, None]
