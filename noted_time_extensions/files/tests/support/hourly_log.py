"""Hours of a file log, written out of order by two writers that declare their largest times."""

import random
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from noted_time_extensions import files
from noted_time_extensions.files import Columns
from spark_integration import BatchRead, Noted
from tests.support.bundles import take_fields
from tests.support.noted_stream import NotedStream
from tools.trials.starting import retry_start

HOUR = 3_600_000


def build_note(writer: str, time: int, position: dict[int, int], max_time: int) -> dict[str, Any]:
    wire = {str(segment): offset for segment, offset in position.items()}
    return {"writer": writer, "time": time, "position": wire, "max_time": max_time}


def read_between(
    spark: SparkSession,
    stream: NotedStream,
    start: Any,  # noqa: ANN401 - any time
    end: Any,  # noqa: ANN401
    **options: Any,  # noqa: ANN401
) -> DataFrame:
    """Return the rows of a complete window."""
    chosen_options = {"event_time": "time", **options}
    noted_stream, batch_read = (
        Noted(stream.name, controller=stream.server.url),
        take_fields(BatchRead, chosen_options),
    )
    own_form = {
        name: chosen_options.pop(name)
        for name in ("zone", "unit", "format")
        if name in chosen_options
    }
    columns = Columns(
        chosen_options.pop("columns", ()), chosen_options.pop("schema", None), **own_form
    )
    return retry_start(
        lambda: files.read_complete(
            spark, stream.root, noted_stream, start, end, batch_read, columns, **chosen_options
        )
    )


def write_hours(stream: NotedStream, hours: int, *, is_shared: bool = False) -> None:
    """Write hours of 20 rows out of order, by two writers with a file for each half hour.

    Rows are up to half an hour out of order, and each writer keeps its notes.
    """
    chance = random.Random(4)
    largest = 0
    notes = [build_note(writer, 0, {}, 0) for writer in "ab"]
    for half in range(2 * hours):
        begin = half * HOUR // 2
        for number, writer in enumerate(("a", "b")):
            times = [begin + chance.randrange(HOUR) for _ in range(5)]
            largest = max(largest, *times)
            segment = 0 if is_shared else number
            rows = [(time, f"{writer}{half}.{n}") for n, time in enumerate(sorted(times))]
            chance.shuffle(rows)
            stream.append(segment, *rows, writer=writer)
        for number, writer in enumerate(("a", "b")):
            segment = 0 if is_shared else number
            position = {segment: stream.position[segment]}
            notes.append(build_note(writer, begin + HOUR // 2, position, largest))
    stream.server.post(stream.name, *notes)
