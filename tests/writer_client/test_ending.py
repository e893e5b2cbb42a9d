"""However a client or its process ends, nothing is lost silently, and no caller waits long."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from noted_time import Unreachable
from noted_time.client import Backoff
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S
from tests.writer_client.scripted import URL, Scripted
from writer_client import WriterClient

ROOT = Path(__file__).resolve().parents[2]
NOBODY = "http://127.0.0.1:9"
SOON = Backoff(first_s=0.01, cap_s=0.05)

AMID_A_CALL = """
import signal, sys
from writer_client import WriterClient
from noted_time import Rejected

client = WriterClient(sys.argv[1], sys.argv[2], "UA", linger_ms=60_000)
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

client = WriterClient("http://127.0.0.1:9", "s", "UA")


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
    WriterClient("http://127.0.0.1:9", "flights", name).note_time(5, {0: 10})
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, which must come."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_a_signal_handler_may_close_amid_a_call(served: Served, stream: str) -> None:
    """What was noted before is flushed, and the call that was interrupted raises."""
    done = run(AMID_A_CALL, served.url, stream)

    assert (done.stdout, done.stderr) == (
        "the client of writer 'UA' was closed during the call\n",
        "",
    )
    assert served.writers(stream)["UA"]["times"] == {"default": 5}


def test_a_signal_handler_may_close_amid_a_flush() -> None:
    """The flush that was interrupted ends, long before its time."""
    done = run(AMID_A_FLUSH)

    said = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert said == ["not durable within 0.1 s", "not durable within 60 s"]


def test_a_script_without_a_controller_does_not_look_successful() -> None:
    """Without any logging set up, what was not sent is on stderr when it ends."""
    done = run(TO_NOBODY, "UA")

    assert done.stderr.splitlines()[-1].startswith(
        "writer 'UA' of stream 'flights': notes not delivered to http://127.0.0.1:9: "
        "1 (last time 5); the last error: no answer from http://127.0.0.1:9/v1/streams"
    )


def test_the_end_of_a_process_waits_two_seconds_in_all() -> None:
    """For any number of clients, each of which reports what it could not send."""
    began = time.monotonic()
    one = run(TO_NOBODY, "w0")
    after_one = time.monotonic()
    five = run(TO_NOBODY, *(f"w{number}" for number in range(5)))
    after_five = time.monotonic()

    unsent = [each.stderr.count("not delivered to") for each in (one, five)]
    assert unsent == [1, 5]
    # each in turn would take eight seconds more; half of that is left to a busy machine
    assert after_five - after_one < after_one - began + 4


def test_closing_reports_what_was_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    """For which controller, up to which time, and why."""
    client = WriterClient(NOBODY, "s", "UA", backoff=SOON)
    client.note_time(5, {0: 10})
    with pytest.raises(Unreachable):
        client.close(0.1)

    assert "1 (last time 5)" in caplog.records[-1].getMessage()


def test_what_was_sent_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """A client that did its work ends in silence."""
    with WriterClient(URL, "s", "UA", transport=Scripted()) as client:
        client.note_time(5, {0: 10})

    assert caplog.records == []
