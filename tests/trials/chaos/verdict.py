"""The verdict of a trial."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from tests.trials import laws
from tests.trials.actors.history import Chain, Span, Violation
from tests.trials.chaos.pulse import Share
from tests.trials.law import LAWS, name_law

NOTHING = "(no fault)"
SEVERAL = "(several at once)"


OF_TIME = {laws.ANSWERS, laws.LIVE} | {
    name_law(each) for each in (laws.exclusions_are_due, laws.states_last, laws.watermarks_advance)
}
"""The laws that rest on every process being run in time; all others hold at any speed."""


def longest_gaps(chains: Iterable[Chain], spans: Sequence[Span]) -> dict[str, float]:
    """Return for each kind of fault the longest time, in seconds, without a mark of some chain.

    A gap counts for a fault that lasted during it:

    >>> from tests.trials.actors.history import Chain, Span
    >>> chain = Chain(grew_at=[0.0, 1.0, 5.0, 5.5])
    >>> longest_gaps([chain], [Span("kill", 2.0, 3.0)])
    {'kill': 4.0, '(no fault)': 1.0}
    """
    longest: dict[str, float] = {}
    for chain in chains:
        for gap_begin, gap_end in pairwise(chain.grew_at):
            kind = _find_blame(gap_begin, gap_end, spans)
            longest[kind] = max(longest.get(kind, 0.0), gap_end - gap_begin)
    return dict(sorted(longest.items(), key=itemgetter(1), reverse=True))


def _find_blame(gap_begin: float, gap_end: float, spans: Sequence[Span]) -> str:
    during = [span.kind for span in spans if span.begun < gap_end and span.ended > gap_begin]
    if not during:
        return NOTHING
    return during[0] if len(during) == 1 else SEVERAL


@dataclass(frozen=True, slots=True)
class Verdict:
    """How much was tried, and what did not hold of it.

    `faults` counts by kind, `tried` what there was to judge; `gaps_s` is the longest time without a
    mark, by the fault that lasted. `share` is its part of the machine.
    """

    seed: int
    seconds: float
    faults: Mapping[str, int]
    tried: Mapping[str, int]
    counts: Counter[str]
    gaps_s: Mapping[str, float]
    violations: tuple[Violation, ...]
    share: Share

    @property
    def is_inconclusive(self) -> bool:
        """Whether the machine may be the cause: only laws of time were broken, and it was busy."""
        laws = {violation.law for violation in self.violations}
        return bool(laws) and laws <= OF_TIME and self.share.is_starved


def build_tables(verdict: Verdict) -> Group:
    """Return the counts, the standstills by fault, and the violations."""
    counts = Table("what", title=f"Chaos, seed {verdict.seed}, {verdict.seconds:.0f} s")
    counts.add_column("how much", justify="right")
    broken = sum(n for name, n in verdict.counts.items() if name.startswith("broke "))
    shown = {**verdict.tried, "faults": sum(verdict.faults.values()), "violations": broken}
    shown |= {
        name: number
        for name, number in sorted(verdict.counts.items())
        if name.startswith(("no answer: ", "reported as ", "ended: ", "power "))
    }
    for name, number in shown.items():
        counts.add_row(name, f"{number:,}")
    counts.add_row(
        "processes ran, of the time that they were ready", f"{verdict.share.of_ready:.0%}"
    )
    standstills = Table("fault", "times", "longest standstill")
    for kind in {**verdict.gaps_s, **verdict.faults}:
        gap = f"{verdict.gaps_s[kind]:.1f} s" if kind in verdict.gaps_s else ""
        standstills.add_row(kind, f"{verdict.faults.get(kind, '')}", gap)
    return Group(counts, standstills, *_describe_violations(verdict))


def _describe_violations(verdict: Verdict) -> Iterator[str]:
    for violation in verdict.violations:
        law = f"[red]Law {LAWS[violation.law].number}: {violation.law}[/red]"
        yield f"{law}, of {violation.where}: {escape(violation.account)}"
    if verdict.is_inconclusive:
        advice = "try again on a machine less busy"
        yield f"[yellow]Inconclusive[/yellow]: {verdict.share}; {advice}"
