"""The findings in words and as a table."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.table import Table

from examples.flights.data import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from examples.flights.data import Flights
    from examples.flights.demo import Findings
    from examples.flights.outcome import Outcome


HEADINGS = ("lost", "lost %", "median", "longest", "simulated lost %", "median")


def opening(flights: Flights) -> str:
    """Say which flights these are, and which were left aside."""
    first, last = (_day(flights.landed[index].landing) for index in (0, -1))
    return (
        f"{len(flights.landed):,} flights from New York that landed from {first} to {last}, by "
        f"{len(flights.carriers)} carriers; left aside: {flights.cancelled:,} cancelled, "
        f"{flights.untimed:,} without a recorded time in the air."
    )


def _day(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%-d %B %Y}"


def results(findings: Findings) -> Table:
    """Return the table: what Spark measured, and beside it what the simulation predicted."""
    table = Table(title="Departures per hour, counted as flights land; latency in replay time")
    table.add_column("watermark", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for measured, predicted in zip(findings.measured, findings.predicted, strict=True):
        style = "bold green" if measured.delay_ms is None else None
        table.add_row(*_cells(measured), *_simulated(predicted), style=style)
    return table


def _cells(outcome: Outcome) -> Iterator[str]:
    yield outcome.name
    yield f"{outcome.lost:,}"
    yield f"{outcome.lost_percent:.1f}"
    yield f"{outcome.median_hours:.1f} h"
    yield f"{outcome.longest_hours:.1f} h"


def _simulated(outcome: Outcome) -> Iterator[str]:
    yield f"{outcome.lost_percent:.1f}"
    yield f"{outcome.median_hours:.1f} h"


def closing(findings: Findings, least_delay_ms: int) -> list[str]:
    """Say what the table shows, and whether the measurement can be trusted."""
    noted = findings.measured[0]
    agreement = (
        "Spark measured exactly what the simulation predicted: every row lost, every latency."
        if findings.agree
        else "Spark's measurement and the simulation differ."
    )
    return [
        f"Noted time lost {noted.lost:,} of {noted.rows:,} rows. {_comparison(findings)}",
        _hindsight(least_delay_ms),
        agreement,
        *_untimely(findings),
    ]


def _comparison(findings: Findings) -> str:
    noted, without_loss = findings.measured[0], least_without_loss(findings.measured)
    if without_loss is None:
        return "No delay tried loses none."
    sooner = without_loss.median_hours - noted.median_hours
    return f"Half of its results came {sooner:.1f} h sooner than with the delay that loses none."


def least_without_loss(outcomes: Sequence[Outcome]) -> Outcome | None:
    """Return the outcome of the least delay without a lost row, `None` if each lost some."""
    lossless = (each for each in outcomes if each.delay_ms is not None and not each.lost)
    return min(lossless, key=lambda each: each.delay_ms or 0, default=None)


def _hindsight(least_delay_ms: int) -> str:
    return (
        f"To lose nothing, Spark's own watermark needs a delay of {_hours(least_delay_ms)} here; "
        "nobody knows that before the flights have landed."
    )


def _hours(ms: int) -> str:
    minutes = -(-ms // 60_000)
    return f"{minutes // 60} h {minutes % 60} min"


def _untimely(findings: Findings) -> Iterator[str]:
    if findings.untimely:
        yield f"{findings.untimely:,} windows came later than their marks allowed."


def figures(findings: Findings) -> str:
    """Return the findings as JSON: latencies in hours, per method."""
    rows = [
        {
            "method": each.name,
            "delay_hours": each.delay_ms / HOUR_MS if each.delay_ms is not None else None,
            "rows": each.rows,
            "lost": each.lost,
            "median_hours": round(each.median_hours, 3),
            "longest_hours": round(each.longest_hours, 3),
        }
        for each in findings.measured
    ]
    told = {"measured": rows, "as_simulated": findings.agree, "untimely": findings.untimely}
    return json.dumps(told, indent=2) + "\n"
