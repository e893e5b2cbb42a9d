"""`noted-time seal`, against the real controller."""

from uuid import uuid4

import pytest

from tests.cli.conftest import Commands
from tests.support.served import Served


@pytest.fixture
def stream(served: Served) -> str:
    """Make a stream of its own for a test, with one writer that noted and one that only joined."""
    name = uuid4().hex
    served.create(name)
    notes = [{"writer": "UA", "time": 41, "position": {"0": 9}}, {"writer": "DL"}]
    served.call("POST", f"/{name}/notes", {"notes": notes})
    return name


def test_a_stream_is_sealed_with_what_is_given(run: Commands, stream: str) -> None:
    """It prints the outcome, and so do `explain`, `stream show` and `changes`."""
    given = ["--cut", "1:4", "--final-time", "default=50", "--comment", "over"]
    done = run("seal", stream, *given, "--yes")
    explained = run("explain", stream).out + run("explain", stream, "--writer-timeout", "5s").out
    shown = run("stream", "show", stream)
    row = run("changes", stream).table[1]

    assert (done.status, done.err.splitlines()) == (
        0,
        [
            f"{stream} has 2 live, 0 idle, 0 finished, 0 excluded writers.",
            f"{stream} is sealed at 0:9 1:4.",
            "The last mark of default is at 50.",
            "Never noted a time, so it is unknown how far they wrote: DL.",
        ],
    )
    assert f"{stream} is sealed at 50" in explained
    assert "stay sealed" in explained
    assert "it ends at 0:9 1:4" in shown.err
    assert (row[2], row[4], row[6]) == ("sealed", "at 0:9 1:4", "over")


def test_nothing_is_sealed_without_a_yes(run: Commands, stream: str, served: Served) -> None:
    """It has no terminal to ask on."""
    said = run("seal", stream)

    assert (said.status, "use --yes" in said.err) == (2, True)
    assert served.call("GET", f"/{stream}")["seal"] is None
