"""`noted-time why`."""

from __future__ import annotations

from typing import Annotated

import typer

from noted_time import Conflict, Unreachable
from noted_time.client import run
from noted_time.client.waiting import build_performer
from noted_time.lineage import Dataset
from noted_time.verdict import Requirement
from noted_time_cli.client.caller import Caller, client_command
from noted_time_cli.client.datasets import MISSING_STATUS, DatasetArgument, DatasetOptions, Names
from noted_time_cli.client.waiting import NOT_YET_STATUS, choose_error_status, choose_status
from noted_time_cli.terminal.brokers import Config, build_kafka_config
from noted_time_cli.terminal.flags import refuse_options
from noted_time_cli.terminal.options import NO_VALUES, DomainOption, TimeOrNone, parse_optional_time
from noted_time_cli.terminal.output import echo
from reader_client.protocol.datasets import OpenDataset, wait_for_dataset
from reader_client.protocol.hops import HopReader


@client_command
def why(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    context: typer.Context,
    dataset: DatasetArgument,
    time: TimeOrNone = None,
    *,
    name: Names = NO_VALUES,
    domain: DomainOption = None,
    config: Config = None,
    as_dot: Annotated[
        bool, typer.Option("--dot", help="Print the hops as a graph for Graphviz.")
    ] = False,
) -> None:
    """Name the hop, from a table or reader back to the writers, that is not complete.

    The question is whether the dataset is complete to TIME, or without TIME to a later time. The
    command follows a table to the sources of its job or the stream of its query. It follows a
    stream to the writers that it waits for. The first line names the first hop that does not have
    what its sources have. Then follow a line for each hop, and what to do.

    If a hop cannot be read, its line has the reason, and the other hops are still read.

    Exit statuses:

    - 0: the dataset is complete to TIME. Without TIME: it is known how far it is.
    - 1: the dataset cannot be read.
    - 3: the dataset is not complete to TIME, and waiting does not help. Without TIME: it is not
      known how far it is.
    - 69: the dataset cannot be read, because no controller, broker or store answered.
    - 124: the dataset is not complete to TIME yet, as `wait` ends.

    Try it:  noted-time why delta:/data/orders 2013-01-01T10:00Z
    """
    root = Dataset(dataset, domain or "")
    _check_options(context, root, as_dot=as_dot)
    kafka = build_kafka_config("", config) if config else {}
    end_time = parse_optional_time(time)
    answer = HopReader(call.ask, end_time, kafka).find_why(root, tuple(name))
    if as_dot:
        for line in answer.to_dot().splitlines():
            echo(line)
    elif not call.print_json(answer.to_json()):
        echo(answer.sentence)
        for line in answer.lines:
            echo(f"  {line}")
        if answer.remedy:
            echo(f"To do: {answer.remedy}")
    if answer.is_complete:
        return
    if end_time is None:
        raise typer.Exit(MISSING_STATUS)
    options = DatasetOptions(domain=domain, name=name, config=config)
    raise typer.Exit(_find_status(call, options.open(call, dataset), end_time))


def _find_status(call: Caller, dataset: OpenDataset, time: int) -> int:
    """Return the exit status of a `wait` that asks once, about a dataset that was not complete."""
    steps = wait_for_dataset(dataset, Requirement(to=time), 0)
    try:
        answer = run(steps, build_performer(call.ask))
    except (Conflict, Unreachable) as error:
        return choose_error_status(error)
    if answer.is_complete:  # since the printed answer
        return NOT_YET_STATUS
    return choose_status(answer)


def _check_options(context: typer.Context, root: Dataset, *, as_dot: bool) -> None:
    reason = f"on a {root.kind}"
    refuse_options(context, reason, "domain" if root.kind == "table" else "name")
    if root.kind != "group":
        refuse_options(context, reason, "config")
    if as_dot:
        refuse_options(context, "with --dot", "as_json")
