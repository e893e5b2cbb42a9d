"""Sources that feed claims: one more micro-batch follows a mark, under its watermark."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from noted_time_extensions.files.tests.support.log_reading import build_query, open_reader, plan_run
from noted_time_extensions.files.tests.support.reads import Reads, write_rows
from spark_integration.checkpoint.query_progress import PlannedBatch, QueryProgress
from tests.support.noted_stream import NotedStream
from tests.support.offset_log import list_batches
from tests.support.query_output import QueryOutput
from tests.support.spark_sessions import wait_for_end
from tools.trials.starting import start_query


def test_additional_batch_states_the_mark_again_without_rows(flights: NotedStream) -> None:
    """A rerun has the same task, although only its offsets are known."""
    query = build_query(write_rows(flights, 2001), batch_after_mark=True)
    first, more = plan_run(query)
    tasks = [open_reader(query).partitions(first.to_json(), more.to_json()) for _ in range(2)]

    for batch_tasks in tasks:
        (task,) = batch_tasks
        assert (task.work, task.mark_ms) == ((), 2000)  # type: ignore[attr-defined]


def plans(checkpoint: Path) -> list[PlannedBatch]:
    """Return all batches of a query."""
    progress = QueryProgress(str(checkpoint))
    return [progress.read_batch(batch) for batch in list_batches(checkpoint / "offsets")]


class DyingSink:
    """A sink that dies after its first commit, and skips committed batches."""

    def __init__(self) -> None:
        self._committed: set[int] = set()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Commit a batch."""
        if batch_id in self._committed:
            return
        batch.collect()
        self._committed.add(batch_id)
        if len(self._committed) == 1:
            raise RuntimeError


@pytest.mark.spark
def test_mark_of_a_skipped_batch_is_in_a_later_watermark(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Spark reruns the batch after a crash, and the sink does not read it."""
    events = read(write_rows(flights, 2001), batch_after_mark=True)
    sink = DyingSink()
    writer = events.writeStream.foreachBatch(sink).trigger(availableNow=True)
    start = writer.option("checkpointLocation", str(output.checkpoint)).start
    with pytest.raises(PySparkException):
        wait_for_end(start_query(start))
    wait_for_end(start_query(start))

    planned_batches = plans(output.checkpoint)
    assert [batch.watermark_ms for batch in planned_batches] == [None, None, 2001]


@pytest.mark.spark
def test_query_with_state_has_no_additional_batch(
    read: Reads, flights: NotedStream, tmp_path: Path
) -> None:
    """Spark itself plans a batch under the new watermark."""
    write_rows(flights, 2001)
    outputs = [QueryOutput(tmp_path / name) for name in ("usual", "feeding")]
    for output, feeds in zip(outputs, (False, True), strict=True):
        output.catch_up(read.counts(flights, batch_after_mark=feeds))

    watermarks = [[batch.watermark_ms for batch in plans(output.checkpoint)] for output in outputs]
    assert watermarks == [[None, 2001], [None, 2001]]
    assert outputs[0].rows == outputs[1].rows == [(1, 1)]
