"""How far the demo is: without a terminal in lines, on one beside the bars."""

from io import StringIO

import pytest
from rich.console import Console

from demo import progress
from demo.data import Flights, read_flights
from demo.progress import Bar, describe_parts, divide_by_batches, divide_by_steps
from demo.schedule import steps
from demo.stage import bars_on

DESCRIBE = "{0} parts are done".format


def show(console: Console) -> None:
    """Show the bar of three parts from its begin to its end."""
    with bars_on(console) as bars:
        bar = Bar(bars, "The carriers write", 3, DESCRIBE)
        for part_count in (1, 2, 4):
            bar(part_count)


@pytest.mark.parametrize(("interval_s", "line_count"), [(0.0, 4), (3600.0, 1)])
def test_without_a_terminal_lines_come_after_an_interval(
    monkeypatch: pytest.MonkeyPatch, interval_s: float, line_count: int
) -> None:
    """The first one says what begins; no part is counted twice."""
    monkeypatch.setattr(progress, "PLAIN_INTERVAL_S", interval_s)
    output = StringIO()
    show(Console(file=output, force_terminal=False))

    lines = [
        "The carriers write",
        "The carriers write: 1 parts are done",
        "The carriers write: 2 parts are done",
        "The carriers write: 3 parts are done",
    ]
    assert output.getvalue().splitlines() == lines[:line_count]


def test_a_terminal_has_one_line_that_is_rewritten() -> None:
    output = StringIO()
    show(Console(file=output, force_terminal=True, width=100))

    _, _, end_of_line = output.getvalue().rpartition("\r\x1b[2KThe carriers write")
    assert "3 parts are done\n" in end_of_line
    assert output.getvalue().count("\n") == 1


def test_a_quiet_console_has_nothing() -> None:
    output = StringIO()
    show(Console(file=output, quiet=True))

    assert output.getvalue() == ""


def test_parts_end_with_all_days_and_rows() -> None:
    """Steps and micro-batches of three days have the same rows."""
    flights = Flights(read_flights(months=1, days=3).landed)
    batches = [flights.landed[start : start + 200] for start in range(0, len(flights.landed), 200)]

    sentences = {
        describe_parts(parts)(len(parts))
        for parts in (divide_by_steps(steps(flights)), divide_by_batches(batches))
    }
    assert sentences == {"day 3 of 3, 2,659 of 2,659 rows"}
