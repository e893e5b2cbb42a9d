"""The findings in words and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from shlex import quote
from typing import Any

from rich.table import Table

from demo import stage
from demo.data import HOUR_MS, Flights
from demo.measurement import Findings, Outcome, format_delay
from demo.replay import SEGMENTS, STREAM

URL = "http://127.0.0.1:7464"
"""Where `./run serve` listens."""

TITLE = "Departures per hour, counted as flights land; latency in hours of 2013"
APPENDS = f"appends them to a log of {SEGMENTS} partitions, in files"
PUTS = f"{APPENDS}, as objects of an S3 server"
PRODUCES = "produces them to a Kafka topic, in transactions"
INCIDENTS = "On the way a partition is added, and a carrier is killed (-9) amid a transaction."
HEADINGS = ("watermark", "lost", "lost %", "median", "longest", "by")


def opening(flights: Flights) -> str:
    """Return a sentence on the flights, and on those left out."""
    first_day = _format_day(flights.landed[0].landing)
    last_day = _format_day(flights.landed[-1].landing)
    return (
        f"{len(flights.landed):,} flights from New York that landed from {first_day} to "
        f"{last_day}, by {len(flights.carriers)} carriers; left aside: {flights.cancelled:,} "
        f"cancelled, {flights.untimed:,} without a recorded time in the air."
    )


def _format_day(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%-d %B %Y}"


def plot(
    flights: Flights,
    delays_ms: Iterable[int],
    *,
    run_own: bool,
    on_kafka: bool,
    in_store: bool = False,
) -> list[str]:
    """Return sentences on what the comparison does."""
    if on_kafka:
        writes = PRODUCES
    elif in_store:
        writes = PUTS
    else:
        writes = APPENDS
    sentences = [
        "A controller (SQLite) and a Spark of two cores start, both on 127.0.0.1 only.",
        (
            f"Each of {len(flights.carriers)} carriers is a writer. As its flights land, it "
            f"{writes}, and notes the earliest departure that it "
            "still has in the air, or the clock when it has none."
        ),
    ]
    if on_kafka:
        sentences.append(INCIDENTS)
    sentences.append(
        "Spark counts departures per hour and airport. Its watermark is the least of the noted "
        "times."
    )
    is_counted = "goes through" if run_own else "is computed under"
    delays = ", ".join(format_delay(delay_ms) for delay_ms in delays_ms)
    sentences.append(
        f"The same count {is_counted} Spark's own watermark, with its defaults and a batch a "
        f"minute, at delays of {delays}."
    )
    return sentences


def table(findings: Findings) -> Table:
    """Return the table of measurements, and of predictions for the rest."""
    rows = []
    for number, outcome in enumerate(findings.shown):
        source = "Spark" if number < len(findings.measured) else "computed"
        rows.append((outcome.name, *cells(outcome), source))
    return stage.table(TITLE, HEADINGS, rows, ours=findings.shown[0].name)


def cells(outcome: Outcome) -> tuple[str, ...]:
    """Return loss and latency as cells."""
    return (
        f"{outcome.lost:,}",
        f"{outcome.lost_percent:.1f}",
        f"{outcome.median_hours:.1f} h",
        f"{outcome.longest_hours:.1f} h",
    )


def closing(findings: Findings) -> tuple[str, ...]:
    """Return sentences on the table, and on whether the measurement can be trusted."""
    noted_outcome, guessed_outcome, *_ = findings.shown
    least_outcome = find_least_lossless(findings.shown)
    relation = "equal" if findings.agree else "differ from"
    return (
        (
            f"Noted time lost {noted_outcome.lost:,} of {noted_outcome.rows:,} rows. "
            "Spark's own watermark with a delay of "
            f"{format_delay(guessed_outcome.delay_ms or 0)} lost {guessed_outcome.lost:,}."
        ),
        (
            "To lose nothing, it needs a delay of "
            f"{format_delay(least_outcome.delay_ms or 0)} here; "
            "only hindsight knows that. The median latency of noted time is then "
            f"{sooner_hours(findings.shown):.1f} h less."
        ),
        (
            f"Spark's figures {relation} the simulation's, for each lost row and each latency. The "
            "simulation computes them without Spark."
        ),
        *findings.incidents,
    )


def sooner_hours(outcomes: Sequence[Outcome]) -> float:
    """Return how many hours sooner noted time emits, in the median, than the least lossless delay.

    `choose_delays` has the least delay that loses no row, so it is among the outcomes.
    """
    return find_least_lossless(outcomes).median_hours - outcomes[0].median_hours


def find_least_lossless(outcomes: Sequence[Outcome]) -> Outcome:
    """Return Spark's own watermark with the least delay that lost no row."""
    _, *own_outcomes = outcomes
    lossless_outcomes = [outcome for outcome in own_outcomes if outcome.lost == 0]
    return min(lossless_outcomes, key=attrgetter("delay_ms"))


def page(url: str, stream: str = STREAM) -> str:
    """Return the address of a stream's page."""
    return f"{url}/#/streams/{stream}"


def where(database: Path, stream: str = STREAM, content: str = "flights") -> str:
    serve = f"./run serve --database {quote(f'sqlite:///{database.as_posix()}')}"
    return f"Look at the {content} at {page(URL, stream)} while this runs:\n  {serve}"


def figures(findings: Findings) -> dict[str, Any]:
    return {
        "methods": outcome_figures(findings.shown),
        "own_watermark": findings.own_source,
        "as_simulated": findings.agree,
    }


def outcome_figures(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return outcomes for JSON, latencies in hours."""
    return [_make_figures(outcome) for outcome in outcomes]


def _make_figures(outcome: Outcome) -> dict[str, Any]:
    delay_hours = None
    if outcome.delay_ms is not None:
        delay_hours = outcome.delay_ms / HOUR_MS
    return {
        "method": outcome.name,
        "delay_hours": delay_hours,
        "rows": outcome.rows,
        "lost": outcome.lost,
        "median_hours": round(outcome.median_hours, 3),
        "longest_hours": round(outcome.longest_hours, 3),
    }
