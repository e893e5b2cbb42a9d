"""What a check found, and how it is printed."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from dataclasses import asdict, dataclass
from typing import Literal, TypeVar

from rich.text import Text

from noted_time import NotedTimeError, UnexpectedAnswer
from noted_time_cli.terminal.output import console, echo, escaped

Seen = TypeVar("Seen")
FACT_SHOWN = 500
LOOK = "see what answers there: a controller, or another service or proxy"
ODD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What an answer of another shape raises where it is judged."""

COLOURS = {"ok": "green", "wrong": "bold red", "not checked": "yellow"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: what was checked, the outcome, the fact, and the remedy if any."""

    check: str
    outcome: Literal["ok", "wrong", "not checked"]
    fact: str
    remedy: str = ""


def judged(check: str, faults: Iterable[tuple[object, str, str]], otherwise: str) -> list[Finding]:
    """Return the faults that are there, each whether it is, the fact and the remedy; or else ok.

    >>> [each.outcome for each in judged("java", [(False, "it is old", "a newer one")], "17")]
    ['ok']
    """
    found = [Finding(check, "wrong", fact, remedy) for is_so, fact, remedy in faults if is_so]
    return found or [Finding(check, "ok", otherwise)]


def attempted(
    check: str, verdicts: Generator[Finding, None, Seen], remedy: str
) -> Generator[Finding, None, Seen | None]:
    """Yield the verdicts up to an error, which is wrong; what is not installed is not checked.

    Returns what the verdicts return, `None` after an error.

    >>> from noted_time.extras import needs_extra
    >>> def not_installed():
    ...     raise needs_extra("Topic", "kafka", ModuleNotFoundError(name="confluent_kafka"))
    ...     yield
    >>> [(each.outcome, each.fact) for each in attempted("broker", not_installed(), "")]
    [('not checked', 'Topic needs confluent_kafka')]
    """
    try:
        return (yield from verdicts)
    except ImportError as error:
        fact, _, install = str(error).partition(": ")
        yield Finding(check, "not checked", fact, install)
    except NotedTimeError as error:
        is_odd = isinstance(error, UnexpectedAnswer)
        yield Finding(check, "wrong", str(error), LOOK if is_odd else remedy)
    except ODD as error:
        fact = f"what was asked answered oddly: {type(error).__name__}: {error}"
        yield Finding(check, "wrong", fact[:FACT_SHOWN], LOOK)
    return None


def report(verdicts: Iterable[Finding], *, as_json: bool) -> bool:
    """Print the verdicts as they come, or all as JSON in one line; returns whether one is wrong."""
    found = []
    for each in verdicts:
        found.append(each)
        if not as_json:
            outcome = f"{each.outcome:<13}", COLOURS[each.outcome]
            remedy = f"\n{'':13}→ {escaped(each.remedy)}" if each.remedy else ""
            check, fact = escaped(each.check), escaped(each.fact)
            line = Text.assemble(outcome, (check, "bold"), f": {fact}{remedy}")
            console().print(line, soft_wrap=True)
    count = sum(each.outcome == "wrong" for each in found)
    answer = {"wrong": count, "verdicts": [asdict(each) for each in found]}
    says = f"{count or 'nothing'} wrong in {len(found)} checks"
    echo(json.dumps(answer, ensure_ascii=False) if as_json else says)
    return bool(count)
