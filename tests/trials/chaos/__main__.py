"""The command line of the chaos trial: its faults, its length and its seed."""

import asyncio
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from noted_time import NotedTimeError
from tests.trials.actors.history import now
from tests.trials.actors.workload import Workload
from tests.trials.chaos.arena import Arena
from tests.trials.chaos.faults import REPLICA_FAULTS
from tests.trials.chaos.kafka.faults import KAFKA_FAULTS
from tests.trials.chaos.kafka.queried import make_kafka_trial
from tests.trials.chaos.trial import Killing, Plan, Trial, Turn, keep_silent, mix_faults
from tests.trials.chaos.verdict import build_tables
from tools.trials import kafka as jars
from tools.trials.descendants import end_with_this_process
from tools.trials.postgres import Server, find_binaries

BUILD = Path(__file__).resolve().parents[3] / "build"
MINUTES = 10.0
QUICK_TO_GO_ON = 0.3
NO_SERVER = "chaos needs PostgreSQL: neither the system's binaries nor the wheel are installed"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Console()


@app.command()
def chaos(  # noqa: PLR0913 - the options of a command
    *,
    minutes: Annotated[
        float | None, typer.Option(min=0, help=f"The length, {MINUTES:.0f} by default.")
    ] = None,
    kills: Annotated[int, typer.Option(min=0, help="Go on until so many were killed.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Of all that is left to chance.")] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Only these: {', '.join(REPLICA_FAULTS)}; of Kafka: {', '.join(KAFKA_FAULTS)}."
        ),
    ] = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="A broker, producers and a Spark query instead.")
    ] = False,
    relayed: Annotated[
        bool, typer.Option("--relayed", help="Likewise, and a relay gives the query its marks.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Each fault once, in order.")] = False,
) -> None:
    """Make replicas and their database fail under load, and check that nothing was lost or wrong.

    With --kafka it is one controller, a broker, producers and a query that fail.

    With --minutes and --kills it ends when both are reached. What happened is written to
    build/chaos-SEED. Ends with status 1 if a law did not hold, and with 3 (inconclusive) if the
    cause may be that the machine was too busy to run the trial.
    """
    end_with_this_process()
    kafka = kafka or relayed
    faults = _check_names(fault, KAFKA_FAULTS if kafka else REPLICA_FAULTS)
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    until = now() + 60 * (MINUTES if minutes is None and not kills else minutes or 0.0)

    def turns(arena: Killing) -> Iterator[Turn]:
        if quick:
            return ((fault,) for fault in faults)
        chance = random.Random(seed)
        return mix_faults(faults, chance, lambda: now() < until or arena.kills < kills)

    plan = Plan(seed, turns, 0.0 if quick else QUICK_TO_GO_ON)
    raise typer.Exit(_try_kafka(plan, is_relayed=relayed) if kafka else _try_replicas(plan))


def _check_names(faults: list[str] | None, known_faults: Mapping[str, object]) -> list[str]:
    unknown = [fault for fault in faults or () if fault not in known_faults]
    if unknown:
        raise typer.BadParameter(f"no fault is called {', '.join(unknown)}")
    return faults or list(known_faults)


def _try_replicas(plan: Plan) -> int:
    """Hold a trial of replicas, if there is PostgreSQL; returns the exit status."""
    directory = find_binaries()
    if directory is None:
        console.print(NO_SERVER)
        return 2
    with Server(directory) as server:
        return _hold(
            plan, lambda directory, announce: make_replica_trial(server, directory, plan, announce)
        )


def make_replica_trial(
    server: Server, directory: Path, plan: Plan, announce: Callable[[str], None] = keep_silent
) -> Trial[Arena]:
    """Return a trial of three replicas on a database of the server."""
    arena = Arena(server, directory, random.Random(f"arena {plan.seed}"))
    return Trial(arena, REPLICA_FAULTS, Workload(arena), plan, announce)


def _try_kafka(plan: Plan, *, is_relayed: bool) -> int:
    """Hold a trial of Kafka, if a broker is or can be installed; returns the exit status."""
    try:
        jars.install()
    except NotedTimeError as error:
        console.print(f"chaos --kafka needs a broker: {error}")
        return 2
    return _hold(
        plan,
        lambda directory, announce: make_kafka_trial(directory, plan, announce, relayed=is_relayed),
    )


def _hold(plan: Plan, make_trial: Callable[[Path, Callable[[str], None]], Trial[Any]]) -> int:
    """Hold a trial, show its verdict, and return the exit status."""
    directory = BUILD / f"chaos-{plan.seed}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with console.status("") as status:

        def announce(text: str) -> None:
            status.update(text)
            if not console.is_terminal:
                console.print(text)

        console.print(f"seed {plan.seed}; what happens is written to {directory}")
        verdict = asyncio.run(make_trial(directory, announce).hold(directory))
    console.print(build_tables(verdict))
    if verdict.is_inconclusive:
        return 3
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    app(prog_name="./run chaos")
