"""Writers of all languages pass the conformance runner, and it finds each fault of a writer."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conformance.__main__ import run_trials
from tests.conformance.trial import read_scripts

WRITERS = Path(__file__).parent / "writers"
HTTP = (sys.executable, str(WRITERS / "http_writer.py"))
PYTHON = (sys.executable, str(WRITERS / "python_writer.py"))

FAULTS = {
    "acknowledges early": ("A note covers its events", "does not know the writer"),
    "counts too far": ("A note covers its events", "offset 2, and only 1 are written"),
    "hides exclusions": ("Exclusions are reported", "not excluded"),
    "hides late notes": ("Late notes are reported", "not late"),
    "ignores Retry-After": ("Busy controllers are asked again", "s after `Retry-After: 1`"),
    "leaves without its events": ("The last words cover all events", "`idle` covers 5 events"),
    "never repeats": ("Lost requests are repeated", "not accepted"),
    "new session for each request": ("A lost join is repeated", "sessions note after 1 joins"),
    "no numbers": ("Late copies change nothing", "the controller has the writer as 'idle"),
    "one number for all": ("Late copies change nothing", "other notes have the sequence"),
    "repeats at once": ("An outage is waited for", "requests without a final answer"),
    "repeats refusals": ("Refusals end", "the same notes are sent again"),
    "speaks after its end": ("A crash says nothing", "idle 1000 8"),
    "takes the name back": ("An older process is fenced", "a fenced session notes again"),
}
"""The trial that finds each fault of `http_writer.py`, and words of its account."""


def broken_by(command: Sequence[str], only: str = "") -> dict[str, str]:
    """Return the trials that a writer program fails, with what broke."""
    chosen = [each for each in read_scripts() if only in each.name]
    return {each.name: each.broken for each in run_trials(command, chosen) if each.broken}


@pytest.mark.parametrize("command", [HTTP, PYTHON], ids=["http", "python"])
def test_a_writer_passes(command: Sequence[str]) -> None:
    assert broken_by(command) == {}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    trial, account = FAULTS[fault]
    broken = broken_by([*HTTP, "--fault", fault], trial)

    assert account in broken.get(trial, "")
