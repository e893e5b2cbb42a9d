import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from noted_time_cli import demos
from tests.cli.conftest import Commands
from tests.support.served import Served

WRITERS = ["berlin", "nairobi", "osaka", "lima"]


@pytest.fixture
def name() -> str:
    """Return a name that no other test has."""
    return uuid4().hex


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> dict[int, Callable[[], Any]]:
    """Let seconds pass at once; `before` of a second is called ahead of it."""
    planned: dict[int, Callable[[], Any]] = {}
    seconds = iter(range(10_000))

    def sleep(_: float) -> None:
        planned.get(next(seconds), lambda: None)()

    clock = SimpleNamespace(time=time.time, monotonic=lambda: 0.0, sleep=sleep)
    monkeypatch.setattr(demos, "clock", clock)
    return planned


def test_after_seconds_there_is_something_to_look_at(
    run: Commands, served: Served, name: str, pauses: dict[int, Callable[[], Any]]
) -> None:
    """The slow writer holds the watermark minutes behind the others, and a reader follows."""
    seen: dict[str, Any] = {}

    def look() -> None:
        seen.update(served.call("GET", f"/{name}/explain"))
        seen.update(served.call("GET", f"/{name}/reader-groups/hourly-counts"))

    pauses[5] = look
    played = run("demo-stream", name, "--for", "6s")

    gained_s = (seen["lower_without"]["lima"] - seen["lower"]) // 1000
    assert (seen["decision"], [each["writer"] for each in seen["waiting_for"]]) == (
        "hold",
        ["lima"],
    )
    assert (180 < gained_s < 200, seen["readers"].keys()) == (True, {"counts-0"})
    assert (played.status, f"{served.url}/#/streams/{name}" in played.err) == (0, True)


def test_at_the_end_no_writer_is_waited_for(run: Commands, served: Served, name: str) -> None:
    """The writers are idle, the reader is offline, and it prints how to remove the stream."""
    played = run("demo-stream", name, "--for", "3s")

    states = {each: row["state"] for each, row in served.writers(name).items()}
    readers = served.call("GET", f"/{name}/reader-groups")["groups"]
    assert (states, [each["readers"] for each in readers]) == (dict.fromkeys(WRITERS, "idle"), [0])
    assert played.err.splitlines()[-1] == f"To remove it:  noted-time stream delete {name}"


def test_ctrl_c_ends_it_well(
    run: Commands, served: Served, name: str, pauses: dict[int, Callable[[], Any]]
) -> None:
    """As the end of its time does."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    pauses[2] = interrupt
    played = run("demo-stream", name)

    states = {row["state"] for row in served.writers(name).values()}
    assert (played.status, states) == (0, {"idle"})


def test_its_own_stream_is_played_on(run: Commands, served: Served, name: str) -> None:
    """Where the last run ended: no position goes back."""
    first = run("demo-stream", name, "--for", "30s")
    once = served.writers(name)["berlin"]["position"]
    again = run("demo-stream", name, "--for", "30s")
    twice = served.writers(name)["berlin"]["position"]

    assert (first.status, again.status) == (0, 0), again.err
    assert (once, twice) == ({"0": 29 * 40}, {"0": 2 * 29 * 40})


def test_a_stream_of_somebody_else_is_left_alone(run: Commands, served: Served, name: str) -> None:
    """Unless the user wants that; then only its own writers are to be removed."""
    served.create(name)
    refused = run("demo-stream", name, "--for", "1s")
    untouched = served.writers(name)
    played = run("demo-stream", name, "--for", "1s", "--again")

    says = (
        f"noted-time: there is a stream '{name}' already, which demo-stream did not create: use "
        "another name, or --again to have berlin, nairobi, osaka, lima note in it anyway\n"
    )
    assert (refused.status, refused.err, untouched) == (1, says, {})
    removals = [f"noted-time remove {name} {writer}" for writer in WRITERS]
    assert (played.status, played.err.splitlines()[-4:]) == (0, removals)


def test_it_outlives_a_controller_that_is_away(
    run: Commands, served: Served, name: str, pauses: dict[int, Callable[[], Any]]
) -> None:
    """It reports that once; what was not sent is sent when the controller is back."""
    pauses[8], pauses[12] = served.stop, served.start
    played = run("demo-stream", name, "--for", "14s")

    said = [line for line in played.err.splitlines() if line.endswith("; trying again")]
    noted = served.writers(name)["lima"]["position"]
    assert (played.status, len(said), noted) == (0, 1, {"3": 5})


def test_another_player_in_the_stream_is_noticed(
    run: Commands, served: Served, name: str, pauses: dict[int, Callable[[], Any]]
) -> None:
    """Its positions are ahead of ours."""
    ahead = {"writer": "berlin", "position": {"0": 10**6}}
    pauses[2] = lambda: served.call("POST", f"/{name}/notes", {"notes": [ahead]})
    played = run("demo-stream", name, "--for", "9s")

    says = (
        "noted-time: a note of berlin was refused as invalid_position: "
        f"does another demo-stream play in {name}?\n"
    )
    assert (played.status, played.err.endswith(says)) == (1, True)
