"""The batches of a query over a file log, without Spark; some logs lack rows of their marks."""

import shutil

import pyarrow as pa
import pytest

from demo.trials.served import Served
from noted_time import BacklogPolicy
from noted_time.filelog import segment_directory
from noted_time.filelog.layout import UnreadableFile
from noted_time.values import Rejected, ScaleEvent, UnknownStream
from spark_integration import Batches, CatchUp, Ingestion, ReadRange
from spark_integration.log.options import Option
from spark_integration.marks.watermark import LAST_MS
from tests.spark.conftest import write_rows
from tests.support.disorder import disorder, replay
from tests.support.log_reading import Batch, build_query, open_reader, read_batches, replay_batch
from tests.support.noted_stream import NotedStream

YEAR_MS = 365 * 24 * 3600 * 1000


def names(found: list[Batch]) -> list[list[str]]:
    """Return the names of the rows of each batch."""
    return [[name for _, name in batch.rows] for batch in found]


@pytest.mark.parametrize(
    "options",
    [
        (Batches(15),),
        (Batches(9), CatchUp(BacklogPolicy(behind_ms=1), 30)),
        (Batches(15), ReadRange(2000, 12_000)),
    ],
    ids=["limit", "catch up", "range"],
)
def test_rerun_batch_is_identical_and_needs_no_controller(
    flights: NotedStream, controller: Served, options: tuple[Option, ...]
) -> None:
    """Marks decide the end of a batch only when it is planned."""
    steps = disorder(5)
    replay(flights, steps[:20])
    planned = read_batches(build_query(flights, *options))
    replay(flights, steps[20:])
    controller.stop()
    ends = [build_query(flights).beginning, *(batch.end for batch in planned)]
    again = [
        replay_batch(build_query(flights, Batches(5)), start, each.end)
        for start, each in zip(ends, planned, strict=False)
    ]
    controller.start()

    assert (again, len(planned) > 3) == (planned, True)


@pytest.mark.parametrize(("most", "large"), [(40, [40, 40, 20]), (None, [100])])
def test_batches_are_larger_while_the_query_is_behind(
    flights: NotedStream, most: int | None, large: list[int]
) -> None:
    """They are small again once the query is near the end."""
    query = build_query(flights, Batches(5), CatchUp(BacklogPolicy(behind_ms=1500), most))
    for second in range(10):
        flights.append(0, *((second * 1000 + ms, "a") for ms in range(10)))
        flights.note((second + 1) * 1000)
    found = read_batches(query)
    for second in range(10, 12):
        flights.append(0, *((second * 1000 + ms, "a") for ms in range(10)))
    flights.note(11_000)
    found += read_batches(query, found[-1].end)

    read = [(len(batch.rows), batch.end.backlog) for batch in found if batch.rows]
    assert read == [*((size, True) for size in large), *[(5, False)] * 4]


def test_rows_are_read_while_the_controller_is_away(
    flights: NotedStream, controller: Served
) -> None:
    """The watermark stays until the controller is back."""
    query = build_query(flights)
    flights.append(0, (1000, "a"))
    flights.note(1500)
    found = read_batches(query)
    controller.stop()
    flights.append(0, (1600, "b"))
    found += read_batches(query, found[-1].end)
    controller.start()
    flights.note(2000)
    found += read_batches(query, found[-1].end)

    assert names(found) == [["a"], ["b"], []]
    assert [batch.watermark for batch in found] == [1499, 1499, 1999]


def test_query_ahead_of_its_stream_continues_at_the_last_mark(
    flights: NotedStream, controller: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """The controller's database went back.

    The watermark waits for later times, and no row comes twice.
    """
    query = build_query(flights)
    flights.append(0, (1000, "a"))
    flights.note(1500)
    with controller.lose_writes():
        flights.append(0, (2500, "b"))
        for time in (2600, 2800, 3000):
            flights.note(time)
        found = read_batches(query)
    for time in (2000, 5000):
        flights.append(0, (3500, "c"))
        flights.note(time)
        found += read_batches(query, found[-1].end)

    assert names(found) == [["a", "b"], ["c"], ["c"]]
    assert [batch.watermark for batch in found] == [2999, 2999, 4999]
    assert "do not continue those known here" in caplog.text


def test_each_domain_moves_the_watermark_of_its_own_time(
    flights: NotedStream, controller: Served
) -> None:
    """A query on ship time waits, although order time is far ahead."""
    flights.marks = controller.stream("flights", "order", "ship")
    flights.append(0, (1000, "a"))
    flights.marks.note("w", 9000, {0: 1}, "order")
    flights.marks.note("w", 1500, {0: 1}, "ship")
    found = [read_batches(build_query(flights, domain=domain))[-1] for domain in ("order", "ship")]

    assert [batch.watermark for batch in found] == [8999, 1499]


def test_successor_is_read_after_the_end_of_its_predecessor(flights: NotedStream) -> None:
    """No mark that names the successor is admitted before."""
    flights.append(0, (1000, "a"), (1100, "b"), (1200, "c"))
    flights.note(1050)
    flights.marks.scale(ScaleEvent({0: 3}, {1: (0,), 2: (0,)}))
    flights.append(1, (2500, "d"))
    flights.append(2, (1300, "e"), (2600, "f"))
    flights.note(2000)
    found = read_batches(build_query(flights, Batches(1)))
    before = [batch for batch in found if batch.read.segments.get(0, 0) < 3]

    assert {batch.watermark for batch in before} <= {None, 1049}
    assert found[-1].watermark == 1999


def test_unknown_stream_fails_the_query_at_its_start(
    flights: NotedStream, controller: Served
) -> None:
    """Otherwise its watermark would never advance."""
    flights.append(0, (1000, "a"))
    query = build_query(flights)
    controller.call("DELETE", "/flights")

    with pytest.raises(UnknownStream, match="there is no stream 'flights'"):
        read_batches(query)


def test_file_without_a_column_is_named(flights: NotedStream) -> None:
    flights.append(0, (1000, "a"))
    flights.append_table(0, pa.table({"time": [1], "x": [1]}))

    with pytest.raises(UnreadableFile, match=r"flights\+0\+0000000001.parquet: has no column name"):
        read_batches(build_query(flights))


def test_watermark_follows_ingestion_by_the_lag(flights: NotedStream) -> None:
    """A row that was older than the lag on ingestion is late."""
    flights.marks = flights.server.stream(flights.name, "ingestion")
    flights.append(0, (2500, "a"), (4500, "b"))
    flights.note(5000)
    query = build_query(flights, Ingestion(2000), domain="ingestion", event_time="time")

    assert [batch.watermark for batch in read_batches(query)] == [2999]


def test_seal_counts_once_the_final_cut_is_read(flights: NotedStream) -> None:
    """Several runs read the final cut. The last rows came after the seal."""
    query = build_query(write_rows(flights, 2000), Batches(2))
    first = read_batches(query)
    flights.marks.seal(cut={0: 3, 1: 2})
    sealed = read_batches(query, first[-1].end)
    flights.append(0, (9700, "d"))
    flights.append(1, (9900, "e"))
    last = read_batches(query, first[-1].end)

    assert sealed == []
    assert [row for batch in last for row in batch.rows] == [(9700, "d"), (9900, "e")]
    assert [batch.watermark for batch in (first[-1], last[-1])] == [1999, LAST_MS]
    assert read_batches(query, last[-1].end) == []


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
