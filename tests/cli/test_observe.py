"""`noted-time observe`, against a real controller and a file log."""

import re
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from demo.trials.ports import free_port
from demo.trials.served import Served
from demo.trials.waiting import PATIENCE_S, eventually
from tests.cli.conftest import Commands, Result, start_command
from writer_client import SegmentLogWriter


@pytest.fixture
def root(tmp_path: Path, stream: str) -> Path:
    """Make a log of two segments; the second is behind."""
    for segment, times in ((0, [1000, 900]), (1, [400])):
        log = SegmentLogWriter(tmp_path, stream, segments=[segment], event_time="departure")
        log.append([{"departure": time} for time in times])
    return tmp_path


@pytest.fixture
def stream(served: Served) -> str:
    """Make a stream with a domain for each kind of observer."""
    return served.new(domains=["default", "ingestion"], max_time_ahead_ms=None)


def observe(served: Served, *words: object) -> Result:
    """Run the command to its end."""
    return Commands(served.url)("observe", "log", *words)


def marks(served: Served, stream: str, domain: str) -> list[tuple[int, dict[str, int]]]:
    """Return lower and cut of each mark."""
    answer = served.call("GET", f"/{stream}/marks?domain={domain}")
    return [(mark["lower"], mark["cut"]) for mark in answer["marks"]]


def test_column_in_seconds_needs_the_unit(served: Served, tmp_path: Path) -> None:
    """No time is noted without the unit."""
    name, at = served.new(), 1_357_034_400
    log = SegmentLogWriter(tmp_path, name, event_time="departure")
    log.append([{"departure": at}])
    options = [tmp_path, name, "--field", "departure", "--delay", "5m", "--for", "0s"]
    refused = observe(served, "event-time", *options)
    before = marks(served, name, "default")
    told = observe(served, "event-time", *options, "--unit", "s")

    doubt = "look like Unix seconds (2013-01-01 as seconds, 1970-01-16 as ms): pass --unit s"
    assert (refused.status, refused.err) == (1, f"noted-time: the times of `departure` {doubt}\n")
    assert (before, told.status) == ([], 0)
    assert marks(served, name, "default") == [((at - 300) * 1000, {"0": 1})]


def test_the_printed_option_ends_the_wait_for_a_segment(served: Served, tmp_path: Path) -> None:
    """The segment's newest row has an impossible time."""
    name, at = served.new(), 1_357_034_400_000
    for segment, times in ((0, [at, at + 1]), (1, [at, at // 1000])):
        log = SegmentLogWriter(tmp_path, name, segments=[segment], event_time="departure")
        log.append([{"departure": time} for time in times])
    options = ["--delay", "0s", "--idle", "1ms", "--poll", "20ms", "--for", "1s"]
    words = ["event-time", tmp_path, name, "--field", "departure", *options]
    done = observe(served, *words)
    held = marks(served, name, "default")
    explained = " ".join(Commands(served.url)("explain", name).out.split())
    option = re.findall(r"restart the observer with (.*?) to wait", explained)
    observe(served, *words, *option[0].split())

    assert (done.status, "1 record was skipped" in done.err) == (1, True)
    assert [lower for lower, _ in held] == [at]
    assert (option, marks(served, name, "default")[-1][0]) == (["--pass 1:0"], at + 1)


def test_an_observer_shows_whether_its_notes_are_accepted(tmp_path: Path) -> None:
    """Its health depends on its timeout."""
    port = free_port()
    options = ["--max-lag", "100ms", "--poll", "50ms", "--timeout", "1s", "--domain", "default"]

    def status(path: str = "healthz") -> int:
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/{path}", trust_env=False).status_code
        return 0

    with Served() as served:
        name = served.new()
        SegmentLogWriter(tmp_path, name, event_time="departure").append([{"departure": 1}])
        words = ["observe", "log", "ingestion", tmp_path, name, *options]
        with start_command(served, *words, NOTED_TIME_HEALTH_PORT=str(port)) as process:
            eventually(status, 200)
            served.stop()
            eventually(status, 503)
            metrics = status("metrics")
            served.start()
            eventually(status, 200)
            process.terminate()

    assert (metrics, process.returncode) == (200, 0)


def test_observer_runs_until_a_signal(served: Served, stream: str, root: Path) -> None:
    """Its last note is durable."""
    words = ["observe", "log", "ingestion", root, stream, "--poll", "50ms"]
    with start_command(served, *words) as process:
        eventually(lambda: len(marks(served, stream, "ingestion")), 1)
        process.terminate()
        out, _ = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, out) == (0, f"observer observes {stream}\n")


@pytest.mark.usefixtures("impatient")
def test_unreachable_broker_is_reported_first(served: Served) -> None:
    """Problems of the stream come after it."""
    stream, address = served.new(), f"127.0.0.1:{free_port()}"
    done = Commands(served.url)("observe", "kafka", "ingestion", address, stream, "--for", "0s")
    said = done.err.splitlines()

    assert (done.status, address in said[0], "unknown_domain" in said[1]) == (1, True, True)
