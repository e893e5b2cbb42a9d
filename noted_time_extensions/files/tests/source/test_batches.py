"""Queries on a file log, without Spark; see `batches/*.txt`.

A paragraph of these files has a fact, more about it, and acts on the log of the stream `flights`,
indented. Behind an arrow is the answer of an act, in which `…` stands for any text:

    append 0 a@1000 b@2000       a file of segment 0 has the rows a and b of these times, in ms
    note 1500                    the writer notes a time for all rows; `note 1500 0:9` for others
    query rows=2 start=1000      from here on, a new query reads, with these options
    restart rows=5               the query continues from its checkpoint, with other options
    read -> a 999; b,c 1499      the rows and the watermark of all batches that there are
    read backlog -> True; False  these fields of them
    first -> a 999               likewise, but the query continues after the first batch
    run -> 1 1500 0:2            the number, the lower and the end of each batch that a run plans
    window 0 5 -> a,b of 3       the rows of a complete window, and how many are read to find them
    logged missing -> …          the messages with this word that are logged
"""

import shutil
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from noted_time import BacklogPolicy, Rejected
from noted_time.values import ScaleEvent
from noted_time_extensions.files import Batches, Columns, ReadRange
from noted_time_extensions.files.layout import file_name, segment_directory
from noted_time_extensions.files.spark.log_files import LogFile, find_first_offsets
from noted_time_extensions.files.spark.options import Option
from noted_time_extensions.files.tests.support.log_reading import (
    Batch,
    build_query,
    open_reader,
    plan_run,
    read_batches,
    read_window,
    replay_batch,
)
from spark_integration import CatchUp, Ingestion
from spark_integration.marks.offset import NotedOffset
from spark_integration.marks.time_range import TimeRange
from tests.core.test_scenarios import show_value
from tests.support.disorder import disorder, replay
from tests.support.noted_stream import NotedStream, table
from tests.support.paragraphs import read_paragraphs
from tests.support.scenarios import Scenario
from tools.trials.calls import wire
from tools.trials.served import Served

SCENARIOS: list[Any] = []
for path in sorted(Path(__file__).with_name("batches").glob("*.txt")):
    SCENARIOS += read_paragraphs(path)


def show_batch(batch: Batch, fields: tuple[str, ...]) -> str:
    """Return these fields of a batch, as the scenarios write them."""
    values = {
        "rows": [name for _, name in batch.rows],
        "watermark": batch.watermark,
        "begin": batch.end.begin,
        "backlog": batch.end.backlog,
    }
    return " ".join(show_value(values[field]) for field in fields)


def choose_options(fields: dict[str, Any]) -> list[Option]:
    """Return the options of a query, which are removed from the words."""
    chosen_options: list[Option] = []
    if "rows" in fields:
        chosen_options.append(Batches(fields.pop("rows")))
    if {"start", "end"} & fields.keys():
        chosen_options.append(ReadRange(fields.pop("start", None), fields.pop("end", None)))
    if "behind" in fields:
        behind = BacklogPolicy(reader_lag_ms=fields.pop("behind"))
        chosen_options.append(CatchUp(behind, fields.pop("most", None)))
    if "lag" in fields:
        chosen_options.append(Ingestion(fields.pop("lag")))
    return chosen_options


class LogScenario(Scenario):
    """A file log, and a query on it."""

    def __init__(
        self, flights: NotedStream, server: Served, caplog: pytest.LogCaptureFixture
    ) -> None:
        super().__init__(caplog)
        self.flights = flights
        self.server = server
        self.subject = flights.marks
        self.lost = server.lose_writes()
        self.stop = server.stop
        self.start = server.start
        self.query()

    def backup(self) -> None:
        """Copy the controller's database."""
        self.lost.__enter__()

    def restore(self) -> None:
        """Restart the controller with the copy."""
        self.lost.__exit__(None, None, None)

    def stream(self, *domains: str) -> None:
        """Create the stream again, with these domains."""
        self.subject = self.server.stream("flights", *domains)

    def append(self, segment: int, *rows: str) -> None:
        parsed_rows = []
        for row in rows:
            name, time = row.split("@")
            parsed_rows.append((int(time), name))
        self.flights.append(segment, *parsed_rows)

    def skip(self, segment: int, offset: int) -> None:
        """Continue a segment at an offset, as after compaction."""
        self.flights.position[segment] = offset

    def columns(self, segment: int, **values: object) -> None:
        """Append a row with these columns."""
        self.flights.append_table(
            segment, pa.table({name: [value] for name, value in values.items()})
        )

    def note(self, time: int | None, cut: dict[int, int] | None = None, **fields: object) -> None:
        position = wire(cut or self.flights.position)
        note = {"writer": "w", "time": time, "position": position, **fields}
        self.server.post("flights", note)

    def scale(self, sealed: dict[int, int], **created: int) -> None:
        after = {int(segment): (before,) for segment, before in created.items()}
        self.flights.marks.scale(ScaleEvent(sealed, after))

    def delete(self, segment: int, *starts: int) -> None:
        """Delete the files of a segment that begin at these offsets, or all."""
        directory = segment_directory(self.flights.root, "flights", segment)
        for start in starts:
            (directory / file_name("flights", segment, start)).unlink()
        if not starts:
            shutil.rmtree(directory)

    def drop(self) -> None:
        """Delete the stream."""
        self.server.call("DELETE", "/flights")

    def remove(self, writer: str) -> None:
        self.server.call("DELETE", f"/flights/writers/{writer}")

    def query(self, **options: Any) -> None:  # noqa: ANN401 - any option
        self.end: NotedOffset | None = None
        self.restart(**options)

    def restart(self, **fields: Any) -> None:  # noqa: ANN401 - any option
        options = choose_options(fields)
        self.asked = build_query(self.flights, *options, **fields)

    def read(self, *fields: str) -> str:
        return self._read(fields, slice(None))

    def run(self) -> str:
        """Show the number, the lower and the end of each batch that one run plans."""
        offsets = plan_run(self.asked, self.end)
        self.end = offsets[-1]
        batches = []
        for offset in offsets:
            flights = offset.streams["flights"]
            lower = show_value(flights.mark.lower)
            batches.append(f"{offset.run} {lower} {show_value(flights.segments)}")
        return "; ".join(batches)

    def first(self, *fields: str) -> str:
        return self._read(fields, slice(1))

    def _read(self, fields: tuple[str, ...], taken: slice) -> str:
        batches_read = read_batches(self.asked, self.end)[taken]
        self.end = batches_read[-1].end if batches_read else self.end
        shown_names = fields or ("rows", "watermark")
        return "; ".join(show_batch(batch, shown_names) for batch in batches_read) or "-"

    def window(self, start: int, end: int, **options: Any) -> str:  # noqa: ANN401 - any argument
        """Show the rows of a complete window, and how many rows its tasks read."""
        names, columns, count = read_window(self.flights, start, end, **options)
        return f"{show_value(names)} of {count}" + ("" if names else f" with {show_value(columns)}")


@pytest.mark.parametrize("acts", SCENARIOS)
def test_scenario(
    flights: NotedStream, controller: Served, caplog: pytest.LogCaptureFixture, acts: list[str]
) -> None:
    LogScenario(flights, controller, caplog).play(acts)


@pytest.mark.parametrize(
    "options",
    [
        (Batches(15),),
        (Batches(9), CatchUp(BacklogPolicy(reader_lag_ms=1), 30)),
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
    planned_batches = read_batches(build_query(flights, *options))
    replay(flights, steps[20:])
    controller.stop()
    start = build_query(flights).beginning
    replayed_batches = []
    for batch in planned_batches:
        query = build_query(flights, Batches(5))
        replayed_batches.append(replay_batch(query, start, batch.end))
        start = batch.end
    controller.start()

    assert (replayed_batches, len(planned_batches) > 3) == (planned_batches, True)


SECOND = 1000
EVERY_OPTION = (
    Batches(20),
    Columns(late="keep"),
    CatchUp(BacklogPolicy(reader_lag_ms=SECOND), max_rows_per_trigger=30),
)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", [(), (Batches(7),), EVERY_OPTION])
def test_streams_over_consecutive_ranges_give_each_row_once(
    flights: NotedStream, seed: int, options: tuple[Option, ...]
) -> None:
    """Two writers share a segment, rows are up to 8 s late, and each batch is a restart."""
    steps = disorder(seed, events=25)
    replay(flights, steps)
    bounds = [None, 3 * SECOND, 8 * SECOND, 8 * SECOND + 1, None]
    rows_found = []
    for start, end in pairwise(bounds):
        query = build_query(flights, ReadRange(start, end), *options, on_seal="hold")
        for batch in read_batches(query):
            for time, _ in batch.rows:
                assert (start or 0) <= time < (end or time + 1)
            rows_found += batch.rows

    rows = chain.from_iterable(step.rows for step in steps)
    assert sorted(rows_found) == sorted(rows)


def test_finished_range_does_not_change(flights: NotedStream) -> None:
    """Later rows and notes do not change it, and it is not behind."""
    flights.append(0, (100, "a"), (2500, "b"))
    flights.note(2 * SECOND)
    query = build_query(flights, ReadRange(end_at=2 * SECOND))
    (batch,) = read_batches(query)
    flights.note(7 * SECOND)
    flights.append(0, (7100, "c"))
    flights.note(9 * SECOND)
    reader = open_reader(query)
    reader.latestOffset(batch.end.to_json(), reader.getDefaultReadLimit())
    latest = reader.reportLatestOffset()
    reader.stop()

    assert read_batches(query, batch.end) == []
    assert latest is not None
    assert (latest["segments"], latest["last_lower"]) == ({"0": 2}, 2 * SECOND)
    assert (latest["watermark"], latest["because"]) == (
        2 * SECOND,
        "the range is read to its end_at",
    )


def test_segment_without_statistics_is_read_from_its_beginning(flights: NotedStream) -> None:
    """The log may also end before the start cut, or be empty."""
    path = flights.append_table(0, table((1, "a"), (9, "b")), write_statistics=False)
    files = {0: [LogFile(path, 0, 2)], 1: []}

    assert find_first_offsets(files, "time", 5, {0: 7, 1: 40}) == {0: 0}


@pytest.mark.parametrize(
    ("from_cut", "final", "sentence"),
    [
        ({0: 40}, {}, "segment 0: offsets 40 to 50 are missing"),
        ({}, {}, "segment 0: offsets 0 to 50 are missing"),
        ({0: 60, 1: 3}, {1: 9}, "segment 1: offsets 3 to 9 are missing"),
    ],
)
def test_deleted_rows_of_the_range_fail_the_query(
    from_cut: dict[int, int], final: dict[int, int], sentence: str
) -> None:
    """Rows above the start cut must exist, or all rows if it is unknown.

    Sealed segments are checked, too.
    """
    files = {0: [LogFile(Path("late"), 50, 60)], 1: []}

    with pytest.raises(Rejected, match=sentence):
        find_first_offsets(files, "time", 5, from_cut, final)


def test_rows_without_a_time_are_in_no_range() -> None:
    """They are read without bounds."""
    instant = pa.timestamp("us", "UTC")
    rows = pa.record_batch({"at": pa.array([1000, 2000, None, 3000], instant)})

    def count_kept(times: TimeRange) -> list[int]:
        return [batch.num_rows for batch in times.filter_rows(iter([rows]), "at")]

    ranges = [TimeRange(), TimeRange(2), TimeRange(None, 2), TimeRange(2, 3)]
    assert [count_kept(times) for times in ranges] == [[4], [2], [1], [1]]


def test_checkpoint_of_another_log_is_refused(
    flights: NotedStream, controller: Served, tmp_path: Path
) -> None:
    """The stream, domain or root differs, in a new batch or a rerun. The error names both."""
    flights.append(0, (1000, "a"), (2000, "b"))
    flights.note(1500)
    query = build_query(flights)
    (batch,) = read_batches(query)
    other_checkpoints = {
        "landings": replace(query, stream="landings"),
        "order_time": replace(query, domain="order_time"),
        f"{tmp_path}/moved": replace(query, root=str(tmp_path / "moved")),
    }
    for name in ("landings", "flights"):
        for root in (flights.root, tmp_path / "moved"):
            NotedStream(root, name, controller, "default", "order_time").append(0, (1, "c"))
    mine = f"stream 'flights', domain 'default', under {flights.root}, and"
    for name, other in other_checkpoints.items():
        with pytest.raises(Rejected, match=f"the checkpoint is of {mine} the query reads .*{name}"):
            read_batches(other, batch.end)
        with pytest.raises(Rejected, match="start a query with a new checkpoint"):
            replay_batch(other, other.beginning, batch.end)


def test_root_of_a_log_may_be_spelled_otherwise(flights: NotedStream) -> None:
    flights.append(0, (1000, "a"), (2000, "b"))
    flights.note(1500)
    query = build_query(flights, Batches(1))
    first, second = read_batches(query)
    otherwise = replace(query, root=f"{flights.root}/../log/")

    assert read_batches(otherwise, first.end) == [second]
