"""`noted-time doctor`, against a real controller and a real broker."""

import sys
import time as clock
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from noted_time.client import Json
from noted_time.installation import install_command
from noted_time_cli.app import app
from tests.access.test_served import CERTIFICATE, TLS
from tests.cli.conftest import Commands, Console, Result
from tests.support.gates import Guarded
from tests.support.processes import ServeProcess, environment, run_command
from tools.trials.calls import Calls
from tools.trials.served import Served
from tools.trials.waiting import wait_until

WITHOUT_BROKER = [
    *("doctor", "--kafka", "127.0.0.1:9", "--topic", "t", "--checkpoint", "none", "--json")
]


def now() -> int:
    """Return the wall clock in Unix ms."""
    return int(clock.time() * 1000)


def verdicts(result: Result) -> dict[str, list[Json]]:
    """Return the verdicts of each check."""
    verdicts_by_check: dict[str, list[Json]] = {}
    for verdict in result.json["verdicts"]:
        verdicts_by_check.setdefault(verdict["check"], []).append(verdict)
    return verdicts_by_check


def outcomes(result: Result, *checks: str) -> list[str]:
    """Return the outcomes of some checks, with commas between several of one check."""
    verdicts_by_check = verdicts(result)
    texts = []
    for check in checks:
        outcomes_of_check = [verdict["outcome"] for verdict in verdicts_by_check.get(check, ())]
        texts.append(", ".join(outcomes_of_check))
    return texts


@pytest.fixture
def token_controller() -> Iterator[tuple[Served, Guarded]]:
    """Return a controller that requires tokens, with the stream `flights`, and its tokens."""
    tokens = Guarded()
    with Served(gate=tokens.gate) as server:
        Calls(server.url, tokens.token("admin")).create("flights")
        yield server, tokens


@pytest.mark.acceptance
@pytest.mark.parametrize(("listens", "asked"), [((), "https"), (TLS, "http")])
def test_doctor_suggests_the_right_scheme(tmp_path: Path, listens: list[str], asked: str) -> None:
    """The next remedy is the certificate, if its authority is unknown here."""
    with ServeProcess(tmp_path, *listens).ready() as controller:
        run = Commands(controller.url)
        right = controller.url
        wrong = f"{asked}{right[right.index(':') :]}"
        first = verdicts(run("doctor", "--url", wrong, "--json"))["controller"][0]
        then = verdicts(run("doctor", "--json"))["controller"][0]
        certificate_file = str(CERTIFICATE)
        last = run_command("doctor", "--url", right, cwd=tmp_path, SSL_CERT_FILE=certificate_file)

    assert (first["outcome"], first["remedy"]) == ("wrong", f"use {right}; this URL is from --url")
    assert then["outcome"] == ("wrong" if listens else "ok")
    assert ("set SSL_CERT_FILE to" in then["fact"]) is bool(listens)
    assert last.returncode == 0, last.stdout


def test_each_stream_problem_has_a_remedy(run: Console) -> None:
    """A writer that never came, one that fell silent, and one whose times are in seconds."""
    run.served.create("ill", writer_timeout_ms=600, expected_writers=["DL"])
    for time in (5, 1_357_034_400):  # a first time in seconds is refused
        run.served.post("ill", {"writer": "UA", "time": time, "position": {"0": 1}})
    wait_until(lambda: run.served.get("ill/explain").get("silence") == "missing")

    result = run("doctor", "ill", "--json")

    lines = [
        (verdict["fact"].partition(" (")[0], verdict["remedy"] != "")
        for verdict in verdicts(result)["writers"]
    ]
    explanation = " ".join(run.served.get("ill/explain")["sentences"])
    assert (result.status, lines, verdicts(result)["domain default"][0]["fact"]) == (
        1,
        [("never came: DL", True), ("excluded: UA", True), ("seconds: UA", True)],
        explanation,
    )


def test_doctor_shows_the_rights_of_a_token(token_controller: tuple[Served, Guarded]) -> None:
    """The output never repeats a secret."""
    server, tokens = token_controller
    unknown_token = "nt_5b1f0c2d9e7a_secret"  # noqa: S105 - of no controller
    writing_token = tokens.token("write", streams=["flights"], writers=["UA"])
    run = Commands(server.url)
    unknown = run("doctor", "flights", "--token", unknown_token, "--json")
    writes = run("doctor", "flights", "--token", writing_token, "--json")

    assert outcomes(unknown, "token", "stream") == ["wrong", "not checked"]
    assert outcomes(writes, "token", "stream") == ["ok", "not checked"]
    assert verdicts(writes)["token"][0]["fact"].endswith("permits: write flights as UA")
    assert "(a token from --token was sent)" in verdicts(unknown)["token"][0]["fact"]
    output = unknown.out + unknown.err + writes.out + writes.err
    assert unknown_token not in output
    assert writing_token not in output


@pytest.mark.usefixtures("impatient")
def test_unreachable_broker_is_a_problem(run: Commands) -> None:
    """The checkpoint is checked nevertheless."""
    result = run(*WITHOUT_BROKER)

    assert outcomes(result, "broker", "checkpoint") == ["wrong", "wrong"]
    assert "no Kafka broker answers at 127.0.0.1:9" in verdicts(result)["broker"][0]["fact"]
    assert verdicts(result)["broker"][0]["remedy"] == "start the broker, or correct --kafka"


def test_checks_need_their_extra(run: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy installs the extra, and the status is 0."""
    run.served.create("t")
    run.served.post("t", {"writer": "UA", "time": now(), "position": {"0": 1}})
    monkeypatch.delitem(sys.modules, "noted_time.kafka.topic", raising=False)
    for module in ("confluent_kafka", "spark_integration.checkpoint.files"):
        monkeypatch.setitem(sys.modules, module, None)

    result = run(*WITHOUT_BROKER)

    assert (result.status, outcomes(result, "broker", "checkpoint")) == (0, ["not checked"] * 2)
    assert verdicts(result)["broker"][0]["remedy"] == install_command("kafka")


def test_problems_are_coloured_on_a_terminal(served: Served) -> None:
    """Other outputs have no colour codes."""
    variables = {"NOTED_TIME_URL": served.url, "FORCE_COLOR": "1", "TERM": "xterm-256color"}

    coloured_result = CliRunner().invoke(app, ["doctor", "oders"], env=environment() | variables)
    plain = Commands(served.url)("doctor", "oders")

    assert ("\x1b[1;31mwrong" in coloured_result.stdout, "\x1b" in plain.out) == (True, False)
