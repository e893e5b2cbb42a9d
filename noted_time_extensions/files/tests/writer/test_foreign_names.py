"""A log with foreign file names: no file with rows is skipped silently."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time_extensions.files import LogEnds, SegmentLogWriter
from noted_time_extensions.files.layout import ForeignFile, file_name, segment_directory
from noted_time_extensions.files.spark.log_files import LogFiles
from noted_time_extensions.files.tests.support.appending import append
from tests.support.properties import costly
from tests.writer_client.scripted import URL, Scripted
from writer_client import IngestionNoter, WriterClient

PARTITION = "partition=0"
ROWS = file_name("flights", 0, 3).removesuffix(".parquet")

WITH_ROWS = [
    f"{PARTITION}/{ROWS}",
    f"{PARTITION}/{ROWS}.json",
    f"{PARTITION}/{ROWS}.avro",
    f"{PARTITION}/{ROWS}.csv",
    f"{PARTITION}/{ROWS}.PARQUET",
    f"{PARTITION}/{ROWS}.parquet.gz",
    f"{PARTITION}/{ROWS}.parquet.tmp",
    f"{PARTITION}/{ROWS}.parquet.6eF3a1b0",
    f"{PARTITION}/{ROWS}.snappy.orc",
    f"{PARTITION}/part-0.JSONL.zst",
    f"{PARTITION}/x.txt",
    f"{PARTITION}/hour=20/{ROWS}.parquet",
    f"{PARTITION}/2026/11/{ROWS}.parquet",
    f"{PARTITION}/old/{ROWS}.parquet",
    f"{PARTITION}/flights+1+0000000003.parquet",
    f"year=2026/{ROWS}.parquet",
    f"2026/{ROWS}.parquet",
    f"partition=00/{ROWS}.parquet",
    f"{ROWS}.parquet",
    "all.csv",
]
WITHOUT_ROWS = [
    f"{PARTITION}/_SUCCESS",
    f"{PARTITION}/.part.parquet",
    f"{PARTITION}/README.md",
    f"{PARTITION}/x.json.md5",
    f"{PARTITION}/{ROWS}.keys.avro",
    f"{PARTITION}/{ROWS}.headers.parquet",
    f"{PARTITION}/{ROWS}.parquet.crc",
    f"{PARTITION}/_temporary/0/a.parquet",
    f"{PARTITION}/old/notes",
    f"{PARTITION}/x_$folder$",
    "_SUCCESS",
    "README.md",
    "partition=1_$folder$",
    "docs/index.html",
]


def write(root: Path, start: int) -> None:
    """Write a row as a sink does, some with keys and headers."""
    directory = segment_directory(root, "flights", 0)
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"time": [1]}), directory / file_name("flights", 0, start))


def touch(root: Path, name: str) -> Path:
    path = root / "flights" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def remove(root: Path, name: str) -> None:
    is_inner = name.startswith(f"{PARTITION}/")
    base = root / "flights" / PARTITION if is_inner else root / "flights"
    entry = base / name.removeprefix(f"{PARTITION}/").partition("/")[0]
    shutil.rmtree(entry, ignore_errors=True)
    entry.unlink(missing_ok=True)


def look(ends: LogEnds, files: LogFiles) -> list[int | None]:
    """Return the end that observer and reader see, or `None` if they refuse the log."""
    ends_seen: list[int | None] = [None, None]
    with suppress(ForeignFile):
        ends_seen[0] = ends().ends[0]
    with suppress(ForeignFile):
        ends_seen[1] = files.refresh()[0][-1].end
    return ends_seen


@pytest.mark.parametrize("name", [*WITH_ROWS, *WITHOUT_ROWS])
def test_log_is_refused_by_a_name_that_may_have_rows(tmp_path: Path, name: str) -> None:
    append(tmp_path, "flights", 0, 1)
    touch(tmp_path, name)
    ends_seen = look(LogEnds(tmp_path, "flights"), LogFiles(tmp_path, "flights"))

    assert ends_seen == [None if name in WITH_ROWS else 1] * 2


def test_deeper_file_is_found_in_a_settled_directory(tmp_path: Path) -> None:
    append(tmp_path, "flights", 0, 1)
    (tmp_path / "flights" / PARTITION / "old").mkdir()
    now_s = iter(range(0, 100, 5))
    ends = LogEnds(tmp_path, "flights", monotonic=lambda: float(next(now_s)))
    before = [ends().ends, ends().ends]
    touch(tmp_path, f"{PARTITION}/old/a.csv")

    assert before == [{0: 1}] * 2
    with pytest.raises(ForeignFile, match=r"old/a\.csv: may have rows"):
        ends()


@costly(5)
@given(
    course=st.lists(
        st.tuples(st.sampled_from(["add", "remove", "append"]), st.sampled_from(WITH_ROWS))
        | st.tuples(st.just("add"), st.sampled_from(WITHOUT_ROWS)),
        max_size=8,
    )
)
def test_foreign_names_hide_no_row(tmp_path: Path, course: list[tuple[str, str]]) -> None:
    """A log is refused exactly while a name may have rows."""
    shutil.rmtree(tmp_path / "flights", ignore_errors=True)
    write(tmp_path, 0)
    ends = LogEnds(tmp_path, "flights")
    files = LogFiles(tmp_path, "flights")
    rows = 1
    foreign = set[str]()
    for act, name in course:
        if act == "add":
            touch(tmp_path, name)
            foreign |= {name} & {*WITH_ROWS}
        elif act == "remove":
            remove(tmp_path, name)
            foreign.discard(name)
        elif not foreign:
            write(tmp_path, rows)
            rows += 1

        assert look(ends, files) == [None if foreign else rows] * 2


def test_observer_of_foreign_file_is_alive_and_names_it(tmp_path: Path) -> None:
    append(tmp_path, "flights", 0, 1)
    transport = Scripted()
    with WriterClient("flights", "observer", controller=URL, transport=transport) as client:
        noter = IngestionNoter(client, LogEnds(tmp_path, "flights"), poll_ms=10, clock=lambda: 1000)
        path = touch(tmp_path, f"{PARTITION}/{ROWS}.json")
        for _ in range(2):
            noter._try_to_look()
            client.flush()
        notes_sent = list(transport.notes)
        path.unlink()
        noter._try_to_look()

    for note in notes_sent:
        assert (note.get("time"), note.get("position")) == (None, None)
    assert len(notes_sent) >= 2
    for note in notes_sent[-2:]:
        (fact,) = note["because"]
        assert (fact["kind"], fact["by"]) == ("foreign_file", path.name)
    assert (transport.notes[-1]["time"], transport.notes[-1]["position"]) == (1000, {"0": 1})


def test_writer_refuses_foreign_file_unless_ignored(tmp_path: Path) -> None:
    append(tmp_path, "flights", 0, 1)
    touch(tmp_path, f"{PARTITION}/{ROWS}.csv")
    with pytest.raises(ForeignFile, match=rf"ignore=\['{re.escape(ROWS)}.csv'\]"):
        append(tmp_path, "flights", 0, 2)

    log = SegmentLogWriter(tmp_path, "flights", event_time="time", ignore=["*.csv"])
    assert log.append([{"time": 2}]) == 2
