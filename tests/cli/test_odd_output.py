"""Texts of strangers are printed without escapes, forged lines or tracebacks."""

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from noted_time.answers import Explanation
from noted_time.values import MOST_DOMAINS
from tests.cli.conftest import Commands
from tests.cli.test_doctor_rules import LIVE
from tests.cli.test_doctor_rules import STREAM as FLIGHTS
from tests.support.odd_controller import odd_controller

EVIL = "\x1b]0;owned\x07\x9b2J\u202elive\r\nnoted-time: all is well"
SHOWN = r"\u001b]0;owned\u0007\u009b2J\u202elive\r\nnoted-time: all is well"
CONTROLS = frozenset("\x1b\x07\x9b\u202e\r")
RIGHTS: dict[str, Any] = {
    "token": None,
    "administer": True,
    "read_all": True,
    "read": [],
    "write": [],
}
ACCESS = {"version": version("noted-time"), "tokens": False, "writers": [], **RIGHTS}
STREAM = FLIGHTS | {"name": "s", "marks": {"default": None}, "scale_events": []}
PAGE = {"writers": [], "states": {}, "now": 5, "total": 0, "next": None}
WITHOUT = (
    *("times_out_at", "session", "no_time_reason", "times_out_in_ms", "lower_without"),
    *("suspended_by", "suspension_reason", "silent_ms"),
)
WRITER = dict.fromkeys(WITHOUT) | LIVE | {"late_rows": {}, "session": None, "vouching": {}}
EXPLAINED: dict[str, Any] = dict.fromkeys(Explanation.__struct_fields__) | {
    "now": 5,
    "decision": "advance",
    "condition": "advancing",
    "waiting_for": [],
    "holding_back_count": 0,
    "lower_without": {},
    "hints": [],
    "sentences": ["Quiet."],
}
ANSWERS: dict[str, Any] = {
    "/access": ACCESS,
    "/controllers": {"controllers": [], "risk": None},
    "/streams/s": STREAM,
    "/writers": PAGE,
    "/explain": EXPLAINED,
    "/readyz": {},
}
ODD: list[tuple[str, Any]] = [
    ("/readyz", b"<html>"),
    ("/readyz", []),
    ("/access", {}),
    ("/access", ACCESS | {"version": "next"}),
    ("/access", ACCESS | {"tokens": True, "administer": False, "read": 5}),
    ("/streams/s", {}),
    ("/streams/s", STREAM | {"marks": {"default": {"lower": "1"}}}),
    ("/streams/s", STREAM | {"marks": {"default": {"seq": 1}}}),
    ("/streams/s", STREAM | {"seal": {"cut": {}}}),
    ("/streams/s", STREAM | {"writer_timeout_ms": None}),
    ("/streams/s", STREAM | {"domains": None}),
    ("/streams/s", STREAM | {"domains": [f"d{number}" for number in range(100_000)]}),
    ("/writers", PAGE | {"writers": [{}]}),
    ("/writers", PAGE | {"writers": [5]}),
    ("/writers", PAGE | {"states": {"live": None}}),
    ("/explain", {}),
    ("/explain", EXPLAINED | {"hints": [{}]}),
    ("/explain", EXPLAINED | {"hints": [5]}),
]


ODD_PATTERN = "unexpected answer|not a|no answer of a"


@pytest.mark.parametrize(("path", "body"), ODD)
def test_doctor_reports_odd_answers_in_one_sentence(path: str, body: object) -> None:
    """The doctor continues with the remaining checks."""
    with odd_controller(ANSWERS | {path: body}) as url:
        result = Commands(url)("doctor", "s", "--json")

    facts = [verdict["fact"] for verdict in result.json["verdicts"]]
    (odd_fact,) = [fact for fact in facts if re.search(ODD_PATTERN, fact)]
    assert result.status == 1
    assert len(odd_fact) < 1000


def test_doctor_checks_the_largest_number_of_domains() -> None:
    """It shows only a few of many hints."""
    domains = [f"d{number}" for number in range(MOST_DOMAINS)]
    hints = [{"writer": "UA", "detail": "d", "hint": str(number)} for number in range(2000)]
    odd = {"/streams/s": STREAM | {"domains": domains}, "/explain": EXPLAINED | {"hints": hints}}
    odd["/writers"] = PAGE | {"writers": [WRITER | {"times": {}}]}
    with odd_controller(ANSWERS | odd) as url:
        verdicts = Commands(url)("doctor", "s", "--json").json["verdicts"]

    checks = [verdict["check"] for verdict in verdicts]
    for domain in domains:
        assert f"domain {domain}" in checks
    assert checks.count("writers") == 1


@pytest.mark.parametrize("words", [("explain", "s"), ("doctor", "s")])
def test_control_characters_of_a_controller_are_escaped(words: tuple[str, ...]) -> None:
    waiting_writer = {"writer": EVIL, "time": 5, "held_back_ms": 5, "times_out_in_ms": 5}
    explanation = EXPLAINED | {"sentences": [EVIL], "waiting_for": [waiting_writer]}
    history: dict[str, Any] = {"now": 5, "lower_before": None, "points": []}
    with odd_controller(ANSWERS | {"/explain": explanation, "/history": history}) as url:
        result = Commands(url)(*words)

    output = result.out + result.err
    assert SHOWN in output
    assert not CONTROLS & set(output)
    assert "noted-time: all is well" not in output.splitlines()


def test_all_output_passes_one_function() -> None:
    """Other ways to print would let control characters through."""
    package = Path(__file__).resolve().parents[2] / "noted_time_cli"
    file_names = set()
    for file in package.rglob("*.py"):
        if re.search(r"typer\.echo\(|click\.echo\(|sys\.stdout\.write\(", file.read_text()):
            file_names.add(file.name)

    assert file_names == {"output.py"}
