"""The verdict of a trial."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Group
from rich.markup import escape
from rich.table import Table

from tests.trials import laws
from tests.trials.chaos.collecting import Said
from tests.trials.chaos.history import Chain, History, Span, Violation
from tests.trials.chaos.load import ScaledStream
from tests.trials.chaos.pulse import Share
from tests.trials.facts import Answer, Claim, complete
from tests.trials.judge import judge as judge_facts
from tests.trials.law import LAWS, name_law

NOTHING, SEVERAL = "(no fault)", "(several at once)"


OF_TIME = {laws.ANSWERS, laws.LIVE} | {
    name_law(each) for each in (laws.exclusions_are_due, laws.states_last, laws.watermarks_advance)
}
"""The laws that rest on every process being run in time; all others hold at any speed."""


def longest_gaps(chains: Iterable[Chain], spans: Sequence[Span]) -> dict[str, float]:
    """Return for each kind of fault the longest time, in seconds, without a mark of some chain.

    A gap counts for a fault that lasted during it:

    >>> from tests.trials.chaos.history import Chain, Span
    >>> chain = Chain(grew_at=[0.0, 1.0, 5.0, 5.5])
    >>> longest_gaps([chain], [Span("kill", 2.0, 3.0)])
    {'kill': 4.0, '(no fault)': 1.0}
    """
    longest: dict[str, float] = {}
    for chain in chains:
        for begun, ended in pairwise(chain.grew_at):
            kind = _find_blame(begun, ended, spans)
            longest[kind] = max(longest.get(kind, 0.0), ended - begun)
    return dict(sorted(longest.items(), key=lambda each: -each[1]))


def _find_blame(begun: float, ended: float, spans: Sequence[Span]) -> str:
    during = [span.kind for span in spans if span.begun < ended and span.ended > begun]
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
        laws = {each.law for each in self.violations}
        return bool(laws) and laws <= OF_TIME and self.share.is_starved


def judge(history: History, said: Mapping[str, Said]) -> None:
    """Check every law of every stream, and have the history remember what broke."""
    for name, stream in history.streams.items():
        _judge_stream(history, stream, said[name])
        for domain in stream.domains:
            _judge_domain(history, stream, domain, said[name])


def _judge_stream(history: History, stream: ScaledStream, said: Said) -> None:
    heard, sent = stream.scalings[: len(stream.heard_at)], stream.scalings
    silent, writers = history.silent.get(stream.name), stream.writers
    broken = judge_facts(
        members=said.writers,
        acknowledged={
            w.name: Claim(w.acknowledged, complete(w.acknowledged_position, heard)) for w in writers
        },
        promised={w.name: Claim(w.promised, complete(w.position, sent)) for w in writers},
        states={
            w.name: "excluded" if w.name == silent else w.state
            for w in writers
            if w.name == silent or w.state != "new"
        },
        group=said.readers,
        reported=history.reported[stream.name],
        reporting=history.reporting[stream.name],
        scale_events=said.scale_events,
        scalings=stream.scalings,
    )
    history.add_broken(stream.name, broken)


def _judge_domain(history: History, stream: ScaledStream, domain: str, said: Said) -> None:
    chain = history.chains[stream.name, domain]
    marks = chain.whole(said.marks[domain])
    rows = [(event.segment, event.offset, event.times[domain]) for event in stream.events]
    facts: dict[str, object] = {
        "marks": marks,
        "rows": rows,
        "answers": [*chain.answers, Answer(0, marks)],
        "looks": chain.looks,
        "sent": chain.sent,
        "windows": chain.windows,
        "scalings": stream.scalings,
        "scaled_at": chain.scaled_at,
        "first": said.marks[domain][0]["seq"] if said.marks[domain] else None,
        "first_asked": chain.first_asked,
        "first_heard": chain.first_heard,
    }
    if len(stream.domains) == 1 and not stream.shared:
        facts["declared"] = rows
    if stream.returning_writer == "hold":  # the other excludes any that returns late
        facts["silent"] = history.silent.get(stream.name)
        facts["absences"] = history.absences.get(stream.name)
    history.add_broken(f"{stream.name}/{domain}", judge_facts(**facts))


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
    for each in verdict.violations:
        law = f"[red]Law {LAWS[each.law].number}: {each.law}[/red]"
        yield f"{law}, of {each.where}: {escape(each.account)}"
    if verdict.is_inconclusive:
        again = "try again on a machine less busy"
        yield f"[yellow]Inconclusive[/yellow]: {verdict.share}; {again}"
