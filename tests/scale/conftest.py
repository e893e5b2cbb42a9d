"""The record of a trial on each database, and its table at the end of the run."""

from __future__ import annotations

import os
import shutil

import pytest

from benchmarks.stored import sqlite_url
from tests.scale.measuring import Record
from tests.scale.trial import CONTROLLERS, hold_trial
from tests.store.conftest import DURABLE
from tests.support.processes import ROOT
from tools.trials.postgres import Server

WRITERS_VARIABLE = "TEST_WRITERS"
WRITERS = int(os.environ.get(WRITERS_VARIABLE, "20000"))
FIGURES = ROOT / "build" / "scale"

RECORDS: list[Record] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table of each trial, also of one that failed."""
    for record in RECORDS:
        terminalreporter.write_line("")
        for line in record.format_table():
            terminalreporter.write_line(line)


@pytest.fixture(scope="module", params=DURABLE)
def record(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Hold the trial on a database, and return its record."""
    new_record = Record(request.param, WRITERS)
    RECORDS.append(new_record)
    directory = tmp_path_factory.mktemp("scale")
    if request.param == "postgres":
        server: Server = request.getfixturevalue("server")
        database = server.make_database()
    else:
        database = sqlite_url(directory / "noted-time.db")
    try:
        hold_trial(database, CONTROLLERS[new_record.database], directory, new_record)
    finally:
        new_record.write(FIGURES / f"{new_record.database}.json")
        shutil.rmtree(directory)
    return new_record
