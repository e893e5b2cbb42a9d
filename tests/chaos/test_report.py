"""What people see of a verdict."""

from __future__ import annotations

from collections import Counter

import pytest
from rich.console import Console

from tests.chaos.history import Violation
from tests.chaos.pulse import STARVED_S, Pulse
from tests.chaos.report import tables
from tests.chaos.verdict import Verdict


@pytest.mark.parametrize(
    ("law", "starved_s", "starved"),
    [
        ("nobody is excluded", STARVED_S, True),
        ("nobody is excluded", STARVED_S - 0.1, False),
        ("marks are sound", STARVED_S, False),
    ],
)
def test_what_a_busy_machine_may_have_done_is_told_from_a_violation(
    law: str, starved_s: float, *, starved: bool
) -> None:
    """Where no process ran for half a writer timeout, writers are excluded rightly; no law else."""
    violations = (Violation(law, "s", "…"),)
    verdict = Verdict(1, 1.0, 0, {}, Counter(), 0, 0, 0, {}, violations, starved_s)
    console = Console(width=100)
    with console.capture() as capture:
        console.print(tables(verdict))

    assert (verdict.is_starved, "Starved: " in capture.get()) == (starved, starved)


def test_a_pulse_keeps_the_longest_time_in_which_it_was_not_run() -> None:
    """Less the time that it rests by itself."""
    times = iter([0.0, 0.1, 4.2, 4.3])
    pulse = Pulse(lambda: next(times))
    for _ in range(3):
        pulse.beat()

    assert pulse.longest_s == pytest.approx(4.0)
