"""What a trial has shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos import checks
from tests.chaos.gaps import longest_gaps
from tests.chaos.pulse import OF_TIME, STARVED_S
from tests.chaos.returning import ExcludingStream
from tests.support.judge import broken_links, over_the_upper, unsound

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence

    from tests.chaos.collecting import Said
    from tests.chaos.history import History, Json, Violation
    from tests.chaos.scaling import ScaledStream


@dataclass(frozen=True, slots=True)
class Verdict:
    """How much was tried, and what did not hold of it.

    `faults` counts by kind; `gaps_s` is the longest time without a mark, by the fault that lasted.
    `starved_s` is for how long the machine ran no process of the trial, at most.
    """

    seed: int
    seconds: float
    kills: int
    faults: Mapping[str, int]
    counts: Counter[str]
    marks: int
    events: int
    windows: int
    gaps_s: Mapping[str, float]
    violations: tuple[Violation, ...]
    starved_s: float = 0.0

    @property
    def is_starved(self) -> bool:
        """Whether the machine may be at fault: only laws of time did not hold, after a pause."""
        laws = {each.law for each in self.violations}
        return bool(laws) and laws <= OF_TIME and self.starved_s >= STARVED_S


def judge(history: History, said: Mapping[str, Said]) -> None:
    """Check every law of every stream, and have the history remember what broke."""
    for name, stream in history.streams.items():
        _judge_stream(history, stream, said[name])
        for domain in stream.domains:
            _judge_key(history, stream, domain, said[name])


def verdict(
    history: History, *, seed: int, seconds: float, kills: int, starved_s: float
) -> Verdict:
    """Return what was found, after all was judged."""
    kinds = [span.kind for span in history.spans]
    return Verdict(
        seed=seed,
        seconds=seconds,
        kills=kills,
        faults={kind: kinds.count(kind) for kind in sorted(set(kinds))},
        counts=history.counts,
        marks=sum(len(chain.seen) for chain in history.chains.values()),
        events=sum(len(stream.events) for stream in history.streams.values()),
        windows=sum(len(chain.windows) for chain in history.chains.values()),
        gaps_s=longest_gaps(history.steady_chains().values(), history.spans),
        violations=tuple(history.violations),
        starved_s=starved_s,
    )


def _judge_stream(history: History, stream: ScaledStream, said: Said) -> None:
    silent = history.silent.get(stream.name)
    heard, told = history.reported[stream.name], history.reporting[stream.name]
    found: dict[str, Sequence[object]] = {
        "notes last": checks.lost_notes(stream, said.writers),
        "nobody is excluded": checks.misstated(stream.writers, said.writers, silent),
        "reports last": checks.lost_reports(said.readers, heard, told),
        "scalings last": checks.lost_scalings(said.scale_events, stream.scalings),
    }
    for law, accounts in found.items():
        for account in accounts:
            history.broke(law, stream.name, account)


def _judge_key(history: History, stream: ScaledStream, domain: str, said: Said) -> None:
    chain = history.chains[stream.name, domain]
    first = said.marks[domain][0]["seq"] if said.marks[domain] else None
    marks = chain.whole(said.marks[domain])
    declared = len(stream.domains) == 1 and not stream.shared
    found: dict[str, Sequence[object]] = {
        "marks stay": checks.changed(chain.seen, marks),
        "chains": broken_links(marks),
        "marks are sound": unsound(marks, stream.events, domain),
        "uppers are true": over_the_upper(marks, stream.events, domain) if declared else [],
        "nobody is excluded": _excluded(history, stream, marks),
        "windows are true": checks.false_windows(chain.windows, marks, stream, domain),
        "cuts are complete": checks.incomplete_cuts(marks, stream.scalings, chain.scaled_at),
        "marks begin": checks.misbegun(first, chain.first_asked, chain.first_heard),
        "lowers": checks.never_marked(chain.told, marks),
    }
    for law, accounts in found.items():
        for account in accounts:
            history.broke(law, f"{stream.name}/{domain}", account)


def _excluded(history: History, stream: ScaledStream, marks: Sequence[Json]) -> list[str]:
    """Return the marks that went on without somebody they had to wait for.

    Where a stream excludes who comes late, that may be anybody.
    """
    if isinstance(stream, ExcludingStream):
        return []
    silent, absences = history.silent.get(stream.name), history.absences.get(stream.name)
    return checks.excluded(marks, silent, absences)
