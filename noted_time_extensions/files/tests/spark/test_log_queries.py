"""The positions that a query on a file log reports, and the names of its sources."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from noted_time_extensions.files.tests.support.reads import Reads
from spark_integration import PositionListener
from tests.spark.test_named_sources import evolving, names_in, session_by_name
from tests.support.noted_stream import NotedStream
from tests.support.queries import join_within_second
from tests.support.query_output import QueryOutput
from tools.trials.served import Served
from tools.trials.waiting import eventually

__all__ = ["evolving", "session_by_name"]

pytestmark = pytest.mark.spark


@pytest.fixture
def listener(read: Reads, controller: Served) -> Iterator[PositionListener]:
    """Return a listener that the session has while a test runs."""
    listener = PositionListener("flights", "counters", "one", controller=controller.url)
    read.spark.streams.addListener(listener)
    yield listener
    read.spark.streams.removeListener(listener)
    listener.close()


@pytest.mark.shows("PositionListener")
@pytest.mark.usefixtures("listener")
def test_committed_offsets_are_reported_and_the_end_goes_offline(
    read: Reads, flights: NotedStream, output: QueryOutput, controller: Served
) -> None:
    """One batch reads three rows, and the query ends."""
    flights.append(0, (1000, "a"), (1100, "b"))
    flights.append(3, (1200, "c"))
    output.catch_up(read(flights))

    assert eventually(lambda: controller.read_group("flights", "counters"), ({"0": 2, "3": 1}, []))


@pytest.mark.acceptance
@pytest.mark.usefixtures("evolving")
def test_logs_of_similar_names_are_separate_sources(
    read: Reads, controller: Served, tmp_path: Path, output: QueryOutput
) -> None:
    """The names follow from the logs, so a restart continues at the right offsets."""
    dotted_stream, lined_stream = (
        NotedStream(tmp_path, name, controller).begin_log() for name in ("a.b", "a_b")
    )
    joined_rows = join_within_second(read(dotted_stream), read(lined_stream))
    for time, name in ((1000, "early"), (9000, "late")):
        for stream in (dotted_stream, lined_stream):
            stream.append(0, (time, name))
            stream.note(time + 5000)
        output.catch_up(joined_rows)

    assert output.rows == [("early",), ("late",)]
    names = names_in(output.checkpoint)
    assert [name.rpartition("_")[0] for name in names] == ["noted_time_log_a_b_default"] * 2
