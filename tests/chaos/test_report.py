"""What people see of a verdict."""

from __future__ import annotations

from collections import Counter

from rich.console import Console

from tests.chaos.history import Violation
from tests.chaos.report import tables
from tests.chaos.verdict import Verdict


def test_a_report_tells_what_was_tried_and_what_broke() -> None:
    """The seed, the counts, the longest gap of each fault, each violation."""
    verdict = Verdict(
        seed=77,
        seconds=12.0,
        kills=3,
        faults={"kill": 3},
        counts=Counter({"notes acknowledged": 1234, "broke chains": 1}),
        marks=5,
        events=6,
        windows=7,
        gaps_s={"kill": 4.25},
        violations=(Violation("chains", "s/default", "after 1 came [3]"),),
    )
    console = Console(width=100, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(tables(verdict))

    said = capture.get()
    shown = ["seed 77", "1,234", "4.2 s", "chains did not hold of s/default: after 1 came [3]"]
    assert [each for each in shown if each not in said] == []
