"""Rows that marks name, but that the log does not have; no Spark runs here."""

import shutil

import pytest

from noted_time.filelog import segment_directory
from noted_time.values import Rejected, ScaleEvent
from spark_integration import Batches
from tests.support.log_reading import build_query, open_reader, read_batches
from tests.support.noted_stream import NotedStream

SECOND = 1000


def scale(flights: NotedStream) -> NotedStream:
    """Seal segment 0 at two rows, write a row to its successor, and return the stream."""
    flights.append(0, (100, "a"), (200, "b"))
    flights.note(SECOND)
    flights.marks.scale(ScaleEvent({0: 2}, {1: (0,)}))
    flights.append(1, (1500, "c"))
    flights.note(2 * SECOND)
    return flights


def delete_files(flights: NotedStream, segment: int) -> NotedStream:
    """Delete all files of a segment, as retention does."""
    shutil.rmtree(segment_directory(flights.root, flights.name, segment))
    return flights


@pytest.mark.parametrize(("ending", "lower"), [("scaled", 2 * SECOND), ("sealed", 2 * SECOND + 1)])
def test_sealed_segment_without_files_is_not_waited_for(
    flights: NotedStream, ending: str, lower: int
) -> None:
    """A new query begins with the existing rows. The segment or the stream is sealed."""
    if ending == "scaled":
        scale(flights)
    else:
        flights.append(0, (100, "a"))
        flights.append(1, (1500, "c"))
        flights.note(2 * SECOND)
        flights.marks.seal()
    delete_files(flights, 0)

    (batch,) = read_batches(build_query(flights, on_seal="hold", strict=False))
    assert (batch.rows, batch.watermark) == ([(1500, "c")], lower)


def test_unread_rows_of_a_sealed_segment_are_named(flights: NotedStream) -> None:
    """The query has read the first of two rows."""
    query = build_query(scale(flights), Batches(1))
    first = read_batches(query)[0]
    delete_files(flights, 0)

    with pytest.raises(Rejected, match="offsets 1 to 2 are missing"):
        read_batches(query, first.end)


def test_log_without_the_rows_of_a_mark_is_reported_once(
    flights: NotedStream, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows of an open segment may be elsewhere or deleted. The watermark does not advance."""
    flights.append(0, (100, "a"), (200, "b"))
    flights.append(1, (300, "c"))
    flights.note(SECOND)
    reader = open_reader(build_query(delete_files(flights, 0)))
    start = reader.initialOffset()
    for _ in range(2):
        start = reader.latestOffset(start, reader.getDefaultReadLimit())
    reader.stop()

    messages = [each.getMessage() for each in caplog.records if each.name == "noted_time.spark"]
    warning, waits = messages
    assert warning == (
        "flights: the last mark needs segment 0 up to offset 2, and the log under "
        f"{flights.root} has it up to 0: the watermark does not advance past the marks before"
    )
    assert "needs segment 0 to 2, as " in waits
    assert "mark" not in start["noted_streams"]["flights"]
