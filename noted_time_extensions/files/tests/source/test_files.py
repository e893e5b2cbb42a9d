"""The files that belong to a log, also in archives of Kafka Connect; no Spark runs here."""

import re
from functools import partial
from pathlib import Path
from time import monotonic

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noted_time import Rejected
from noted_time.values import Recreated
from noted_time_extensions.files import LogEnds, SegmentLogWriter
from noted_time_extensions.files.directories import SegmentDirectory
from noted_time_extensions.files.layout import ForeignFile, UnreadableFile
from noted_time_extensions.files.spark.log_files import LogFiles
from noted_time_extensions.files.tests.support.log_reading import build_query, open_reader
from tests.core.test_scenarios import show_value
from tests.support.noted_stream import NotedStream
from tests.support.paragraphs import is_answer, read_paragraphs
from tests.writer_client.scripted import Now


def ends(files: LogFiles) -> dict[int, int]:
    """Return the end of each segment."""
    segment_ends = {}
    for segment, segment_files in files.refresh().items():
        if segment_files:
            segment_ends[segment] = segment_files[-1].end
    return segment_ends


def test_files_that_come_later_are_found(flights: NotedStream) -> None:
    """Both known and new segments get files, within one tick of the file system's clock."""
    files = LogFiles(flights.root, "flights")
    ends_seen = [ends(files)]
    for segment in (0, 0, 5):
        flights.append(segment, (1, "a"), (2, "b"))
        ends_seen.append(ends(files))

    assert ends_seen == [{}, {0: 2}, {0: 4}, {0: 4, 5: 2}]


def test_unreadable_file_is_tried_again(flights: NotedStream) -> None:
    """A copy of it may have been incomplete."""
    path = flights.append(0, (1, "a"))
    content = path.read_bytes()
    path.write_bytes(content[:20])
    files = LogFiles(flights.root, "flights")
    with pytest.raises(UnreadableFile, match="not a whole Parquet file"):
        files.refresh()
    path.write_bytes(content)

    assert ends(files) == {0: 1}


@pytest.mark.parametrize(
    ("suffix", "later"), [(".json", ["waits", "fails"]), (".parquet.tmp", ["waits", "waits"])]
)
def test_query_waits_while_a_name_may_have_rows(
    flights: NotedStream, monkeypatch: pytest.MonkeyPatch, suffix: str, later: list[str]
) -> None:
    """The query fails after ten seconds, unless the file is still being written."""
    path = flights.append(0, (1, "a")).with_name(f"flights+0+0000000001{suffix}")
    query = build_query(flights, strict=False)
    reader = open_reader(query)
    clock = Now(0.0)
    monkeypatch.setattr(reader._planner, "monotonic", clock)

    def plan_at(second: float) -> str:
        clock.now = second
        try:
            end = reader.latestOffset(query.beginning.to_json(), reader.getDefaultReadLimit())
        except ForeignFile:
            return "fails"
        return "waits" if end == query.beginning.to_json() else "reads"

    path.touch()
    plans_seen = [plan_at(0.0), plan_at(9.9)]
    path.unlink()
    plans_seen.append(plan_at(20.0))
    path.touch()
    plans_seen += [plan_at(30.0), plan_at(39.9), plan_at(40.0)]
    reader.stop()

    assert plans_seen == ["waits", "waits", "reads", "waits", *later]


def test_file_below_rows_that_were_read_is_named(
    flights: NotedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gap may be filled before it is read, but not afterwards.

    It causes a list of the whole directory.
    """
    calls: list[int] = []
    listing = SegmentDirectory(flights.root, "flights", 0, monotonic).listing
    monkeypatch.setattr(type(listing), "forget", lambda _: calls.append(1))
    content = flights.append(0, (1, "a")).read_bytes()
    files = LogFiles(flights.root, "flights")
    files.refresh()
    for start in (5, 3):
        path = flights.root / "flights" / "partition=0" / f"flights+0+{start:010}.parquet"
        path.write_bytes(content)
        files.refresh()

    assert calls == [1, 1]
    files.check_kept({0: 1})
    path.with_name("flights+0+0000000002.parquet").write_bytes(content)
    files.refresh()
    with pytest.raises(Recreated, match=r"0000000002.parquet was replaced, or added below rows"):
        files.check_kept({0: 6})


def test_files_that_overlap_are_refused(flights: NotedStream) -> None:
    """Otherwise the same offsets would come twice."""
    path = flights.append(0, (1, "a"), (2, "b"))
    path.with_name("flights+0+0000000001.parquet").write_bytes(path.read_bytes())

    with pytest.raises(UnreadableFile, match=r"overlaps .*: remove it if .* rotate\.schedule\."):
        LogFiles(flights.root, "flights").refresh()


def test_empty_file_is_named_as_such(flights: NotedStream) -> None:
    flights.append(0, (1, "a")).write_bytes(b"")
    for look in (LogFiles(flights.root, "flights").refresh, LogEnds(flights.root, "flights")):
        with pytest.raises(UnreadableFile, match=r"0000000000\.parquet: is empty$"):
            look()


def list_ends(root: Path, stream: str) -> list[str]:
    """Return the ends that a query and an observer find, or their errors."""
    files = LogFiles(root, stream, frozenset({"time"}))
    log_ends = LogEnds(root, stream)

    def find_observed_ends() -> dict[int, int]:
        return dict(log_ends().ends)

    answers = []
    for find_ends in (partial(ends, files), find_observed_ends):
        try:
            answers.append(show_value(find_ends()))
        except Rejected as error:
            answers.append(str(error))
    return answers


@pytest.mark.parametrize("acts", read_paragraphs(Path(__file__).with_name("layouts.txt")))
def test_layout(tmp_path: Path, acts: list[str]) -> None:
    for number, act in enumerate(acts):
        words, _, expected = act.partition(" -> ")
        options = dict(re.findall(r"(?:^| )(stream|root)=(\S+)", words))
        stream = options.get("stream", "flights")
        top = tmp_path / str(number)
        for name in words.split()[len(options) :]:
            path = top / (name if "/" in name else f"{stream}/partition=0/{name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"time": range(10)}), path)
        answers = list_ends(top / options.get("root", "."), stream)

        by_query, by_observer = answers
        assert is_answer(expected, by_query), (act, by_query)
        assert is_answer(expected, by_observer), (act, by_observer)


def test_new_log_has_an_empty_segment(tmp_path: Path) -> None:
    SegmentLogWriter(tmp_path, "flights", event_time="time")

    assert LogFiles(tmp_path, "flights").refresh() == {0: []}
    assert LogEnds(tmp_path, "flights")().ends == {0: 0}


@pytest.mark.parametrize("names", [[".snappy.parquet"], [".parquet", ".keys.parquet"]])
def test_nothing_is_appended_to_an_archive(flights: NotedStream, names: list[str]) -> None:
    """An offset has one name with our writers, and several with a sink."""
    path = flights.append(0, (1, "a"))
    rows = path.read_bytes()
    path.unlink()
    for name in names:
        path.with_suffix(name).write_bytes(rows)

    with pytest.raises(Rejected, match=r"is a file of an archive, .*: use another root"):
        SegmentLogWriter(flights.root, "flights", event_time="time")
