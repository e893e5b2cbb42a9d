"""`noted-time demo-stream`, on a stream of a real controller."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from noted_time.rules import Aggregator
from noted_time.values import Accepted, Note, StreamSettings
from noted_time_cli import demos
from noted_time_cli.demos import (
    BACK_S,
    BEHIND_MS,
    ROUND_S,
    STALLED_WRITER,
    WRITER_RATES,
    WRITER_TIMEOUT_S,
    list_noting_writers,
)
from tests.cli.conftest import Commands
from tools.trials.served import Served


def test_demo_writer_holds_times_out_and_returns_each_round() -> None:
    """The times follow from the rules."""
    settings = StreamSettings(
        writer_timeout_ms=WRITER_TIMEOUT_S * 1000, expected_writers=tuple(WRITER_RATES)
    )
    stream = Aggregator(settings)
    out = []
    holding_seconds = []
    for second in range(2 * ROUND_S):
        now = second * 1000
        for writer in list_noting_writers(second):
            assert isinstance(stream.note(Note(writer, now - BEHIND_MS), now), Accepted)
        stream.expire(now)
        mark = stream.advance("default", now=now, written_at=now)
        out += [second] if stream.record(STALLED_WRITER).excluded else []
        holding_seconds += [second] if mark is None else []

    timeout_s = demos.SILENT_S - 1 + WRITER_TIMEOUT_S
    assert holding_seconds == [
        *range(demos.SILENT_S, timeout_s),
        *range(ROUND_S + demos.SILENT_S, ROUND_S + timeout_s),
    ]
    assert out == [*range(timeout_s, BACK_S), *range(ROUND_S + timeout_s, ROUND_S + BACK_S)]


@pytest.fixture
def name() -> str:
    """Return a name that no other test has."""
    return uuid4().hex


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> dict[int, Callable[[], Any]]:
    """Let seconds pass at once; calls planned for a second run before it."""
    planned_acts: dict[int, Callable[[], Any]] = {}
    passed_seconds: list[int] = []

    def sleep(_: float) -> None:
        second = len(passed_seconds)
        passed_seconds.append(second)
        act = planned_acts.get(second)
        if act is not None:
            act()

    def monotonic() -> float:
        return float(len(passed_seconds))

    clock = SimpleNamespace(time=time.time, monotonic=monotonic, sleep=sleep)
    monkeypatch.setattr(demos, "clock", clock)
    return planned_acts


def states(served: Served, name: str) -> dict[str, str]:
    """Return the state of each writer."""
    return {writer: row["state"] for writer, row in served.writers(name).items()}


def test_demo_stream_ends_with_idle_writers(run: Commands, served: Served, name: str) -> None:
    """The output says where to look and how to remove the stream."""
    result = run("demo-stream", name, "--for", "7s")

    lines = result.err.splitlines()
    assert (result.status, states(served, name)) == (0, dict.fromkeys(WRITER_RATES, "idle"))
    assert lines[0] == f"{name} is running. Look at it:  {served.url}/#/streams/{name}"
    assert lines[2].startswith(f"0:02  {name} ")
    assert lines[-1] == f"To remove it:  noted-time stream delete {name}"


def test_demo_ends_with_69_when_no_controller_answers(
    run: Commands, served: Served, name: str, pauses: dict[int, Callable[[], Any]]
) -> None:
    """It prints only explanations of a controller."""
    pauses[4] = served.stop
    result = run("demo-stream", name)
    served.start()

    assert result.status == 69
    assert f"no answer from {served.url}/v1/streams/{name}/explain" in result.err


def test_demo_ends_soon_with_the_cause_alone(
    run: Commands,
    served: Served,
    name: str,
    pauses: dict[int, Callable[[], Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its writers do not wait for the controller, and do not warn of it."""
    pauses[4] = served.stop
    began = time.monotonic()
    result = run("demo-stream", name)
    ended = time.monotonic()
    served.start()

    assert (result.status, caplog.messages) == (69, [])
    assert "no answer from" in result.err.splitlines()[-1]
    assert ended - began < 10  # the time that one writer waits for a flush


def test_demo_survives_a_restart_of_its_controller(
    run: Commands, served: Served, name: str, pauses: dict[int, Callable[[], Any]]
) -> None:
    """Its writers keep their notes meanwhile."""
    pauses[4] = served.stop
    pauses[7] = served.start
    result = run("demo-stream", name, "--for", "20s")

    assert (result.status, states(served, name)) == (0, dict.fromkeys(WRITER_RATES, "idle"))


def test_second_demo_says_that_it_takes_over(run: Commands, served: Served, name: str) -> None:
    """A demo that has ended is continued without this sentence."""
    run("demo-stream", name, "--for", "1s")
    second_result = run("demo-stream", name, "--for", "1s")
    served.post(name, {"writer": "berlin", "position": {}})
    third_result = run("demo-stream", name, "--for", "1s")

    sentence = f"The writers of {name} note at this moment."
    assert (sentence in second_result.err, sentence in third_result.err) == (False, True)


def test_ctrl_c_ends_the_demo_stream_cleanly(
    run: Commands, served: Served, name: str, pauses: dict[int, Callable[[], Any]]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    pauses[2] = interrupt
    result = run("demo-stream", name)

    assert (result.status, states(served, name)) == (0, dict.fromkeys(WRITER_RATES, "idle"))


def test_demo_continues_its_own_stream(run: Commands, served: Served, name: str) -> None:
    """It continues at the last positions."""
    for _ in range(2):
        assert run("demo-stream", name, "--for", "30s").status == 0
    assert served.writers(name)["berlin"]["position"] == {"0": 2 * 30 * 40}


def test_demo_does_not_warn_of_its_stalled_writer(
    run: Commands, served: Served, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The last run was killed while the controller excluded the writer."""
    run("demo-stream", name, "--for", "1s")
    served.post(name, *({"writer": writer} for writer in WRITER_RATES))
    served.call("DELETE", f"/{name}/writers/{STALLED_WRITER}")
    later_fields = {"time": int(time.time() * 1000) - BEHIND_MS, "position": {}}
    other_writers = WRITER_RATES.keys() - {STALLED_WRITER}
    served.post(name, *({"writer": writer, **later_fields} for writer in other_writers))
    second_result = run("demo-stream", name, "--for", "3s")

    assert (second_result.status, caplog.messages) == (0, [])


def test_demo_refuses_a_stream_it_did_not_create(run: Commands, served: Served, name: str) -> None:
    """The error asks for another name."""
    served.create(name)
    result = run("demo-stream", name, "--for", "1s")

    assert (result.status, states(served, name)) == (1, {})
    assert result.err == (
        f"noted-time: there is a stream '{name}' already, which demo-stream did not create: use "
        "another name\n"
    )
