"""The findings of checks, and their output."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Literal

from rich.text import Text

from noted_time import NotedTimeError, UnexpectedAnswer
from noted_time.values import pluralize
from noted_time_cli.terminal.output import create_console, echo, echo_json, prepare

FACT_SHOWN = 500
LOOK_REMEDY = "see what answers there: a controller, or another service or proxy"
# Rules raise these for an answer of an unexpected shape.
MISREAD_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)

Outcome = Literal["ok", "wrong", "not checked"]
Remedy = Callable[[NotedTimeError], str]
OUTCOME_COLOURS = {"ok": "green", "wrong": "bold red", "not checked": "yellow"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A check, its outcome, the fact, and the remedy if there is one."""

    check: str
    outcome: Outcome
    fact: str
    remedy: str = ""


def judge(check: str, faults: Iterable[tuple[object, str, str]], fact_if_ok: str) -> list[Finding]:
    """Return a finding for each real fault, or else one finding that is ok.

    >>> [finding.outcome for finding in judge("java", [(False, "it is old", "a newer one")], "17")]
    ['ok']
    """
    findings = [
        Finding(check, "wrong", fact, remedy) for is_real, fact, remedy in faults if is_real
    ]
    return findings or [Finding(check, "ok", fact_if_ok)]


@dataclass(frozen=True, slots=True)
class Report:
    """All findings. They are printed at once, or at the end as JSON."""

    as_json: bool
    found: list[Finding] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.found.append(finding)
            if not self.as_json:
                outcome = (f"{finding.outcome:<13}", OUTCOME_COLOURS[finding.outcome])
                check = prepare(finding.check)
                fact = prepare(finding.fact)
                remedy = ""
                if finding.remedy:
                    remedy = f"\n{'':13}→ {prepare(finding.remedy)}"
                line = Text.assemble(outcome, (check, "bold"), f": {fact}{remedy}")
                create_console().print(line, soft_wrap=True)

    @contextmanager
    def attempting(self, check: str, remedy: str | Remedy) -> Iterator[None]:
        """Turn an error within into a finding: wrong, or not checked if a package is missing.

        The remedy is empty if the error's sentence contains it.

        >>> from noted_time.extras import require_extra
        >>> report = Report(as_json=True)
        >>> with report.attempting("broker", ""), require_extra("Topic", "kafka"):
        ...     raise ModuleNotFoundError(name="confluent_kafka")
        >>> [(finding.outcome, finding.fact) for finding in report.found]
        [('not checked', 'Topic needs confluent_kafka')]
        """
        try:
            yield
        except ImportError as error:
            fact, _, install = str(error).partition(": ")
            self.add([Finding(check, "not checked", fact, install)])
        except NotedTimeError as error:
            error_remedy = remedy if isinstance(remedy, str) else remedy(error)
            if isinstance(error, UnexpectedAnswer):
                error_remedy = LOOK_REMEDY
            self.add([Finding(check, "wrong", str(error), error_remedy)])
        except MISREAD_ERRORS as error:
            fact = f"unexpected answer: {type(error).__name__}: {error}"
            self.add([Finding(check, "wrong", fact[:FACT_SHOWN], LOOK_REMEDY)])

    def end(self) -> bool:
        """Print the rest of the report, and return whether anything is wrong."""
        count = sum(finding.outcome == "wrong" for finding in self.found)
        answer = {"wrong": count, "verdicts": [asdict(finding) for finding in self.found]}
        if self.as_json:
            echo_json(json.dumps(answer, ensure_ascii=False))
        else:
            echo(self._summarize(count))
        return bool(count)

    def _summarize(self, count: int) -> str:
        unchecked_findings = [finding for finding in self.found if finding.outcome == "not checked"]
        checks = pluralize(len(self.found) - len(unchecked_findings), "check")
        summary = f"{count or 'nothing'} wrong in {checks}"
        if unchecked_findings:
            names = ", ".join(_name_check(finding) for finding in unchecked_findings)
            summary += f", {len(unchecked_findings)} not checked: {names}"
        return summary


def _name_check(finding: Finding) -> str:
    fact = finding.fact.partition("; ")[0]
    return f"{finding.check} ({fact})"
