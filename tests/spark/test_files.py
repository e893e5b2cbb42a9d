"""The files that belong to a log, also in archives of Kafka Connect; no Spark runs here."""

import re
from collections.abc import Iterable
from pathlib import Path
from time import monotonic

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noted_time import Rejected
from noted_time.filelog import ForeignFile, SegmentDirectory, UnreadableFile
from noted_time.values import Recreated
from spark_integration.scan.files import LogFiles
from tests.support.log_reading import build_query, open_reader
from tests.support.noted_stream import NotedStream
from writer_client import LogEnds, SegmentLogWriter


def ends(files: LogFiles) -> dict[int, int]:
    """Return the end of each segment."""
    return {segment: run[-1].end for segment, run in files.refresh().items() if run}


def test_files_that_come_later_are_found(flights: NotedStream) -> None:
    """Both known and new segments get files, within one tick of the file system's clock."""
    files = LogFiles(flights.root, "flights")
    seen = [ends(files)]
    for segment in (0, 0, 5):
        flights.append(segment, (1, "a"), (2, "b"))
        seen.append(ends(files))

    assert seen == [{}, {0: 2}, {0: 4}, {0: 4, 5: 2}]


def test_hidden_and_other_files_are_skipped(flights: NotedStream) -> None:
    """Examples are unfinished writes, checksums and success markers."""
    directory = flights.append(0, (1, "a")).parent
    for name in (".x.parquet", "_y.parquet", "_SUCCESS", "flights+0+0000000001.crc"):
        (directory / name).write_bytes(b"")
    (flights.root / "flights" / "_temporary").mkdir()

    found = ends(LogFiles(flights.root, "flights")), LogEnds(flights.root, "flights")().ends
    assert found == ({0: 1}, {0: 1})


@pytest.mark.parametrize("foreign", ["part-00000.parquet", "other+0+0000000009.parquet"])
def test_file_with_a_foreign_name_is_refused(flights: NotedStream, foreign: str) -> None:
    flights.append(0, (1, "a")).with_name(foreign).write_bytes(b"")

    with pytest.raises(UnreadableFile, match=f"{re.escape(foreign)}: may have rows"):
        LogFiles(flights.root, "flights").refresh()


def test_files_that_overlap_are_refused(flights: NotedStream) -> None:
    """Otherwise the same offsets would come twice."""
    path = flights.append(0, (1, "a"), (2, "b"))
    path.with_name("flights+0+0000000001.parquet").write_bytes(path.read_bytes())

    with pytest.raises(UnreadableFile, match=r"overlaps .*: remove it if .* rotate\.schedule\."):
        LogFiles(flights.root, "flights").refresh()


def test_unreadable_file_is_tried_again(flights: NotedStream) -> None:
    """A copy of it may have been incomplete."""
    path = flights.append(0, (1, "a"))
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    files = LogFiles(flights.root, "flights")
    with pytest.raises(UnreadableFile, match="not a whole Parquet file"):
        files.refresh()
    path.write_bytes(whole)

    assert ends(files) == {0: 1}


@pytest.mark.parametrize(
    ("suffix", "later"), [(".json", ["waits", "fails"]), (".parquet.tmp", ["waits", "waits"])]
)
def test_query_waits_while_a_name_may_have_rows(
    flights: NotedStream, monkeypatch: pytest.MonkeyPatch, suffix: str, later: list[str]
) -> None:
    """The query fails after ten seconds, unless the file is still being written."""
    path = flights.append(0, (1, "a")).with_name(f"flights+0+0000000001{suffix}")
    query, now_s = build_query(flights, strict=False), [0.0]
    reader = open_reader(query)
    monkeypatch.setattr(reader._planner, "monotonic", lambda: now_s[0])

    def plan_at(second: float) -> str:
        now_s[0] = second
        try:
            end = reader.latestOffset(query.beginning.to_json(), reader.getDefaultReadLimit())
        except ForeignFile:
            return "fails"
        return "waits" if end == query.beginning.to_json() else "reads"

    path.touch()
    seen = [plan_at(0.0), plan_at(9.9)]
    path.unlink()
    seen.append(plan_at(20.0))
    path.touch()
    seen += [plan_at(30.0), plan_at(39.9), plan_at(40.0)]
    reader.stop()

    assert seen == ["waits", "waits", "reads", "waits", *later]


def test_file_below_rows_that_were_read_is_named(
    flights: NotedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gap may be filled before it is read, but not afterwards.

    It causes a list of the whole directory.
    """
    asked: list[int] = []
    listing = SegmentDirectory(flights.root, "flights", 0, monotonic).listing
    monkeypatch.setattr(type(listing), "forget", lambda _: asked.append(1))
    whole = flights.append(0, (1, "a")).read_bytes()
    files = LogFiles(flights.root, "flights")
    files.refresh()
    for start in (5, 3):
        path = flights.root / "flights" / "partition=0" / f"flights+0+{start:010}.parquet"
        path.write_bytes(whole)
        files.refresh()

    assert asked == [1, 1]
    files.check_kept({0: 1})
    path.with_name("flights+0+0000000002.parquet").write_bytes(whole)
    files.refresh()
    with pytest.raises(Recreated, match=r"0000000002.parquet was replaced, or added below rows"):
        files.check_kept({0: 6})


def test_empty_file_is_named_as_such(flights: NotedStream) -> None:
    path = flights.append(0, (1, "a"))
    path.write_bytes(b"")
    for look in (LogFiles(flights.root, "flights").refresh, LogEnds(flights.root, "flights")):
        with pytest.raises(UnreadableFile, match=r"0000000000\.parquet: is empty$"):
            look()


S3 = "flights/partition=0/flights+0+"
HOURS = "flights/year=2026/month=11/day=21/hour=20/flights+0+0000000000.parquet"


def write_files(root: Path, names: Iterable[str]) -> Path:
    """Write ten rows under each of these names, as a sink would; return the root."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"time": range(10)}), path)
    return root


def offsets(root: Path, stream: str = "flights") -> dict[int, list[tuple[int, int]]]:
    """Return the range of the files of each segment."""
    found = LogFiles(root, stream, frozenset({"time"})).refresh()
    return {segment: [(file.start, file.end) for file in run] for segment, run in found.items()}


@pytest.mark.parametrize(
    "names",
    [
        ["0000000000.parquet", "0000000010.parquet"],
        ["0000000000.snappy.parquet", "0000000010.gz.parquet"],
        ["000000000000.parquet", "000000000010.zstd.parquet"],
        ["0.parquet", "10.parquet"],
        ["00000000000000000000.parquet", "00000000000000000010.parquet"],
        ["0000000000+0000000009.parquet", "0000000010+0000000019.parquet"],
        ["0000000000+0000000014.snappy.parquet", "0000000010.parquet"],
    ],
)
def test_names_of_the_sinks_are_read(tmp_path: Path, names: list[str]) -> None:
    """Any codec, padding and last offset is accepted. The rows of a file decide."""
    root = write_files(tmp_path, (S3 + name for name in names))

    assert (offsets(root), LogEnds(root, "flights")().ends) == ({0: [(0, 10), (10, 20)]}, {0: 20})


@pytest.mark.parametrize("topic", ["flights", "flights.keys"])
@pytest.mark.parametrize(
    ("rows", "others"),
    [
        ("0.parquet", ["0.keys.parquet", "0.headers.parquet"]),
        ("0.snappy.parquet", ["0.keys.snappy.parquet", "0.headers.snappy.parquet"]),
        ("0.snappy.parquet", ["0.keys.avro", "0.headers.json.gz"]),
        ("0+9.parquet", ["0+9.keys.parquet"]),
    ],
)
def test_files_of_keys_and_headers_are_skipped(
    tmp_path: Path, topic: str, rows: str, others: list[str]
) -> None:
    """A sink keeps them in separate files (store.kafka.keys, store.kafka.headers)."""
    root = write_files(
        tmp_path, (f"{topic}/partition=0/{topic}+0+{name}" for name in (rows, *others))
    )

    assert (offsets(root, topic), LogEnds(root, topic)().ends) == ({0: [(0, 10)]}, {0: 10})


@pytest.mark.parametrize(
    ("name", "root", "sentence"),
    [
        (HOURS, "", "flights/year=2026: may have rows, .*DefaultPartitioner"),
        (
            "flights/carrier=UA/flights+0+0000000000.parquet",
            "",
            "flights/carrier=UA: may have rows",
        ),
        ("flights/2026/flights+0+0000000000.parquet", "", "flights/2026/flights.*: may have rows"),
        (f"{S3}0000000000.json", "", "=0/flights.0.0000000000.json: .*ParquetFormat"),
        (f"{S3}0000000000.json.gz", "", "=0/flights.0.0000000000.json.gz: "),
        (f"{S3}0000000000.avro", "", "=0/flights.0.0000000000.avro: "),
        (
            "flights/partition=0/hour=20/flights+0+0000000000.parquet",
            "",
            "=0/hour=20/flights.*: may have rows",
        ),
        (f"topics/{S3}0000000000.parquet", "", "is below topics: the root is .*/topics$"),
        (f"{S3}0000000000.parquet", "flights", "holds partition=0, .* the root is .*[0-9]$"),
    ],
)
def test_other_layouts_are_refused_by_name(
    tmp_path: Path, name: str, root: str, sentence: str
) -> None:
    """Otherwise a query and an observer would find an empty log."""
    write_files(tmp_path, [name])

    with pytest.raises(Rejected, match=sentence):
        offsets(tmp_path / root)
    with pytest.raises(Rejected, match=sentence):
        LogEnds(tmp_path / root, "flights")()


@pytest.mark.parametrize("partitioner", ["flights/year=2026/x+0+0000000000.parquet", "flights/9"])
def test_later_partitioner_with_named_directories_is_refused(
    tmp_path: Path, partitioner: str
) -> None:
    """Rows written after the change would be missed.

    Directories without a name and value are ignored.
    """
    root = write_files(tmp_path, [f"{S3}0000000000.parquet", partitioner])
    is_refused = "=" in partitioner

    if is_refused:
        with pytest.raises(Rejected, match="flights/year=2026: "):
            offsets(root)
    else:
        assert offsets(root) == {0: [(0, 10)]}


@pytest.mark.parametrize(
    "names", [[], ["other/partition=0/other+0+0.parquet"], ["_temporary/x", ".tmp/x"]]
)
def test_log_without_files_is_empty(tmp_path: Path, names: list[str]) -> None:
    """A query may start before the first append."""
    root = write_files(tmp_path, names)
    before = [offsets(root), LogEnds(root, "flights")().ends]
    (root / "flights").mkdir()
    (root / "flights" / "_SUCCESS").touch()
    created = [offsets(root), LogEnds(root, "flights")().ends]
    SegmentLogWriter(root, "flights", event_time="time")

    assert [*before, *created] == [{}] * 4
    assert (offsets(root), LogEnds(root, "flights")().ends) == ({0: []}, {0: 0})


@pytest.mark.parametrize("names", [[".snappy.parquet"], [".parquet", ".keys.parquet"]])
def test_nothing_is_appended_to_an_archive(tmp_path: Path, names: list[str]) -> None:
    """An offset has one name with our writers, and several with a sink."""
    root = write_files(tmp_path, [f"{S3}0000000000{name}" for name in names])

    with pytest.raises(Rejected, match=r"is a file of an archive, .*: use another root"):
        SegmentLogWriter(root, "flights", event_time="time")
