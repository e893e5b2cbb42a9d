"""Queries on topics with backlogs or a lag, on a real broker."""

from collections.abc import Callable
from typing import Any

import pytest

from noted_time import BacklogPolicy, Rejected
from spark_integration import Batches, CatchUp, Columns, Ingestion, ReadRange
from tests.support.clock import START_MS, Clock
from tests.support.offset_log import list_batches, read_plan
from writer_client import IngestionNoter, KafkaEnds, WriterClient

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]

BEHIND = BacklogPolicy(behind_ms=2500)
LIMIT = {"options": {"maxOffsetsPerTrigger": 4}}


def write(clock: Clock, *seconds: int) -> None:
    """Write four records of each second, and note that they are written."""
    for second in seconds:
        clock.write(second)
        clock.note(second + 1)


def read(clock: Clock, *options: CatchUp, **asked: Any) -> None:  # noqa: ANN401 - any parameter
    """Read where the records are that there are, in a run of the query."""
    places = clock.read(*options, **asked).select("partition", "offset")
    query = clock.output.start(places)
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def test_query_behind_gets_the_larger_limit_and_the_flag(clock: Clock) -> None:
    """Once it is near, its next run has the usual limit."""
    write(clock, *range(7))
    read(clock, CatchUp(BEHIND, 12), **LIMIT)
    write(clock, 7)
    read(clock, CatchUp(BEHIND, 12), **LIMIT)

    checkpoint = clock.output.checkpoint
    flags = [
        read_plan(checkpoint, n)[1].get("backlog") for n in list_batches(checkpoint / "offsets")
    ]
    assert (flags[:2], flags[-1]) == ([True, True], False)
    assert [len(rows) for _, rows in sorted(clock.output.batches.items()) if rows] == [12, 12, 4, 4]


@pytest.fixture
def look(clock: Clock) -> Callable[[int], None]:
    """Return a function that lets an observer poll the topic at a second."""
    clock.marks.calls.stream(clock.name, "default", "ingestion")

    def at(second: int) -> None:
        with WriterClient(clock.url, clock.name, "eye", domains=["ingestion"]) as client:
            ends = KafkaEnds(clock.broker.config, clock.name)
            noter = IngestionNoter(client, ends, clock=lambda: START_MS + 1000 * second)
            noter.look()
            client.flush()

    return at


def test_watermark_follows_ingestion_by_the_lag(clock: Clock, look: Callable[[int], None]) -> None:
    """A record older than the lag is late. A record dated ahead closes no window."""
    clock.write(0, 1, 2, 9)
    look(4)
    clock.run(Ingestion(2000), domain="ingestion")
    first = clock.counts
    clock.write(0, 2, 4)
    look(7)
    clock.output.forget_commit()
    clock.run(Ingestion(2000), domain="ingestion")

    assert first == [(0, 4), (1, 4)]
    assert clock.counts == [(0, 4), (1, 4), (2, 8), (4, 4)]


ONLY_LOGS = "is an option of file logs"
INGESTED = {"domain": "ingestion"}


@pytest.mark.parametrize(
    ("options", "asked", "says"),
    [
        ([ReadRange(end_at=9)], {}, f"ReadRange {ONLY_LOGS}: read_complete_kafka reads a range"),
        ([Columns()], {}, f"Columns {ONLY_LOGS}: parse= .*, and read_late_kafka reads late rows"),
        ([Batches(5)], {}, f"Batches {ONLY_LOGS}: maxOffsetsPerTrigger, among the options"),
        ([CatchUp(BEHIND), CatchUp(BEHIND)], {}, "options are CatchUp, Ingestion, each at most on"),
        ([CatchUp(BEHIND)], {"marks": "topic"}, 'marks="ahead" or marks="committed"'),
        ([CatchUp(BEHIND, 9)], {}, "replaces maxOffsetsPerTrigger, which the options"),
        ([CatchUp(BEHIND, 3)], LIMIT, r"at least the limit of option maxOffsetsPerTrigger \(4\)"),
        ([Ingestion(5)], {}, "goes with domain='ingestion'"),
        ([], INGESTED, r"or pass Ingestion\(max_event_time_lag_ms=…\)"),
    ],
)
def test_option_of_file_logs_is_refused_for_a_topic(
    clock: Clock, options: list[Any], asked: dict[str, Any], says: str
) -> None:
    """The error names the replacement for a topic."""
    with pytest.raises(Rejected, match=says):
        clock.read(*options, **asked)
