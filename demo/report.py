"""The findings in words and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.table import Table

from demo import stage
from demo.data import HOUR_MS, MINUTE_MS, Flights
from demo.measurement import Outcome
from demo.replay import SEGMENTS, STREAM

if TYPE_CHECKING:
    from demo.findings import Findings

URL = "http://127.0.0.1:7464"
"""Where `./run serve` listens."""

TITLE = "Departures per hour, counted as flights land; latency in replay time"
APPENDS = f"appends them to a log of {SEGMENTS} segments"
PUTS = f"{APPENDS}, as objects of an S3 server"
PRODUCES = "produces them to a Kafka topic, in transactions"
INCIDENTS = "On the way a partition is added, and a carrier is killed (-9) amid a transaction."
HEADINGS = ("watermark", "lost", "lost %", "median", "longest", "by")


def opening(flights: Flights) -> str:
    """Return a sentence on the flights, and on those left out."""
    first, last = (_day(flights.landed[index].landing) for index in (0, -1))
    return (
        f"{len(flights.landed):,} flights from New York that landed from {first} to {last}, by "
        f"{len(flights.carriers)} carriers; left aside: {flights.cancelled:,} cancelled, "
        f"{flights.untimed:,} without a recorded time in the air."
    )


def _day(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%-d %B %Y}"


def plot(
    flights: Flights,
    delay_hours: Iterable[int],
    *,
    run_own: bool,
    on_kafka: bool,
    in_store: bool = False,
) -> list[str]:
    writes = PRODUCES if on_kafka else PUTS if in_store else APPENDS
    delays = ", ".join(map(str, delay_hours))
    return [
        "A controller (SQLite) and a Spark of two cores start, both on 127.0.0.1 only.",
        (
            f"Each of {len(flights.carriers)} carriers is a writer. As its flights land, it "
            f"{writes}, and notes the earliest departure that it "
            "still has in the air, or the clock when it has none."
        ),
        *([INCIDENTS] if on_kafka else []),
        "Spark counts departures per hour and origin under the watermark that comes of that.",
        (
            f"The same count {'goes through' if run_own else 'is simulated under'} Spark's own "
            f"watermark at delays of {delays} h."
        ),
    ]


def table(findings: Findings) -> Table:
    """Return the table of measurements, and of predictions for the rest."""
    by = ["Spark"] * len(findings.measured) + ["simulation"] * len(findings.predicted)
    rows = [(each.name, *cells(each), how) for each, how in zip(findings.shown, by, strict=False)]
    return stage.table(TITLE, HEADINGS, rows, ours=findings.shown[0].name)


def cells(outcome: Outcome) -> tuple[str, ...]:
    """Return loss and latency as cells."""
    hours = outcome.median_hours, outcome.longest_hours
    return f"{outcome.lost:,}", f"{outcome.lost_percent:.1f}", *(f"{each:.1f} h" for each in hours)


def closing(findings: Findings, least_delay_ms: int) -> tuple[str, ...]:
    """Return sentences on the table, and on whether the measurement can be trusted."""
    noted, sooner = findings.shown[0], sooner_hours(findings.shown)
    hours, minutes = divmod(-(-least_delay_ms // MINUTE_MS), 60)
    something = "what the simulation" if findings.agree else "something else than the simulation"
    return (
        (
            f"Noted time lost {noted.lost:,} of {noted.rows:,} rows. Its median latency is "
            f"{sooner or 0:.1f} h below that of the least delay that loses none."
        ),
        (
            f"To lose nothing, Spark's own watermark needs a delay of {hours} h {minutes} min "
            "here; only hindsight knows that."
        ),
        f"Spark measured {something} predicted: every row lost, every latency.",
        *findings.incidents,
    )


def sooner_hours(outcomes: Sequence[Outcome]) -> float | None:
    """Return by how much noted time is faster than the least delay that loses no row.

    It compares median latencies in hours; `None` if each delay loses rows.
    """
    noted, *own = outcomes
    lossless = [each for each in own if not each.lost]
    least = min(lossless, key=lambda each: each.delay_ms or 0, default=None)
    return None if least is None else least.median_hours - noted.median_hours


def page(url: str) -> str:
    """Return the address of the flights' page."""
    return f"{url}/#/streams/{STREAM}"


def where(database: Path) -> str:
    serve = f"./run serve --database {quote(f'sqlite:///{database.as_posix()}')}"
    return f"Look at the flights at {page(URL)} while this runs:\n  {serve}"


def figures(findings: Findings) -> dict[str, Any]:
    return {
        "methods": outcome_figures(findings.shown),
        "own_watermark": findings.own_source,
        "as_simulated": findings.agree,
    }


def outcome_figures(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return outcomes for JSON, latencies in hours."""
    return [
        {
            "method": each.name,
            "delay_hours": each.delay_ms / HOUR_MS if each.delay_ms is not None else None,
            "rows": each.rows,
            "lost": each.lost,
            "median_hours": round(each.median_hours, 3),
            "longest_hours": round(each.longest_hours, 3),
        }
        for each in outcomes
    ]
