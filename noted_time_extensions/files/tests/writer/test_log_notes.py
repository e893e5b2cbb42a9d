"""What writers note for the rows that they append to a log."""

import asyncio
import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from noted_time import Fenced
from noted_time_extensions.files import SegmentLogWriter
from tests.writer_client.scripted import URL, Scripted, accepted, results
from tests.writer_client.test_fencing import FENCED, HELD
from tests.writer_client.test_notices import FAR, NOON
from tools.trials.served import Served
from writer_client import AsyncWriterClient, WriterClient


def start_writer(root: Path, served: Served, stream: str) -> tuple[WriterClient, SegmentLogWriter]:
    """Start a process under the shared name; return its client and log."""
    client = WriterClient(stream, "UA", controller=served.url)
    return client, SegmentLogWriter(root, "flights", client=client, event_time="time")


def list_lost(root: Path, served: Served, stream: str) -> list[int]:
    """Return the times of rows below the last lower but beyond its cut."""
    mark = served.call("GET", f"/{stream}/marks?after=0")["marks"][-1]
    times = pq.read_table(root / "flights" / "partition=0")["time"].to_pylist()
    times_beyond = times[mark["cut"].get("0", 0) :]
    return [time for time in times_beyond if time < mark["lower"]]


def test_takeover_loses_no_row(tmp_path: Path, served: Served, stream: str) -> None:
    """Rows of the older process are covered; after the takeover it writes no more."""
    older, older_log = start_writer(tmp_path, served, stream)
    older_log.append([{"time": 5}])
    older_log.note_time(5)
    older.flush()
    younger, younger_log = start_writer(tmp_path, served, stream)
    older_log.append([{"time": 7}])
    younger_log.append([{"time": 6}])
    younger_log.note_time(10)
    younger.flush()
    older_log.note_time(7)

    for call in (older.flush, partial(older_log.append, [{"time": 8}]), older.close):
        with pytest.raises(Fenced):
            call()
    younger.finish()
    younger.close()
    assert (list_lost(tmp_path, served, stream), older_log.position) == ([], {0: 2})


@pytest.mark.parametrize("takeovers", [1, 2])
def test_successor_looks_up_the_ends_after_joining(tmp_path: Path, takeovers: int) -> None:
    """The first note with a time covers all rows appended before the takeover.

    A restored controller forgot the takeover, so the name is taken over again.
    """
    other = SegmentLogWriter(tmp_path, "flights", event_time="time")

    class Appending(Scripted):
        """The other process appends until the join is answered."""

        def _answer(self, request: httpx.Request) -> httpx.Response:
            if b'"time"' not in request.content:
                other.append([{"time": 8}, {"time": 3}])
            return super()._answer(request)

    join_answer = results(accepted(position={"0": 0}, took_over=[HELD["session"]]))
    network = Appending(*[join_answer, results(FENCED)] * (takeovers - 1), join_answer)
    client = WriterClient("s", "UA", controller=URL, transport=network)
    log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
    log.note_time(5)
    client.close()

    join, *_, last_note = network.notes
    assert (join, last_note["time"], last_note["position"], last_note["max_time"]) == (
        {"writer": "UA", "state": "live"},
        5,
        {"0": 2 * takeovers},
        8,
    )


def test_late_rows_are_reported_by_hour(tmp_path: Path, served: Served, stream: str) -> None:
    """Each window has exactly its own late rows; times may be finer than a millisecond."""
    hours = [datetime(2013, 1, 1, hour, 30, 0, 7, tzinfo=UTC) for hour in (8, 9, 9, 11)]
    with WriterClient(stream, "UA", controller=served.url) as client:
        log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
        log.note_time(datetime(2013, 1, 1, 8, tzinfo=UTC))
        client.flush()
        log.note_time(datetime(2013, 1, 1, 11, tzinfo=UTC))
        client.flush()
        log.append([{"time": time} for time in hours])
        log.note_time(datetime(2013, 1, 1, 12, tzinfo=UTC))
        client.flush()
    windows = served.call("GET", f"/{stream}/windows")["windows"]

    first, second, third, last = (window["late_writers"] for window in windows)
    (first_writer,) = first
    (second_writer,) = second
    assert (first_writer["rows"], first_writer["may_lie_outside"]) == (1, False)
    assert (second_writer["rows"], second_writer["may_lie_outside"]) == (2, False)
    assert (third, last) == ([], [])


def test_an_event_too_far_ahead_is_named_and_time_advances(
    served: Served, stream: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The note is sent again without its `max_time`, and so are later notes."""
    with WriterClient(stream, "UA", controller=served.url) as client:
        log = SegmentLogWriter(tmp_path, stream, client=client, event_time="at")
        log.append([{"at": NOON}, {"at": FAR}, {"at": NOON + 1}])
        for time in (NOON, NOON + 5):
            log.note_time(time)
            client.flush()
            log.append([{"at": time + 5}])
    marks = served.call("GET", f"/{stream}/marks")["marks"]

    lowers_and_cuts = [(mark["lower"], mark["cut"]) for mark in marks]
    assert lowers_and_cuts == [(NOON, {"0": 3}), (NOON + 5, {"0": 4})]
    assert not any(mark["upper_is_bound"] for mark in marks)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= 30]
    # the offset is known only if the refused note had a position
    assert re.match(
        rf"writer 'UA' of stream '{stream}': an event was written with the time "
        r"2096-10-02T07:06:40Z( below the offset 0:3)?: max_time 2096-10-02T07:06:40Z is ",
        warning,
    )
    assert warning.endswith(
        "; until the writer notes a later time it leaves max_time out, "
        "and the upper of marks is not a bound"
    )


async def test_rows_are_appended_from_a_thread(tmp_path: Path, served: Served, stream: str) -> None:
    """A note from a thread wakes the event loop."""
    async with AsyncWriterClient(stream, "UA", controller=served.url) as client:
        log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
        await asyncio.to_thread(log.append, [{"time": 7}])
        await asyncio.to_thread(log.note_time, 8)
        await client.flush()

    known_state = {"state": "live", "times": {"default": 8}, "position": {"0": 1}}
    assert served.writers(stream) == {"UA": known_state}
