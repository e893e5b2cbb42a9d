"""Compares claims about the table with the truth, as a table and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from textwrap import indent
from typing import Any

from rich.table import Table

from demo import stage
from demo.data import HOUR_MS
from demo.hours import Hours
from demo.judge import Verdict
from demo.others import Others

CLAIM, NEWEST = "the claim", "max(event_time)"

TITLE = "Which hours of departures are complete in the table, and who says so"
HEADINGS = ("called complete by", "hours", "wrongly", "flights missed", "late", "by at most")


def table(verdicts: Sequence[Verdict]) -> Table:
    return stage.table(TITLE, HEADINGS, map(_row, verdicts), ours=CLAIM)


def _row(verdict: Verdict) -> tuple[str, ...]:
    late = late_of(verdict)
    counts = verdict.wrong, verdict.missed, len(late)
    longest = f"{late[-1] / HOUR_MS:.0f} h" if late else ""
    called_share = f"{verdict.called:,} of {verdict.hours:,}"
    return verdict.name, called_share, *(f"{count:,}" for count in counts), longest


def late_of(verdict: Verdict) -> list[int]:
    """Return the delays of hours that were called complete too late."""
    return [late_ms for late_ms in verdict.late_ms if late_ms]


def meaning(
    verdicts: Sequence[Verdict], other_jobs: Others, warnings: Sequence[str], hours: Hours
) -> tuple[str, ...]:
    """Return sentences on the table, the changes by others, and the hours."""
    claim, newest = verdicts
    late = late_of(claim)
    return (
        (
            f"The claim was wrong about {claim.wrong:,} of {claim.hours:,} hours. max(event_time) "
            f"called {newest.wrong:,} hours complete while flights were still in the air, or had "
            f"been removed by an overwrite: jobs that start then miss {newest.missed:,} flights."
        ),
        f"Compactions on the way: {other_jobs.compactions:,}. None changed the claim.",
        (
            f"On {_moment(other_jobs.when['overwrite'])} the table was overwritten with a copy of "
            f"{_moment(other_jobs.when['copy'])}. That ended the claim, and readers learn why: "
            f"{other_jobs.reason}."
        ),
        *[f"The query went on, and warned with each commit: {warning}" for warning in warnings[:1]],
        (
            f"On {_moment(other_jobs.when['accept'])} the owner of the table appended the flights "
            f"that were lost, and vouched for it:\n  {other_jobs.command}\n  {other_jobs.accepted}"
        ),
        (
            "The claim rises again with the next commit of the query: it was late for "
            f"{len(late):,} hours, by {max(late, default=0) / HOUR_MS:.0f} h at most."
        ),
        (
            f"On {_moment(hours.clock)} one carrier held back the watermark, and a reader of the "
            f"hours by carrier asked why:\n  {hours.asked}\n{indent(hours.answer, '  ')}"
        ),
    )


def figures(verdicts: Sequence[Verdict], other_jobs: Others) -> dict[str, Any]:
    methods = [asdict(verdict) for verdict in verdicts]
    end_of_claim = {"why": other_jobs.reason, "accepted": other_jobs.accepted}
    return {
        "methods": methods,
        "when": other_jobs.when,
        "compactions": other_jobs.compactions,
        **end_of_claim,
    }


def _moment(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%-d %B, %H:%M}"
