from __future__ import annotations

from io import StringIO

from rich.console import Console

from examples.flights.data import HOUR_MS
from examples.flights.demo import Findings
from examples.flights.measurement import Outcome
from examples.flights.picture import title
from examples.flights.report import closing, table
from tests.examples.flown import minutes

NOTED = Outcome(None, rows=200, lost=0, latencies_ms=minutes(60, 360))
LOSSY = Outcome(2 * HOUR_MS, rows=200, lost=5, latencies_ms=minutes(120, 180))
LOSSLESS = Outcome(8 * HOUR_MS, rows=200, lost=0, latencies_ms=minutes(480, 600))
ALL = (NOTED, LOSSY, LOSSLESS)


def shown(findings: Findings) -> list[list[str]]:
    """Return the words of each row of the table."""
    console = Console(file=StringIO(), width=120)
    with console.capture() as capture:
        console.print(table(findings))
    rows = [line.split("│")[1:-1] for line in capture.get().splitlines() if "│" in line]
    return [[cell.strip() for cell in row] for row in rows]


def test_the_table_sets_the_prediction_beside_the_measurement() -> None:
    """A row for each method, noted time first."""
    rows = shown(Findings(measured=ALL, predicted=ALL, untimely=0))

    assert rows == [
        ["noted time", "0", "0.0", "3.5 h", "6.0 h", "0.0", "3.5 h"],
        ["own watermark, 2 h", "5", "2.5", "2.5 h", "3.0 h", "2.5", "2.5 h"],
        ["own watermark, 8 h", "0", "0.0", "9.0 h", "10.0 h", "0.0", "9.0 h"],
    ]


def test_a_measurement_that_differs_is_reported() -> None:
    """One row lost that was not predicted is enough."""
    findings = Findings(measured=(LOSSY,), predicted=(NOTED,), untimely=0)

    assert "Spark measured something else" in " ".join(closing(findings, HOUR_MS))


def test_windows_that_came_late_are_reported() -> None:
    """A query that lags behind its marks does not pass in silence."""
    sentences = closing(Findings(measured=ALL, predicted=ALL, untimely=3), HOUR_MS)

    assert sentences[-1] == "3 windows came later than their marks allowed."


def test_the_title_is_the_finding() -> None:
    """Nine hours against three and a half."""
    assert title(ALL) == "Not one flight lost, and results 5.5 hours sooner"


def test_a_loss_of_noted_time_is_the_title() -> None:
    """The picture does not hide it."""
    lost = Outcome(None, rows=200, lost=7, latencies_ms=minutes(60))

    assert title((lost, LOSSLESS)) == "Noted time lost 7 flights"
