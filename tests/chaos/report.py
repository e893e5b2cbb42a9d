"""How a verdict is shown: tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table

if TYPE_CHECKING:
    from tests.chaos.verdict import Verdict


def tables(verdict: Verdict) -> Group:
    """Return what was tried, how long time stood, and what did not hold."""
    return Group(_tried(verdict), _stood(verdict), *_violations(verdict), *_starved(verdict))


def _tried(verdict: Verdict) -> Table:
    """Return how much there was of everything."""
    shown = Table(
        title=f"Chaos, seed {verdict.seed}, {verdict.seconds:.0f} s", title_justify="left"
    )
    shown.add_column("what")
    shown.add_column("how much", justify="right")
    counted = {
        "replicas killed (-9)": verdict.kills,
        "faults": sum(verdict.faults.values()),
        "notes acknowledged": verdict.counts["notes acknowledged"],
        "notes sent more than once": verdict.counts["notes retried"],
        "events written": verdict.events,
        "scalings": verdict.counts["scalings"],
        "marks truncated": verdict.counts["marks truncated"],
        "writers away and back": verdict.counts["absences"],
        "marks checked": verdict.marks,
        "windows checked": verdict.windows,
        "violations": sum(n for name, n in verdict.counts.items() if name.startswith("broke ")),
    }
    for name, number in counted.items():
        shown.add_row(name, f"{number:,}")
    for name, number in sorted(verdict.counts.items()):
        if name.startswith(("no answer: ", "told of ")):
            shown.add_row(f"[dim]{name}[/dim]", f"[dim]{number:,}[/dim]")
    return shown


def _stood(verdict: Verdict) -> Table:
    """Return by fault how often there was one and the longest time without a mark."""
    shown = Table("fault", "times", "longest without a mark")
    for kind in {**verdict.gaps_s, **verdict.faults}:
        times = verdict.faults.get(kind)
        gap = verdict.gaps_s.get(kind)
        shown.add_row(kind, f"{times or ''}", "" if gap is None else f"{gap:.1f} s")
    return shown


def _violations(verdict: Verdict) -> list[str]:
    """Return each violation that was kept as a line."""
    return [
        f"[red]{each.law}[/red] did not hold of {each.where}: {_escaped(each.account)}"
        for each in verdict.violations
    ]


def _starved(verdict: Verdict) -> list[str]:
    """Return the line that takes the blame from the service, where the machine has it."""
    if not verdict.is_starved:
        return []
    starved = f"the machine ran no process of the trial for {verdict.starved_s:.1f} s"
    return [f"[yellow]Starved[/yellow]: {starved}, so this proves nothing; try again"]


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")
