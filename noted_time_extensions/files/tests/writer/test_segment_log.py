"""The writer of the file log: files, schemas, positions and repeated batches."""

import multiprocessing
import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noted_time import Recreated, Rejected
from noted_time.stores.port import Publish
from noted_time_extensions.files import Batch, SegmentLogWriter, segment_files
from noted_time_extensions.files.segment_files import SegmentFiles
from noted_time_extensions.files.tests.support.appending import append_many, files, rows
from tests.writer_client.scripted import URL, Scripted, accepted, results
from tools.trials.served import Served
from writer_client import WriterClient

INSTANT = datetime(2013, 1, 1, 5, 17, tzinfo=UTC)

INSTANT_MS = 1357017420000


def writer(root: Path, **options: Any) -> SegmentLogWriter:  # noqa: ANN401 - as the class has them
    """Return a writer of the stream `flights`, by default of segment 0."""
    return SegmentLogWriter(root, "flights", **{"event_time": "time", **options})


def test_append_returns_the_segment_end(tmp_path: Path) -> None:
    """Rows may come in any form."""
    log = writer(tmp_path)
    ends = [
        log.append([{"time": 1}, {"time": 2}]),
        log.append(pa.table({"time": [3, 4, 5]})),
        log.append(pa.record_batch({"time": [6]})),
        log.append(CStream(pa.table({"time": [7]}))),
    ]

    assert (ends, numbers(tmp_path)) == ([2, 5, 6, 7], [*range(1, 8)])


def test_files_are_named_as_archives_are(tmp_path: Path) -> None:
    """Kafka Connect's sinks have the same layout."""
    log = writer(tmp_path, segments=[3])
    log.append([{"time": 1}])
    log.append([{"time": 1}])

    paths = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*"))
    assert paths == [
        "flights/partition=3/flights+3+0000000000.parquet",
        "flights/partition=3/flights+3+0000000001.parquet",
    ]


def test_offset_removed_by_retention_is_not_reused(tmp_path: Path) -> None:
    """A writer slept while retention removed old files."""
    sleeper = writer(tmp_path)
    busy = writer(tmp_path)
    sleeper.append([{"time": 1}])
    for _ in range(4):
        busy.append([{"time": 1}])
    for _, _, path in files(tmp_path)[:3]:
        path.unlink()

    assert sleeper.append([{"time": 1}]) == 6


def test_processes_share_a_segment_without_loss_or_overlap(tmp_path: Path) -> None:
    """Four processes append at once; every row has one offset."""
    spawn = multiprocessing.get_context("spawn")
    names = ["UA", "DL", "AA", "B6"]
    processes = [spawn.Process(target=append_many, args=(tmp_path, name, 25)) for name in names]
    for process in processes:
        process.start()
    seen_count = 0
    while any(process.is_alive() for process in processes):
        seen_count = max(seen_count, len(files(tmp_path)))
        time.sleep(0.01)
    for process in processes:
        process.join()

    starts, ends, _ = zip(*files(tmp_path), strict=True)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    assert (starts, seen_count > 0) == ((0, *ends[:-1]), True)
    numbers_found: dict[str, list[int]] = {name: [] for name in names}
    for row in rows(tmp_path):
        numbers_found[row["writer"]].append(row["time"])
    for found_numbers in numbers_found.values():
        assert sorted(found_numbers) == list(range(75))


def test_a_writer_killed_at_any_moment_leavesfiles(tmp_path: Path) -> None:
    """After kill -9 all visible files are whole, and other writers continue."""
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=append_many, args=(tmp_path, "UA", 100_000))
    process.start()
    while len(files(tmp_path)) < 20:
        time.sleep(0.005)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    end = writer(tmp_path).append([{"time": 0, "writer": "DL"}])

    times_found = [row["time"] for row in rows(tmp_path) if row["writer"] == "UA"]
    assert (times_found, end) == (list(range(len(times_found))), len(times_found) + 1)


@pytest.mark.parametrize(
    ("column", "largest"),
    [
        (pa.array([1, INSTANT_MS]), INSTANT_MS),
        (pa.array([INSTANT], pa.timestamp("s", tz="UTC")), INSTANT_MS),
        (pa.array([INSTANT], pa.timestamp("ms", tz="America/New_York")), INSTANT_MS),
        (pa.array([INSTANT_MS * 1000], pa.timestamp("us")), INSTANT_MS),
        (pa.array([INSTANT_MS * 1000 + 1], pa.timestamp("us")), INSTANT_MS + 1),
        (pa.array([INSTANT_MS * 10**6 + 1], pa.timestamp("ns", tz="UTC")), INSTANT_MS + 1),
    ],
)
def test_event_times_of_any_unit_are_understood(
    tmp_path: Path, column: pa.Array, largest: int
) -> None:
    """The largest event time is rounded up to ms."""
    log = writer(tmp_path)
    for _ in range(2):
        log.append(pa.table({"time": column}))

    assert log.max_time() == largest


@pytest.mark.parametrize(
    ("appended", "said"),
    [
        ([{"when": 1}], "no event-time column 'time' among when"),
        ([{"time": 1}, {"time": None}], "event-time column 'time' has 1 nulls"),
        ([{"time": "noon"}], "event-time column 'time' is string, neither int64 (ms) nor a"),
        ([{"time": 1}, {"time": "noon"}], "the rows have no common form: Could not convert"),
        (pa.table({"time": pa.array([1], pa.int32())}), "is int32, neither int64 (ms) nor a time"),
        ({"time": 1}, "rows are dict, neither a DataFrame, nor an Arrow table"),
    ],
)
def test_invalid_rows_are_refused_with_the_reason(
    tmp_path: Path, appended: object, said: str
) -> None:
    """Nothing is written."""
    log = writer(tmp_path)
    with pytest.raises(Rejected) as error:
        log.append(appended)

    assert (said in str(error.value), files(tmp_path)) == (True, [])


@pytest.mark.parametrize(
    ("appended", "said"),
    [
        ([{"time": 1, "gate": 4}], "no column gate"),
        (pa.table({"time": [1]}), "column carrier is missing"),
        (pa.table({"time": [1], "carrier": [7]}), "column carrier is int64, not string"),
    ],
)
def test_schema_unlike_the_segments_is_refused(tmp_path: Path, appended: object, said: str) -> None:
    """The error has the difference."""
    writer(tmp_path).append([{"time": 1, "carrier": "UA"}])
    with pytest.raises(Rejected) as error:
        writer(tmp_path).append(appended)

    assert str(error.value) == f"the rows differ from the segment's schema: {said}"


def test_concurrent_first_appends_agree_on_the_schema(tmp_path: Path) -> None:
    """Two writers that open an empty segment cannot write two schemas."""
    one_writer = writer(tmp_path)
    other = writer(tmp_path)
    one_writer.append([{"time": 1, "carrier": "UA"}])

    with pytest.raises(Rejected, match="column carrier is missing"):
        other.append([{"time": 1}])


def test_columns_may_come_in_another_order(tmp_path: Path) -> None:
    """The segment keeps its order."""
    log = writer(tmp_path)
    log.append(pa.table({"time": [1], "carrier": ["UA"]}))
    log.append(pa.table({"carrier": ["DL"], "time": [2]}))

    assert rows(tmp_path) == [{"time": 1, "carrier": "UA"}, {"time": 2, "carrier": "DL"}]


def test_a_given_schema_holds_from_the_first_row(tmp_path: Path) -> None:
    """With a schema, columns without values still have a type."""
    schema = pa.schema({"time": pa.timestamp("s"), "carrier": pa.string()})
    log = writer(tmp_path, schema=schema)
    for carrier in (None, "UA"):
        log.append([{"time": INSTANT.replace(tzinfo=None), "carrier": carrier}])

    assert [row["carrier"] for row in rows(tmp_path)] == [None, "UA"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("flights+0+0000000000.parquet", b"PAR1 and no more", ": not a whole Parquet file"),
        ("flights+0+0000000000.parquet", b"", ": is empty"),
        ("cargo+0+0000000000.parquet", b"", ": may have rows, "),
        ("part-00000.parquet", b"", ": may have rows, "),
    ],
)
def test_foreign_file_is_refused_with_its_path(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    """Nothing is appended."""
    path = tmp_path / "flights" / "partition=0" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(Rejected) as error:
        writer(tmp_path)

    assert str(error.value).startswith(f"{path}{said}")


def test_marker_and_checksum_files_are_ignored(tmp_path: Path) -> None:
    directory = tmp_path / "flights" / "partition=0"
    directory.mkdir(parents=True)
    for name in ("_SUCCESS", ".flights+0+0000000000.parquet.crc", ".left-behind.parquet.tmp"):
        (directory / name).touch()

    assert writer(tmp_path).append([{"time": 1}]) == 1


def test_a_file_without_rows_cannot_be_followed(tmp_path: Path) -> None:
    """No append could pass its offset."""
    path = tmp_path / "flights" / "partition=0" / "flights+0+0000000000.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"time": pa.array([], pa.int64())}), path)

    with pytest.raises(Rejected, match="holds no rows"):
        writer(tmp_path)


def test_a_segment_that_is_not_open_is_named(tmp_path: Path) -> None:
    """With several segments, each append needs a segment."""
    log = writer(tmp_path, segments=[0, 1])

    with pytest.raises(Rejected, match="segment None is not open: give `segment` as one of 0, 1"):
        log.append([{"time": 1}])


def test_a_data_frame_is_appended_without_its_index(tmp_path: Path) -> None:
    """An index becomes a column only if it has a name."""
    log = writer(tmp_path)
    frame = pd.DataFrame({"time": pd.to_datetime([INSTANT, INSTANT]), "carrier": ["UA", None]})
    ends = [log.append(frame), log.append(frame.iloc[1:]), log.append(frame.set_index("time"))]
    empty = log.append(frame.iloc[:0])

    rows_found = rows(tmp_path)
    assert ([*ends, empty], set(rows_found[0]), rows_found[4]["time"]) == (
        [2, 3, 5, 5],
        {"time", "carrier"},
        INSTANT,
    )


def test_a_data_frame_takes_the_types_of_the_segment(tmp_path: Path) -> None:
    """Nanoseconds become milliseconds if no digit is lost."""
    schema = pa.schema({"time": pa.timestamp("ms", tz="UTC"), "delay": pa.int64()})
    log = writer(tmp_path, schema=schema)
    frame = pd.DataFrame({"time": [pd.Timestamp(INSTANT)], "delay": [7.0]})
    log.append(frame)
    finer = frame.assign(time=[pd.Timestamp(INSTANT) + pd.Timedelta(1, "us")])
    with pytest.raises(Rejected, match="the rows have no common form"):
        log.append(finer)
    with pytest.raises(Rejected, match="no column gate; column delay is missing"):
        log.append(frame.rename(columns={"delay": "gate"}))

    assert rows(tmp_path) == [{"time": INSTANT, "delay": 7}]


class CStream:
    """Gives nothing but a stream of Arrow, as a polars DataFrame does."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested: object = None) -> object:
        return self._table.__arrow_c_stream__(requested)


@pytest.mark.parametrize(
    "naive",
    [
        [{"time": INSTANT.replace(tzinfo=None)}],
        pd.DataFrame({"time": [INSTANT.replace(tzinfo=None)]}),
    ],
    ids=["dicts", "pandas"],
)
def test_event_times_without_a_zone_are_refused(tmp_path: Path, naive: object) -> None:
    """Their hour is unknown; a schema without a zone means UTC."""
    with pytest.raises(Rejected, match=r"column 'time' has no time zone: make it aware"):
        writer(tmp_path).append(naive)

    schema = pa.schema({"time": pa.timestamp("ms")})
    assert writer(tmp_path, schema=schema).append(naive) == 1


def test_position_covers_only_own_appends(tmp_path: Path) -> None:
    """Rows of other writers and empty segments are left out."""
    log = writer(tmp_path, segments=[0, 1])
    log.append([{"time": 1}] * 3, segment=0)
    writer(tmp_path).append([{"time": 1}] * 4)

    assert (log.position, writer(tmp_path, segments=[0, 1]).position) == ({0: 3}, {0: 7})


def test_rows_below_a_noted_time_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Writer and controller are notified once, not for each row."""
    network = Scripted()
    with WriterClient("flights", "UA", controller=URL, transport=network) as client:
        log = writer(tmp_path, client=client)
        log.append([{"time": 1}])
        log.note_time(10)
        log.append([{"time": 9}, {"time": 10}, {"time": 3}])
        for _ in range(5):
            log.append([{"time": 4}])
        late_rows = client.flush().late_rows

    reports = [note["late_rows"] for note in network.notes if "late_rows" in note]
    assert (log.late_rows, late_rows, sum(late["rows"] for late in reports)) == (7, 7, 7)
    assert min(late["min_time"] for late in reports) == 3
    assert [message.split(" rows ")[0] for message in caplog.messages] == [
        "writer 'UA' of stream 'flights': 2",
        "writer 'UA' of stream 'flights': 7",
    ]


def test_rows_below_the_lower_of_the_last_answer_are_counted(tmp_path: Path) -> None:
    """Another writer may have advanced time."""
    network = Scripted(*[results(accepted(lower=50))] * 2)
    with WriterClient("flights", "UA", controller=URL, transport=network) as client:
        log = writer(tmp_path, client=client)
        client.flush()
        log.append([{"time": 49}, {"time": 50}])

    late = {"rows": 1, "min_time": 49, "max_time": 49}
    assert (log.late_rows, network.notes[-1]["late_rows"]) == (1, late)


def test_a_log_in_another_directory_is_named(tmp_path: Path) -> None:
    """A writer started elsewhere finds an empty log, where its noted offsets are wrong."""
    network = Scripted(results(accepted(position={"0": 2, "7": 5})))
    client = WriterClient("flights", "UA", controller=URL, transport=network)
    writer(tmp_path, client=client)

    with pytest.raises(Recreated) as error:
        client.close()
    fact = "segment 0 ends at 0, and 2 was noted"
    assert (f"file log {str(tmp_path)!r}" in str(error.value), fact in str(error.value)) == (
        True,
        True,
    )


def test_each_domain_has_its_column(tmp_path: Path, served: Served) -> None:
    """The upper of each domain comes from its column."""
    served.create("orders", domains=["order_time", "ship_time"])
    columns = {"order_time": "ordered", "ship_time": "shipped"}
    with WriterClient("orders", "shop", controller=served.url) as client:
        log = SegmentLogWriter(tmp_path, "orders", client=client, event_time=columns)
        log.append([{"ordered": 5, "shipped": 70}, {"ordered": 8, "shipped": 60}])
        for domain in columns:
            log.note_time(5, domain=domain)
    marks = served.call("GET", "/orders")["marks"]

    assert {domain: mark["upper"] for domain, mark in marks.items()} == {
        "order_time": 8,
        "ship_time": 70,
    }


def test_a_writer_without_a_client_cannot_note(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="create it with a client"):
        writer(tmp_path).note_time(5)


# Batches that are run again, and appended once


def numbers(root: Path) -> list[int]:
    """Return the times of all rows, in order."""
    return [row["time"] for row in rows(root)]


def list_batches(root: Path) -> list[Batch | None]:
    """Return which batch each file names."""
    return [Batch.from_metadata(pq.read_metadata(path).metadata) for _, _, path in files(root)]


def test_repeated_batch_is_not_appended_again(tmp_path: Path) -> None:
    """The same writer or the next run repeats it, after appends of others."""
    first = writer(tmp_path)
    second_writer = writer(tmp_path)
    assert first.append_once([{"time": 1}], Batch("q", 7))
    first.append([{"time": 2}])
    assert not first.append_once([{"time": 1}], Batch("q", 7))
    assert not second_writer.append_once([{"time": 1}], Batch("q", 7))
    assert second_writer.append_once([{"time": 3}], Batch("q", 8))

    assert numbers(tmp_path) == [1, 2, 3]
    assert second_writer.position == {0: 3}


def test_batch_numbers_are_per_source(tmp_path: Path) -> None:
    """So a query with a new checkpoint, which begins at 0, loses no batch."""
    log = writer(tmp_path)
    for number in range(3):
        assert log.append_once([{"time": number}], Batch(f"q{number}", 0))

    assert numbers(tmp_path) == [0, 1, 2]


def test_a_batch_without_rows_leaves_no_file(tmp_path: Path) -> None:
    log = writer(tmp_path)
    is_appended = log.append_once(pa.table({"time": pa.array([], pa.int64())}), Batch("q", 0))

    assert (is_appended, files(tmp_path)) == (False, [])


def test_only_the_files_of_a_batch_name_it(tmp_path: Path) -> None:
    """The next append takes the schema of the file before, but not its batch."""
    log = writer(tmp_path)
    log.append_once([{"time": 1}], Batch("q", 0))
    log.append([{"time": 2}])
    writer(tmp_path).append([{"time": 3}])

    assert list_batches(tmp_path) == [Batch("q", 0), None, None]


def test_batch_appended_concurrently_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run links its file after this one has listed the files."""
    first = writer(tmp_path)
    link = SegmentFiles._try_link

    def _lose_race(self: SegmentFiles, publish: Publish, count: int) -> bool:
        monkeypatch.setattr(SegmentFiles, "_try_link", link)
        writer(tmp_path).append_once([{"time": 1}], Batch("q", 0))
        return link(self, publish, count)

    monkeypatch.setattr(SegmentFiles, "_try_link", _lose_race)

    assert first.append_once([{"time": 1}], Batch("q", 0)) is False
    assert numbers(tmp_path) == [1]


def test_append_after_many_foreign_appends_goes_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_files, "MAX_PASSED_APPENDS", 2)
    sleeper = writer(tmp_path)
    busy = writer(tmp_path)
    for _ in range(6):
        busy.append([{"time": 1}])

    assert sleeper.append([{"time": 1}]) == 7
