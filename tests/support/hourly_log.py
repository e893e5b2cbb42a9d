"""Hours of a file log, written out of order by two writers that declare their largest times."""

import random
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

import spark_integration
from demo.trials.served import Served
from demo.trials.starting import retry_start
from spark_integration import BatchRead, Columns, Noted
from tests.support.bundles import take_fields
from tests.support.noted_stream import NotedStream

HOUR = 3_600_000


def build_note(writer: str, time: int, position: dict[int, int], max_time: int) -> dict[str, Any]:
    wire = {str(segment): offset for segment, offset in position.items()}
    return {"writer": writer, "time": time, "position": wire, "max_time": max_time}


class HourlyLog(NamedTuple):
    """A file log, and its controller."""

    files: NotedStream
    served: Served

    def note(self, writer: str, time: int, position: dict[int, int], max_time: int) -> None:
        """Note that the writer's events below `time` lie below the position."""
        self.notes([build_note(writer, time, position, max_time)])

    def notes(self, notes: list[dict[str, Any]]) -> None:
        """Post notes in order; each makes a mark if it can."""
        for first in range(0, len(notes), 1000):
            self.served.call("POST", "/flights/notes", {"notes": notes[first : first + 1000]})

    def read(
        self,
        spark: SparkSession,
        start: Any,  # noqa: ANN401 - any time
        end: Any,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> DataFrame:
        chosen = {"event_time": "time", **options}
        noted, read = Noted(self.served.url, "flights"), take_fields(BatchRead, chosen)
        columns = Columns(chosen.pop("columns", ()), chosen.pop("schema", None))
        return retry_start(
            lambda: spark_integration.read_complete(
                spark, self.files.root, noted, start, end, read, columns, **chosen
            )
        )


def write_hours(log: HourlyLog, hours: int, *, per_hour: int = 20, shared: bool = False) -> None:
    """Write hours of rows out of order, by two writers with a file for each half hour.

    Rows are up to half an hour out of order, and each writer keeps its notes.
    """
    chance = random.Random(4)
    largest, notes = 0, [build_note(writer, 0, {}, 0) for writer in "ab"]
    for half in range(2 * hours):
        begin = half * HOUR // 2
        for number, writer in enumerate(("a", "b")):
            times = [begin + chance.randrange(HOUR) for _ in range(per_hour // 4)]
            largest = max(largest, *times)
            segment = 0 if shared else number
            rows = [(time, f"{writer}{half}.{n}") for n, time in enumerate(sorted(times))]
            chance.shuffle(rows)
            log.files.append(segment, *rows, writer=writer)
        for number, writer in enumerate(("a", "b")):
            segment = 0 if shared else number
            position = {segment: log.files.position[segment]}
            notes.append(build_note(writer, begin + HOUR // 2, position, largest))
    log.notes(notes)
