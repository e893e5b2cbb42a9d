import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import note
from tests.support.calls import HOUR_MS, TEN
from tests.support.dashboards import PassingTime
from tests.support.processes import environment
from tests.support.served import Served
from tests.support.terminals import LiveTerminal

RESTORED = "\x1b[?25h\x1b[?1049l"
"""The cursor is back, and the screen that was there before."""

on_posix = pytest.mark.skipif(os.name == "nt", reason="needs a terminal")


PASSING = PassingTime(HOUR_MS)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Return a console whose controller has the time that a test gives it."""
    with Served(clocks=PASSING.clocks()) as running:
        yield running


def go_on(served: Served, stream: str, **times: int) -> None:
    """Note, and let time pass until `explain` names the holder."""
    note(served, stream, **times)
    PASSING.passes(20_000)


@pytest.fixture
def stream(served: Served) -> str:
    """Make a stream of its own, whose writer `a` holds it at 10:00 and `b` noted an hour more."""
    name = served.new(writer_timeout_ms=HOUR_MS)
    go_on(served, name, a=TEN, b=TEN + HOUR_MS)
    return name


def watching(served: Served, stream: str, directory: Path) -> LiveTerminal:
    """Start to watch on a terminal of 80 columns."""
    words = [sys.executable, "-m", "noted_time", "watch", stream, "--every", "100ms"]
    variables = environment(NOTED_TIME_URL=served.url, TZ="UTC")
    return LiveTerminal(words, variables, cwd=directory, size="80x24")


@on_posix
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_on_a_terminal_it_is_live_until_it_is_ended(
    served: Served, stream: str, tmp_path: Path, sent: signal.Signals, status: int
) -> None:
    """Then the terminal is restored; Ctrl-C is the proper way to end it."""
    with watching(served, stream, tmp_path) as terminal:
        terminal.until("a has held it for")
        go_on(served, stream, a=TEN + 2 * HOUR_MS)
        terminal.until("b has held it for")
        ended = terminal.end(sent)

    assert (ended[0], RESTORED in ended[1]) == (status, True)
    assert ("b has held it" in ended[1].partition(RESTORED)[2]) is (status == 0)


@on_posix
def test_it_says_when_no_controller_answers_and_recovers(
    served: Served, stream: str, tmp_path: Path
) -> None:
    """The last state stays, with its age; then it is up to date again."""
    with watching(served, stream, tmp_path) as terminal:
        terminal.until("a has held it for")
        served.stop()
        terminal.until("so this output is old")
        served.start()
        go_on(served, stream, a=TEN + 2 * HOUR_MS)
        terminal.until("b has held it for")
        frame = terminal.until("b has held it for")

        ended = terminal.end(signal.SIGINT)
    assert ("No answer" in frame, ended[0]) == (False, 0)


@on_posix
def test_a_stream_that_is_removed_ends_it(served: Served, stream: str, tmp_path: Path) -> None:
    """With the reason, on the screen that was there before."""
    with watching(served, stream, tmp_path) as terminal:
        terminal.until("a has held it for")
        served.call("DELETE", f"/{stream}")
        status, shown = terminal.end()

    says = f"noted-time: there is no stream '{stream}'"
    assert (status, says in shown.partition(RESTORED)[2].replace("\r\n", " ")) == (1, True)
