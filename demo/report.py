"""The findings in words and as a table."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import zip_longest
from shlex import quote
from typing import TYPE_CHECKING, Any

from demo import stage
from demo.data import HOUR_MS, MINUTE_MS
from demo.replay import SEGMENTS
from demo.ways import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from rich.table import Table

    from demo.data import Flights
    from demo.findings import Findings, Plan
    from demo.measurement import Outcome


URL = "http://127.0.0.1:7464"
"""Where `./run serve` listens."""

TITLE = "Departures per hour, counted as flights land; latency in replay time"
APPENDS = f"appends them to a log of {SEGMENTS} segments"
PRODUCES = "produces them to a Kafka topic"
INCIDENTS = "On the way a partition is added, and a carrier is killed (-9) amid a transaction."
HEADINGS = ("watermark", "lost", "lost %", "median", "longest", "simulated lost %", "median")


def opening(flights: Flights) -> str:
    """Return a sentence on which flights these are, and which were left out."""
    first, last = (_day(flights.landed[index].landing) for index in (0, -1))
    return (
        f"{len(flights.landed):,} flights from New York that landed from {first} to {last}, by "
        f"{len(flights.carriers)} carriers; left aside: {flights.cancelled:,} cancelled, "
        f"{flights.untimed:,} without a recorded time in the air."
    )


def plot(flights: Flights, plan: Plan, *, kafka: bool) -> list[str]:
    """Return sentences that announce what will happen."""
    delays = ", ".join(map(str, plan.delay_hours))
    own = f"The same count goes through Spark's own watermark at delays of {delays} h."
    return [
        "A controller (SQLite) and a Spark of two cores start, both on 127.0.0.1 only.",
        (
            f"Each of {len(flights.carriers)} carriers is a writer. As its flights land, it "
            f"{PRODUCES if kafka else APPENDS}, and notes the earliest departure that it "
            "still has in the air, or the clock when it has none."
        ),
        *([*in_words(flights), INCIDENTS] if kafka else []),
        "Spark counts departures per hour and origin under the watermark that comes of that.",
        own if plan.run_own else "Its own watermark is not run, only simulated.",
    ]


def _day(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%-d %B %Y}"


def table(findings: Findings) -> Table:
    """Return the table: what Spark measured, and beside it what the simulation predicted."""
    both = zip_longest(findings.measured, findings.predicted)
    rows = [(predicted.name, *_cells(outcome, predicted)) for outcome, predicted in both]
    return stage.table(TITLE, HEADINGS, rows, ours=findings.predicted[0].name)


def _cells(outcome: Outcome | None, predicted: Outcome) -> Iterator[str]:
    if outcome is None:
        yield from ("", "", "", "")
    else:
        yield f"{outcome.lost:,}"
        yield f"{outcome.lost_percent:.1f}"
        yield f"{outcome.median_hours:.1f} h"
        yield f"{outcome.longest_hours:.1f} h"
    yield f"{predicted.lost_percent:.1f}"
    yield f"{predicted.median_hours:.1f} h"


def closing(findings: Findings, least_delay_ms: int) -> tuple[str, ...]:
    """Return sentences on what the table shows, and whether the measurement can be trusted."""
    noted = findings.measured[0]
    hours, minutes = divmod(-(-least_delay_ms // MINUTE_MS), 60)
    hindsight = (
        f"To lose nothing, Spark's own watermark needs a delay of {hours} h {minutes} min here; "
        "only hindsight knows that."
    )
    late = f"{findings.untimely or 0:,} windows came later than their marks allowed."
    return (
        f"Noted time lost {noted.lost:,} of {noted.rows:,} rows. {_comparison(findings)}",
        hindsight,
        _agreement(findings),
        *([late] if findings.untimely else []),
        *findings.incidents,
    )


def price(exact: Outcome) -> str:
    """Return what the delays of observed carriers cost; `exact` is noted time without them."""
    return (
        f"Had all carriers noted themselves, the median would be {exact.median_hours:.1f} h, and "
        f"the longest {exact.longest_hours:.1f} h (simulated): the difference is the delay."
    )


def _comparison(findings: Findings) -> str:
    sooner = sooner_hours(findings.shown)
    if sooner is None:
        return "No delay tried loses none."
    return f"Its median latency is {sooner:.1f} h below that of the least delay that loses none."


def sooner_hours(outcomes: Sequence[Outcome]) -> float | None:
    """Return by how much noted time, the first, is below the least delay that loses no row.

    Both are median latencies in hours; `None` if each delay loses some.
    """
    noted, *own = outcomes
    lossless = [each for each in own if not each.lost]
    least = min(lossless, key=lambda each: each.delay_ms or 0, default=None)
    return None if least is None else least.median_hours - noted.median_hours


def _agreement(findings: Findings) -> str:
    what = (
        "Spark" if findings.own_was_run else "Under noted time (its own watermark not run), Spark"
    )
    if findings.agree:
        return f"{what} measured what the simulation predicted: every row lost, every latency."
    return f"{what} measured something else than the simulation predicted."


def page(url: str, stream: str) -> str:
    """Return the address of a stream's page on the controller at `url`."""
    return f"{url}/#/streams/{stream}"


def where(database: Path, stream: str) -> str:
    """Return a sentence on how to look at the flights later."""
    serve = f"./run serve --database {quote(f'sqlite:///{database.as_posix()}')}"
    return f"Look at the flights at {page(URL, stream)} while this runs:\n  {serve}"


def figures(findings: Findings) -> dict[str, Any]:
    """Return the findings as JSON can hold them."""
    return {
        "methods": outcome_figures(findings.shown),
        "own_watermark": "measured" if findings.own_was_run else "simulated",
        "as_simulated": findings.agree,
        "untimely": findings.untimely,
        "noted_by": findings.ways,
    }


def outcome_figures(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return outcomes as JSON can hold them, latencies in hours."""
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
