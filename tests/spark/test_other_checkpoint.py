"""A query continues from its own checkpoint only, not from another log's."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from demo.trials.served import Served
from noted_time import Rejected
from spark_integration import Batches
from spark_integration.checkpoint.source_positions import KafkaTopic
from spark_integration.marks.offset import NotedOffset, StreamFacts, StreamOffset
from spark_integration.marks_source.query import MarksQuery
from spark_integration.marks_source.source import MarksReader
from tests.support.log_reading import build_query, read_batches, replay_batch
from tests.support.noted_stream import NotedStream


def test_checkpoint_of_another_log_is_refused(
    flights: NotedStream, controller: Served, tmp_path: Path
) -> None:
    """The stream, domain or root differs, in a new batch or a rerun. The error names both."""
    flights.append(0, (1000, "a"), (2000, "b"))
    flights.note(1500)
    query = build_query(flights)
    (batch,) = read_batches(query)
    others = {
        "landings": replace(query, stream="landings"),
        "order_time": replace(query, domain="order_time"),
        f"{tmp_path}/moved": replace(query, root=str(tmp_path / "moved")),
    }
    for name in ("landings", "flights"):
        for root in (flights.root, tmp_path / "moved"):
            NotedStream(root, name, controller, "default", "order_time").append(0, (1, "c"))
    mine = f"stream 'flights', domain 'default', under {flights.root}, and"
    for name, other in others.items():
        with pytest.raises(Rejected, match=f"the checkpoint is of {mine} the query reads .*{name}"):
            read_batches(other, batch.end)
        with pytest.raises(Rejected, match="start a query with a new checkpoint"):
            replay_batch(other, other.beginning, batch.end)


def test_only_domain_may_be_named_or_not(controller: Served, tmp_path: Path) -> None:
    """A restart may name the domain or leave it out. A stream of several domains needs the name."""
    stream = NotedStream(tmp_path, "shipped", controller, "ship_time")
    stream.append(0, (1000, "a"), (2000, "b"))
    stream.note(1500)
    unnamed = replace(build_query(stream, Batches(1)), domain=None)
    named = replace(unnamed, domain="ship_time")

    ends = [batch.end for batch in read_batches(unnamed)]
    for query in (named, unnamed):
        assert [b.end.streams for b in read_batches(query, ends[0])] == [ends[1].streams]
    assert read_batches(unnamed, read_batches(named)[0].end) == read_batches(unnamed)[1:]


def test_root_of_a_log_may_be_spelled_otherwise(flights: NotedStream) -> None:
    flights.append(0, (1000, "a"), (2000, "b"))
    flights.note(1500)
    query = build_query(flights, Batches(1))
    first, second = read_batches(query)
    otherwise = replace(query, root=f"{flights.root}/../log/")

    assert read_batches(otherwise, first.end) == [second]


@pytest.mark.parametrize(
    ("stream", "domain", "own"), [("flights", None, "'flights'"), ("ticks", "ship", "'ticks', .*")]
)
def test_checkpoint_with_other_marks_is_refused(
    controller: Served, tmp_path: Path, stream: str, domain: str | None, own: str
) -> None:
    """The stream or domain differs."""
    query = MarksQuery({"ticks": KafkaTopic("ticks")}, controller.url, str(tmp_path), "left")
    reader = MarksReader(query)
    read = StreamOffset(facts=StreamFacts(domain))
    other = NotedOffset({stream: read}, "5b1e", run=1).to_json()

    with pytest.raises(Rejected, match=f"is of stream {own}, and the query reads"):
        reader.latestOffset(other, reader.getDefaultReadLimit())
    reader.stop()


def test_task_of_the_marks_source_is_one_row() -> None:
    """The time is the watermark, in microseconds."""
    reader = MarksReader(MarksQuery({}, "", ""))
    (rows,) = reader.read(InputPartition(1500))

    assert rows.to_pydict() == {"time": [datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)]}
