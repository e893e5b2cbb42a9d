"""The demo of changes of a database, and its judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from demo import cdc
from demo.change_claims import (
    CLOCK,
    DELAYED_CLOCK,
    HEARTBEAT,
    METHODS,
    NEWEST,
    NOTED,
    Finding,
    Moment,
    NewestTimes,
    Truth,
    judge,
    read_heartbeat_time,
    read_source_time,
)
from demo.cli import app
from tools.trials import debezium
from tools.trials.broker import Record
from tools.trials.changes import NotedTime, Place
from tools.trials.postgres import find_binaries
from tools.trials.served import Served

MINUTE_MS = 60_000


def make_record(offset: int, content: object) -> Record:
    return Record(0, offset, -1, value=json.dumps(content).encode())


def test_a_claim_is_wrong_above_a_missing_change() -> None:
    """One of three rows is in the topic: the second was committed 400 ms before the clock."""
    commits_us = {1: 59_000_000, 2: 59_600_000, 3: 60_000_000}
    changes = [make_record(0, {"source": {"ts_ms": 59_000}})]
    heartbeats = [make_record(0, {"ts_ms": 59_900})]
    truth = Truth(
        commits_us,
        {1: Place(0, 0)},
        NewestTimes(changes, read_source_time),
        NewestTimes(heartbeats, read_heartbeat_time),
    )
    moment = Moment(NotedTime(58_900, {0: 1}), heartbeats=1, clock=MINUTE_MS, ends={0: 1})

    findings = {finding.method: finding for finding in judge([moment], truth)}
    assert findings == {
        NOTED: Finding(NOTED, 1100, 0, 0),
        NEWEST: Finding(NEWEST, 1000, 0, 0),
        HEARTBEAT: Finding(HEARTBEAT, 100, 1, 300),
        CLOCK: Finding(CLOCK, 0, 1, 400),
        DELAYED_CLOCK: Finding(DELAYED_CLOCK, 5000, 0, 0),
    }


@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_no_change_is_missing_below_noted_times(served: Served, tmp_path: Path) -> None:
    """PostgreSQL, Debezium and the observers are real, and Connect is killed."""
    if find_binaries() is None or not debezium.find_class_path():
        pytest.skip("PostgreSQL or Debezium is not installed")
    sentences: list[str] = []
    with cdc.open_shop(served.url, tmp_path) as (shop, worker):
        result = cdc.play(shop, worker, sentences.append, load_s=6)

    verdicts = {verdict["method"]: verdict for verdict in result.figures["methods"]}
    assert (result.broken, verdicts[NOTED]["wrong"]) == ((), 0), sentences
    assert verdicts[CLOCK]["wrong"] > 0
    assert [name for name in METHODS if verdicts[name]["claims"] < 5] == []


def test_a_missing_postgresql_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cdc, "find_binaries", lambda: None)
    called = CliRunner().invoke(app, ["--cdc", "--out", str(tmp_path)])

    says = "install PostgreSQL 14 or newer, for example by `apt install postgresql`"
    assert (called.exit_code, says in " ".join(called.output.split())) == (2, True)


def test_a_missing_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cdc, "find_binaries", lambda: tmp_path)
    monkeypatch.setattr("tools.trials.classes.tool", lambda _: None)
    called = CliRunner().invoke(app, ["--cdc", "--out", str(tmp_path)])

    says = "Kafka needs Java 17 or newer: install one"
    assert (called.exit_code, says in " ".join(called.output.split())) == (2, True)


def test_changes_take_no_options_of_flights() -> None:
    called = CliRunner().invoke(app, ["--cdc", "--days", "2"])

    assert (called.exit_code, "--cdc plays no flights" in called.output) == (2, True)
