"""A writer that crashed and is started again loses no row."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noted_time import Accepted
from noted_time.wing import file_name, segment_directory
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S
from tests.writer_client.scripted import URL, Scripted
from writer_client import DeliveryTracker, SegmentLogWriter, WriterClient
from writer_client.answers import Answered, Found
from writer_client.outbox import Outbox
from writer_client.segment_files import SegmentFiles

ROOT = Path(__file__).resolve().parents[2]

CRASHING = """
import os, signal, sys
from writer_client import SegmentLogWriter, WriterClient

root, url, stream = sys.argv[1:]
client = WriterClient(url, stream, "UA")
log = SegmentLogWriter(root, "flights", segments=(0, 1), client=client, event_time="time")
client.flush()
log.append([{"time": time} for time in range(1000, 10_000, 1000)], segment=0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def started(root: Path, served: Served, stream: str) -> tuple[WriterClient, SegmentLogWriter]:
    """Return the client and the log of a process that begins."""
    client = WriterClient(served.url, stream, "UA")
    log = SegmentLogWriter(root, "flights", segments=(0, 1), client=client, event_time="time")
    client.flush()
    return client, log


def crash_after_appending(root: Path, served: Served, stream: str) -> None:
    """Have a process append nine rows, and be killed before it notes any of them."""
    command = [sys.executable, "-c", CRASHING, str(root), served.url, stream]
    crashed = subprocess.run(command, cwd=ROOT, check=False, timeout=PATIENCE_S)
    assert crashed.returncode == -signal.SIGKILL


def test_the_first_note_covers_what_was_appended_before_a_crash(
    tmp_path: Path, served: Served, stream: str
) -> None:
    """Nine rows, a crash before `note_time`, a new process: its mark's cut has the nine rows."""
    crash_after_appending(tmp_path, served, stream)
    client, log = started(tmp_path, served, stream)
    log.note_time(10_000)
    client.close()
    marks = served.call("GET", f"/{stream}/marks")["marks"]

    assert [(mark["lower"], mark["cut"]) for mark in marks] == [(10_000, {"0": 9})]


@pytest.mark.parametrize("joins_first", [False, True])
def test_the_upper_is_a_bound_of_what_was_appended_before_a_crash(
    tmp_path: Path, served: Served, stream: str, *, joins_first: bool
) -> None:
    """The rows went up to 9000, and were never noted; a mark at 1000 shows it."""
    crash_after_appending(tmp_path, served, stream)
    with WriterClient(served.url, stream, "UA") as client:
        if joins_first:
            client.join()
            client.flush()
        log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
        log.note_time(1000)
    (mark,) = served.call("GET", f"/{stream}/marks")["marks"]

    shown = {name: mark[name] for name in ("lower", "upper", "cut", "upper_is_bound")}
    assert shown == {"lower": 1000, "upper": 9000, "cut": {"0": 9}, "upper_is_bound": True}


def test_only_what_was_not_noted_before_is_looked_at(
    tmp_path: Path, served: Served, stream: str
) -> None:
    """Past the position that the controller knows, which a writer learns as it begins."""
    known = []

    def look_up(position: Mapping[int, int]) -> Found:
        known.append(position)
        return Found({}, {})

    with WriterClient(served.url, stream, "UA") as client:
        log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
        log.append([{"time": 900}])
        log.note_time(50)
    SegmentLogWriter(tmp_path, "flights", event_time="time").append([{"time": 700}])
    with WriterClient(served.url, stream, "UA") as client:
        client.begin(look_up)
        client.flush()
    files = SegmentFiles(tmp_path, "flights", 0)

    assert (known, files.largest("time", beyond=1)) == ([{0: 1}], 700)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    ("kind", "largest"),
    [
        (pa.int64(), 7_000_001),
        (pa.timestamp("ms"), 7_000_001),
        (pa.timestamp("us", "UTC"), 7_001),
        (pa.timestamp("ns"), 8),
    ],
    ids=str,
)
def test_the_largest_time_is_found_with_statistics_and_without(
    tmp_path: Path, kind: pa.DataType, largest: int, *, statistics: bool
) -> None:
    """In ms, rounded up, whatever the unit; nulls are not times."""
    times = pa.array([3, None, 7_000_001, 5], pa.int64()).cast(kind)
    files = SegmentFiles(tmp_path, "flights", 0)
    path = segment_directory(tmp_path, "flights", 0) / file_name("flights", 0, 0)
    pq.write_table(pa.table({"t": times}), path, write_statistics=statistics, row_group_size=2)
    files.find_end()

    found = [files.largest("t", beyond=beyond) for beyond in (0, 3, 4)]
    assert (found, files.largest("other", beyond=0)) == ([largest, largest, None], None)


def test_times_may_be_aware(tmp_path: Path) -> None:
    """A `datetime` is noted in Unix ms, wherever a time is accepted."""
    network = Scripted()
    noon = datetime(2013, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
    with WriterClient(URL, "s", "UA", transport=network) as client:
        log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
        log.append([{"time": noon}])
        log.note_time(noon)
        client.flush()
        client.note_time(noon, {}, max_time=noon.replace(hour=13))

    noted = [(note["time"], note["max_time"]) for note in network.notes if "time" in note]
    assert noted == [(1357041600000, 1357041600001), (1357041600000, 1357045200001)]


def test_the_time_of_the_unnamed_domain_is_not_that_of_the_only_one_noted(served: Served) -> None:
    """The stream declares two, and the join says which; of one alone it is that one."""
    known = []
    for stream, domains in (("two-domains", ["default", "ingestion"]), ("one", ["ingestion"])):
        served.create(stream, domains=domains)
        with WriterClient(served.url, stream, "UA") as former:
            former.note_time(100, {0: 1}, domain="ingestion")
            former.flush()
        with WriterClient(served.url, stream, "UA") as client:
            client.join()
            client.flush()
            known.append((client.known_time(), client.known_time("ingestion")))
            tracker = DeliveryTracker(client)
            tracker.note(150)
            client.flush()

    assert known == [(None, 100), (100, 100)]


def test_a_controller_that_does_not_name_the_declared_domains_is_coped_with() -> None:
    """Then the only one that was noted is taken for the unnamed one."""
    outbox = Outbox("UA")
    outbox.join({})
    accepted = Accepted(None, None, {0: 1}, {"ship_time": 100}, 60_000)
    outbox.answered(outbox.take(), Answered((accepted,)))

    assert outbox.claims.known_time(None) == 100
