"""A real controller on a database restored from a backup, and clients that lived meanwhile."""

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from reader_client import ReaderClient
from tests.support.processes import ServeProcess
from tests.support.waiting import PATIENCE_S, wait_until
from writer_client import SegmentLogWriter, WriterClient


def back_up(directory: Path) -> Callable[[], None]:
    """Copy the database as `docs/operations.md` says; returns what puts the copy in its place."""
    file, copy = directory / "noted-time.db", directory / "backup.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"VACUUM INTO '{copy}'")

    def restore() -> None:
        for each in directory.glob("noted-time.db*"):
            each.unlink()
        copy.rename(file)

    return restore


def test_a_process_long_gone_does_not_fence_the_living_one_after_a_restore(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The living one takes its name over once more, says why, and its next note covers all."""
    with ServeProcess(tmp_path).ready() as controller:
        controller.call("PUT", "/flights", {"mark_interval_ms": 0})
        url, port = controller.url, controller.port
        with WriterClient(url, "flights", "UA") as gone:
            gone.note_time(1, {0: 1})
        restore = back_up(tmp_path)
        living = WriterClient(url, "flights", "UA")
        log = SegmentLogWriter(tmp_path / "log", "flights", client=living, event_time="time")
        log.append([{"time": 5}])
        log.note_time(6)
        living.flush()
        controller.stop()
    restore()
    with ServeProcess(tmp_path, port=port).ready() as controller:
        SegmentLogWriter(tmp_path / "log", "flights", event_time="time").append([{"time": 6}])
        log.note_time(7)
        with caplog.at_level(logging.WARNING, "noted_time.writer"):
            living.flush(timeout=PATIENCE_S)
        mark = controller.call("GET", "/flights/marks?after=0")["marks"][-1]
        living.finish()
        living.close()

    assert (living.state, mark["lower"], mark["cut"]) == ("finished", 7, {"0": 2})
    assert ["takes the name over once more" in each.message for each in caplog.records] == [True]


def test_a_reader_that_is_ahead_of_a_restored_stream_continues_from_its_last_mark(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning; the last mark there is comes again, and then those that follow."""
    with ServeProcess(tmp_path).ready() as controller:
        controller.call("PUT", "/flights", {"mark_interval_ms": 0})
        url, port = controller.url, controller.port
        writer = WriterClient(url, "flights", "UA")
        writer.note_time(1, {0: 1})
        writer.flush()
        restore = back_up(tmp_path)
        for time in (2, 3):
            writer.note_time(time, {0: time})
            writer.flush()
        reader = ReaderClient(url, "flights")
        marks = reader.marks(wait=60)
        seen = [(mark.seq, mark.lower) for mark in (next(marks), next(marks), next(marks))]
        controller.stop()
    restore()
    with (
        caplog.at_level(logging.WARNING, "noted_time.reader"),
        ServeProcess(tmp_path, port=port).ready(),
    ):
        wait_until(lambda: any("do not continue" in each.message for each in caplog.records))
        writer.note_time(4, {0: 4})
        writer.close(timeout=30)
        following = next(mark for mark in marks if mark.lower == 4)
        reader.close()

    assert (seen, (following.seq, following.lower)) == ([(1, 1), (2, 2), (3, 3)], (2, 4))
