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

CLAIM = "the claim"
NEWEST = "max(event_time)"

TITLE = "Which hours of departures are complete in the table, and who says so"
HEADINGS = ("called complete by", "hours", "wrongly", "flights missed", "late", "by at most")


def table(verdicts: Sequence[Verdict]) -> Table:
    return stage.table(TITLE, HEADINGS, [_make_row(verdict) for verdict in verdicts], ours=CLAIM)


def _make_row(verdict: Verdict) -> tuple[str, ...]:
    delays_ms = list_delays(verdict)
    return (
        verdict.name,
        f"{verdict.called:,} of {verdict.hours:,}",
        f"{verdict.wrong:,}",
        f"{verdict.missed:,}",
        f"{len(delays_ms):,}",
        f"{delays_ms[-1] / HOUR_MS:.0f} h" if delays_ms else "",
    )


def list_delays(verdict: Verdict) -> list[int]:
    """Return the delays, in ms, of hours that were called complete too late, sorted."""
    return [delay_ms for delay_ms in verdict.late_ms if delay_ms]


def meaning(
    verdicts: Sequence[Verdict], others: Others, warnings: Sequence[str], hours: Hours
) -> tuple[str, ...]:
    """Return sentences on the table, the changes by others, and the hours."""
    claim, newest = verdicts
    delays_ms = list_delays(claim)
    copy_moment = _format_moment(others.when["copy"])
    overwrite_moment = _format_moment(others.when["overwrite"])
    accept_moment = _format_moment(others.when["accept"])
    sentences = [
        (
            f"The claim was wrong about {claim.wrong:,} of {claim.hours:,} hours. max(event_time) "
            f"called {newest.wrong:,} hours complete while flights were still in the air, or had "
            f"been removed by an overwrite: jobs that start then miss {newest.missed:,} flights."
        ),
        f"Compactions on the way: {others.compactions:,}. None changed the claim.",
        (
            f"On {overwrite_moment} the table was overwritten with a copy of {copy_moment}. "
            f"That ended the claim, and readers learn why: {others.reason}."
        ),
    ]
    if warnings:
        sentences.append(f"The query went on, and warned with each commit: {warnings[0]}")
    sentences += [
        (
            f"On {accept_moment} the owner of the table appended the flights "
            f"that were lost, and vouched for it:\n  {others.command}\n  {others.accepted}"
        ),
        (
            "The claim rises again with the next commit of the query: it was late for "
            f"{len(delays_ms):,} hours, by {max(delays_ms, default=0) / HOUR_MS:.0f} h at most."
        ),
        (
            f"On {_format_moment(hours.clock)} one carrier held back the watermark, and a reader "
            f"of the hours by carrier asked why:\n  {hours.asked}\n{indent(hours.answer, '  ')}"
        ),
    ]
    return tuple(sentences)


def figures(verdicts: Sequence[Verdict], others: Others) -> dict[str, Any]:
    methods = [asdict(verdict) for verdict in verdicts]
    ending = {"why": others.reason, "accepted": others.accepted}
    return {"methods": methods, "when": others.when, "compactions": others.compactions, **ending}


def _format_moment(time: int) -> str:
    return f"{datetime.fromtimestamp(time / 1000, UTC):%-d %B, %H:%M}"
