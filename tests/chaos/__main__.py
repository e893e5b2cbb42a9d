"""The command line of the chaos trial: what is to fail, for how long, and from which seed."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tests.chaos.faults import FAULTS
from tests.chaos.history import now
from tests.chaos.trial import hold
from tests.chaos.turns import Plan, each_once, mixed
from tests.chaos.verdict import tables
from tests.support.postgres import Server, binaries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.turns import Killing, Turn

BUILD = Path(__file__).resolve().parents[2] / "build"
MINUTES = 10.0
QUICK_TO_GO_ON = 0.3
NO_SERVER = "chaos needs PostgreSQL: neither the system's binaries nor the wheel are installed"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console()


@app.command()
def chaos(
    *,
    minutes: Annotated[
        float | None, typer.Option(min=0, help=f"How long; {MINUTES:.0f} where nothing is said.")
    ] = None,
    kills: Annotated[int, typer.Option(min=0, help="Go on until so many were killed.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Of all that is left to chance.")] = None,
    fault: Annotated[
        list[str] | None, typer.Option(help=f"Only these: {', '.join(FAULTS)}.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Each fault once, in order.")] = False,
) -> None:
    """Make replicas and their database fail under load, and check that nothing was lost or wrong.

    With --minutes and --kills it ends when both are reached. What happened is written to
    build/chaos-SEED. Ends with status 1 if a law did not hold, and with 3 if the cause may be that
    the machine was too busy to run the trial.
    """
    faults = _known(fault or list(FAULTS))
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    until = now() + 60 * (MINUTES if minutes is None and not kills else minutes or 0.0)

    def turns(arena: Killing) -> Iterator[Turn]:
        if quick:
            return each_once(faults)
        chance = random.Random(seed)
        return mixed(faults, chance, lambda: now() < until or arena.kills < kills)

    raise typer.Exit(_hold(Plan(seed, turns, 0.0 if quick else QUICK_TO_GO_ON)))


def _known(faults: list[str]) -> list[str]:
    unknown = [fault for fault in faults if fault not in FAULTS]
    if unknown:
        raise typer.BadParameter(f"no fault is called {', '.join(unknown)}")
    return faults


def _hold(plan: Plan) -> int:
    """Hold the trial and show what came of it; returns the exit status."""
    directory = binaries()
    if directory is None:
        console.print(NO_SERVER)
        return 2
    kept = BUILD / f"chaos-{plan.seed}"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    with Server(directory) as server, console.status("") as status:

        def announce(what: str) -> None:
            status.update(what)
            if not console.is_terminal:
                console.print(what)

        console.print(f"seed {plan.seed}; what happens is written to {kept}")
        verdict = asyncio.run(hold(server, kept, plan, announce))
    console.print(tables(verdict))
    if verdict.is_starved:
        return 3
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    app(prog_name="./run chaos")
