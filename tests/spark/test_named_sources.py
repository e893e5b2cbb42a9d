"""Queries whose sources have names, by which Spark keeps their offsets in any order."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_integration import Noted, WatermarkPolicy, with_noted_watermark
from spark_integration.checkpoint.committed import read_committed_offsets
from spark_integration.session.settings import EVOLUTION_SETTING
from tests.cli.conftest import Commands
from tests.spark.test_any_source import Ticks
from tests.spark.test_topic_marks import NotedClock
from tests.support.clock import Clock, MakeClock
from tests.support.queries import count_per_second
from tests.support.query_output import QueryOutput
from tools.trials.served import Served

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]

BY_NAME = "spark.sql.streaming.offsetLog.formatVersion"
"""The setting that lets Spark 4.2 keep offsets by name; 4.3 does so by itself for named sources."""

EXACT = WatermarkPolicy(strict=False)


@pytest.fixture
def session_by_name(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session that keeps offsets by name, of sources that need none."""
    spark.conf.set(BY_NAME, "2")
    yield spark
    spark.conf.unset(BY_NAME)


@pytest.fixture
def evolving(session_by_name: SparkSession) -> Iterator[SparkSession]:
    """Return a session whose queries may change their sources, so each source needs a name."""
    session_by_name.conf.set(EVOLUTION_SETTING, "true")
    yield session_by_name
    session_by_name.conf.unset(EVOLUTION_SETTING)


def names_in(checkpoint: Path) -> list[str]:
    """Return the names of the first offsets, which Spark stored by name."""
    version, _, *lines = (checkpoint / "offsets" / "0").read_text().split("\n")
    assert version == "v2"
    return sorted(line.partition(":")[0] for line in lines)


def user_read(clock: Clock, source_name: str) -> DataFrame:
    """Return the records of a topic under its marks, from a source with the user's name."""
    reader = clock.spark.readStream.format("kafka").name(source_name)
    reader = reader.option("kafka.bootstrap.servers", clock.broker.address)
    return with_noted_watermark(
        reader.options(subscribe=clock.name, startingOffsets="earliest").load(),
        "timestamp",
        Noted(clock.name, controller=clock.url),
        checkpoint_location=str(clock.output.checkpoint),
        policy=EXACT,
    )


@pytest.mark.usefixtures("evolving")
def test_marks_find_their_events_by_the_topic(
    clock: Clock, other: Clock, output: QueryOutput
) -> None:
    """Spark keeps the four names in no order, and the user's names unchanged."""
    union = user_read(clock, "zulu").union(user_read(other, "alpha"))
    for second in (0, 1):
        for topic_clock in (clock, other):
            topic_clock.write(second)
            topic_clock.note(second + 1)
        query = output.start(count_per_second(union, "timestamp"))
        query.processAllAvailable()
        query.stop()

    assert clock.counts == [(0, 8), (1, 8)]
    assert {"alpha", "zulu"} < {*names_in(output.checkpoint)}


def test_named_source_without_marks_is_refused(
    evolving: SparkSession, clock: Clock, output: QueryOutput
) -> None:
    """It may be part of a union under the marks, whose rows would be dropped."""
    reader = evolving.readStream.format("rate").name("other")
    timed_rows = user_read(clock, "zulu").select("timestamp")
    query = output.start(reader.load().select("timestamp").union(timed_rows))

    with pytest.raises(
        PySparkException, match=r"cover one source, but 2 follow them: .* without a name"
    ):
        query.processAllAvailable()


@pytest.mark.usefixtures("evolving")
@pytest.mark.parametrize("kind", [Clock, NotedClock])
def test_topic_continues_under_its_marks(
    make_clock: MakeClock, output: QueryOutput, kind: type[Clock]
) -> None:
    """The marks come ahead, or from a topic. The checkpoint tools read this offset log, too."""
    clock = make_clock(kind)
    for second in (0, 1):
        clock.write(second)
        clock.note(second + 1)
        clock.run()

    place = str(output.checkpoint)
    result = Commands(clock.url)("doctor", clock.name, "--checkpoint", place, "--json")
    (checkpoint_verdict,) = (
        verdict for verdict in result.json["verdicts"] if verdict["check"] == "checkpoint"
    )
    assert clock.counts == [(0, 4), (1, 4)]
    assert read_committed_offsets(place, clock.name).position == {0: 4, 1: 4}
    assert (checkpoint_verdict["outcome"], len(names_in(output.checkpoint))) == ("ok", 2)


@pytest.mark.usefixtures("session_by_name")
def test_sources_without_a_name_are_known_by_their_place(
    spark: SparkSession, controller: Served, output: QueryOutput
) -> None:
    """Spark writes source 1 before source 0. Marks come before their events."""
    ticks = Ticks(spark, controller, output.checkpoint)
    ticks.marks.note("w", 3000, {0: 30})
    query = output.start(count_per_second(ticks.add_watermark(), "timestamp"))

    assert output.will_have((0, 10), (1, 10), (2, 10))
    query.stop()
    assert names_in(output.checkpoint) == ["0", "1"]
