"""No row is lost when a writer's process begins, is replaced or ends."""

import time
from datetime import UTC, datetime

from hypothesis import example, given

from tests.support.processes import run_python
from tests.writer_client.scripted import URL, Scripted
from tests.writer_client.successors import Successors, restoring, steps
from tools.trials.served import Served
from writer_client import DeliveryTracker, WriterClient
from writer_client.sending.writer import get_inner_writer


def test_datetimes_are_noted_in_milliseconds() -> None:
    """A time is rounded down, and the largest time up."""
    network = Scripted()
    noon = datetime(2013, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
    with WriterClient("s", "UA", controller=URL, transport=network) as client:
        client.note_time(noon, {}, max_time=noon)

    (time_and_max_time,) = [(note["time"], note["max_time"]) for note in network.notes]
    assert time_and_max_time == (1357041600000, 1357041600001)


def test_known_time_is_of_default_domain(served: Served) -> None:
    """With several domains the join names them."""
    known_times = []
    for stream, domains in (("two-domains", ["default", "ingestion"]), ("one", ["ingestion"])):
        served.create(stream, domains=domains)
        with WriterClient(stream, "UA", controller=served.url) as former:
            former.note_time(100, {0: 1}, domain="ingestion")
            former.flush()
        with WriterClient(stream, "UA", controller=served.url) as client:
            client.join()
            client.flush()
            inner_writer = get_inner_writer(client)
            known_times.append(
                (inner_writer.find_known_time(), inner_writer.find_known_time("ingestion"))
            )
            tracker = DeliveryTracker(client)
            tracker.note(150)
            client.flush()

    assert known_times == [(None, 100), (100, 100)]


# The laws of fencing, of the real outboxes and the real aggregator over a bad network


@given(steps | restoring)
def test_fenced_session_gets_no_note_accepted(played: list[tuple[str, int]]) -> None:
    """Answers are lost, requests delayed, clocks ahead, and backups restored.

    A repeated takeover names all sessions that lost the name before.
    """
    assert Successors().play(played).find_returned() == []


@given(steps)
def test_rows_of_successors_are_covered_by_cuts(played: list[tuple[str, int]]) -> None:
    """These are the rows that a process wrote while it had the name."""
    assert Successors().play(played).find_missed() == []


@given(steps)
def test_upper_bounds_rows_of_successors(played: list[tuple[str, int]]) -> None:
    """The younger process declares the largest time of the older one's rows."""
    assert Successors().play(played).find_beyond() == []


RESTORED = [
    *[("note", 0), ("send", 0), ("take", 5), ("backup", 0)],
    *[("start", 0), ("note", 0), ("send", 0), ("take", 5)],
    *[("note", 1), ("send", 1), ("take", 5), ("restore", 0)],
]

"""A process takes the name over from another, which learns it; the database forgets it."""


@given(restoring)
@example(RESTORED)
def test_restore_keeps_takeover_order(played: list[tuple[str, int]]) -> None:
    """The living process takes the name over from one that ended long ago."""
    successors = Successors().play(played).settle()

    assert (successors.noting, successors.fenced & successors.taken) == ([successors.owner], set())


# However a client or its process ends, nothing is lost silently, and no caller waits long


AMID_A_CALL = """
import signal, sys
from writer_client import Pace, WriterClient
from noted_time import Rejected

client = WriterClient(sys.argv[2], "UA", controller=sys.argv[1], pace=Pace(linger_ms=60_000))
signal.signal(signal.SIGTERM, lambda *_: client.close())

class Position(dict):
    def items(self):
        signal.raise_signal(signal.SIGTERM)
        return super().items()

client.join()
client.flush()
client.note_time(5, {0: 10})
try:
    client.note_time(6, Position({0: 20}))
except Rejected as error:
    print(error)
"""

AMID_A_FLUSH = """
import os, signal, sys, threading
from writer_client import WriterClient
from noted_time import NotedTimeError

client = WriterClient("s", "UA", controller="http://127.0.0.1:9")


def close(*_):
    try:
        client.close(0.1)
    except NotedTimeError as error:
        print(error)

signal.signal(signal.SIGTERM, close)
client.note_time(5, {0: 10})
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
try:
    client.flush(60)
except NotedTimeError as error:
    print(error)
"""

TO_NOBODY = """
import sys
from writer_client import WriterClient

for name in sys.argv[1:]:
    WriterClient("flights", name, controller="http://127.0.0.1:9").note_time(5, {0: 10})
"""


def test_signal_handler_may_close_during_a_call(served: Served, stream: str) -> None:
    """Earlier notes are flushed, and the interrupted call raises."""
    process = run_python("-c", AMID_A_CALL, served.url, stream)

    assert (process.stdout, process.stderr) == (
        "the client of writer 'UA' was closed during the call\n",
        "",
    )
    assert served.writers(stream)["UA"]["times"] == {"default": 5}


def test_signal_handler_may_close_during_a_flush() -> None:
    """The interrupted flush ends long before its timeout."""
    process = run_python("-c", AMID_A_FLUSH)

    causes = [line.partition(":")[0] for line in process.stdout.splitlines()]
    assert causes == ["not durable within 0.1 s", "not durable within 60 s"]


def test_exit_waits_two_seconds_for_all_clients() -> None:
    """Each client reports its unsent notes on stderr."""
    began = time.monotonic()
    one_process = run_python("-c", TO_NOBODY, "w0")
    after_one = time.monotonic()
    five = run_python("-c", TO_NOBODY, *(f"w{number}" for number in range(5)))
    after_five = time.monotonic()

    unsent = [process.stderr.count("not delivered to") for process in (one_process, five)]
    assert unsent == [1, 5]
    assert one_process.stderr.splitlines()[-1].startswith(
        "writer 'w0' of stream 'flights': notes not delivered to http://127.0.0.1:9: "
        "1 (last time 5); the last error: no answer from http://127.0.0.1:9/v1/streams"
    )
    # each in turn would take eight seconds more; half of that is left to a busy machine
    assert after_five - after_one < after_one - began + 4
