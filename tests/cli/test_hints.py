"""Of several hints in one output, the first can be pasted, and later ones are short."""

import re

import pytest

from noted_time.installation import PROGRAM_VARIABLE
from tests.cli.conftest import Commands
from tools.trials.served import Served

PROGRAM = "./run noted-time"
HINT = re.compile(r"(?:\./run )?noted-time (?=[a-z])")


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start commands as in a clone."""
    monkeypatch.setenv(PROGRAM_VARIABLE, PROGRAM)


@pytest.fixture
def absent(served: Served) -> str:
    """Make a stream whose expected writer never joined."""
    return served.new(expected_writers=["lima"])


def list_hints(text: str) -> list[str]:
    return [hint.strip() for hint in HINT.findall(text)]


def test_doctor_names_the_program_in_its_first_remedy(run: Commands, absent: str) -> None:
    """Each run begins again, also in one process."""
    outputs = [run("doctor", absent).out for _ in range(2)]

    remedies = re.findall("(?m)^ +→ (.*)", outputs[0])
    assert remedies == [
        f"start the writers; {PROGRAM} explain {absent} --domain default",
        f"start it, or end it: noted-time note {absent} WRITER --join --state finished",
    ]
    assert outputs[1].count(PROGRAM) == 1


def test_hints_in_json_keep_the_name_of_the_program(run: Commands, absent: str) -> None:
    """Each value is read by itself."""
    verdicts = run("doctor", absent, "--json").json["verdicts"]

    hints = list_hints(" ".join(verdict["remedy"] for verdict in verdicts))
    assert hints == [PROGRAM, PROGRAM]


def test_demo_stream_shortens_its_last_hint(run: Commands) -> None:
    """Its hints are in separate lines."""
    output = run("demo-stream", "hints", "--for", "1s").err
    run("stream", "delete", "hints", "--yes")

    assert list_hints(output) == [PROGRAM, "noted-time"]


def test_help_shortens_its_second_example(run: Commands) -> None:
    """A whole first example shows how all commands are called."""
    examples = re.findall(r"(?m):  (.*?) *$", run("--help").out)

    assert examples == [f"{PROGRAM} serve", "noted-time stream create flights"]
