"""What the demonstration measures and reports."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from examples.flights.data import HOUR_MS
from examples.flights.demo import Findings
from examples.flights.measurement import Counted, Outcome, noted_outcome, untimely
from examples.flights.picture import title
from examples.flights.query import Count, Run
from examples.flights.replay import Replayed
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


def test_a_loss_of_noted_time_is_the_title() -> None:
    """The picture does not hide it."""
    lost = Outcome(None, rows=200, lost=7, latencies_ms=minutes(60))

    assert title((lost, LOSSLESS)) == "Noted time lost 7 flights"


FIRST, SECOND = HOUR_MS, 2 * HOUR_MS

TRUTH = {(FIRST, "EWR"): 3, (FIRST, "JFK"): 1, (SECOND, "EWR"): 2}

CUTS = {FIRST: {0: 2}, SECOND: {0: 4, 1: 2}}

REPLAYED = Replayed(list(minutes(70, 200)), [{0: 3}, {0: 4, 1: 2}])


def noted_run(*counts: Count, watermark: int = SECOND, batch: int = 2) -> Run:
    """Return a run that gave all of it out in one batch, having read two batches before."""
    return Run(
        given_out={0: [], 1: [], batch: list(counts)},
        positions={0: {0: 2}, 1: {0: 4, 1: 2}, 2: {0: 4, 1: 2}},
        watermark=watermark,
    )


WHOLE = (Count(0, FIRST, "EWR", 3), Count(0, FIRST, "JFK", 1), Count(0, SECOND, "EWR", 2))


def test_a_row_counted_twice_is_as_wrong_as_a_lost_one() -> None:
    """A method that doubles rows does not come out clean."""
    outcome = noted_outcome(Counted(noted_run(*WHOLE, WHOLE[2]), TRUTH, REPLAYED), CUTS)

    assert outcome.lost == 2


def test_a_window_is_timely_in_the_first_batch_after_its_cut() -> None:
    """The first hour's cut was read by batch 0 and so is due in batch 1; it came in batch 2."""
    late = untimely(noted_run(*WHOLE), CUTS)

    assert late == 1
