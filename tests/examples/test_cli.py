from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner, Result

from examples.flights import cli
from examples.flights.data import HOUR_MS
from examples.flights.demo import Findings
from examples.flights.outcome import Outcome
from examples.flights.surroundings import SurroundingsError

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def run(monkeypatch: pytest.MonkeyPatch, out: Path, *arguments: str, lost: int = 0) -> Result:
    """Run the command on one day, with findings in which noted time lost so many rows."""

    def find(*_: Any) -> Findings:  # noqa: ANN401 - whatever is asked
        noted = Outcome(None, rows=831, lost=lost, latencies_ms=(HOUR_MS,))
        outcomes = (noted, Outcome(10 * HOUR_MS, rows=831, lost=0, latencies_ms=(11 * HOUR_MS,)))
        return Findings(measured=outcomes, predicted=outcomes, untimely=0)

    monkeypatch.setattr(cli, "find", find)
    return CliRunner().invoke(cli.app, ["--days", "1", "--out", str(out), *arguments])


def test_a_loss_of_noted_time_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The demo is a test of the promise: one row is enough."""
    result = run(monkeypatch, tmp_path, lost=1)

    assert result.exit_code == 1


def test_without_a_loss_the_command_succeeds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And leaves the picture and the figures."""
    result = run(monkeypatch, tmp_path)

    made = sorted(path.name for path in tmp_path.iterdir())
    assert (result.exit_code, made) == (0, ["flights.json", "flights.png"]), result.output


def test_what_was_kept_before_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A second run that keeps its files must go elsewhere."""
    run(monkeypatch, tmp_path, "--keep")

    again = run(monkeypatch, tmp_path, "--keep")

    assert (again.exit_code, "choose another --out" in again.output) == (2, True)


def test_what_cannot_start_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No page of Python."""

    def find(*_: Any) -> Findings:  # noqa: ANN401 - whatever is asked
        raise SurroundingsError("Spark needs Java")

    monkeypatch.setattr(cli, "find", find)
    result = CliRunner().invoke(cli.app, ["--days", "1", "--out", str(tmp_path)])

    assert (result.exit_code, "noted-time: Spark needs Java" in result.output) == (2, True)
