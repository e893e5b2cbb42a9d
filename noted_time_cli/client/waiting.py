"""`noted-time wait`."""

from __future__ import annotations

import time as clock
from typing import Annotated

import typer
from msgspec.structs import replace

from noted_time import Conflict, Unreachable
from noted_time.answers import Completeness
from noted_time.client import position_to_wire, run
from noted_time.client.waiting import NothingKnown, NotYet, Sleep, build_performer
from noted_time.values import HOUR_MS, format_time, parse_time
from noted_time_cli.client.caller import Caller, client_command
from noted_time_cli.client.datasets import (
    MISSING_STATUS,
    DatasetArgument,
    DatasetOptions,
    RequiredWriters,
)
from noted_time_cli.terminal.options import TimeArgument, duration, option, parse_optional_time
from noted_time_cli.terminal.output import UNANSWERED_STATUS, echo, fail, format_position, say
from reader_client.protocol.datasets import wait_for_dataset

NOT_YET_STATUS = 124  # as of timeout(1)

SINCE_ALONE = (
    "--since has no effect without --require-all or --require-known: add one, or leave it out"
)


@client_command
def wait(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    dataset: DatasetArgument,
    time: TimeArgument,
    *,
    options: DatasetOptions,
    writers: RequiredWriters,
    timeout: Annotated[
        int, duration("Maximum time to wait, such as 90m. 0s asks once.", default="1h")
    ] = HOUR_MS,
    since: Annotated[
        str | None,
        option(
            "TIME",
            "The start of the window. With --require-all or --require-known, end with 3 for late "
            "rows from it on.",
        ),
    ] = None,
) -> None:
    """Wait until a dataset is complete to TIME: all events before TIME are there.

    A stream is complete when all these events are written, and a group or checkpoint when it has
    read them. A table is judged by the claims in its commits. If writers are required, the command
    asks the controller who vouches.

    Exit statuses:

    - 0: the dataset is complete.
    - 1: the controller refused, for example because the stream does not exist.
    - 3: complete, but a required writer does not vouch and cannot vouch later, or TIME is before
      the first mark.
    - 69: the timeout passed, and no controller answered at its end.
    - 124: the timeout passed, and the dataset is not complete, or a required writer does not vouch
      yet.

    By default, only the writers that the controller knows count. The output names them, and the
    writers with late rows. To require writers, use:

    - --require WRITER: wait for this writer.
    - --require-all: wait for all expected writers. If the stream expects none, the status is 3.
    - --require-known: wait for all writers that ever joined, also later if they noted old times.

    With one of these two and --since, the status is 3 if the window has late rows.

    Try it:  noted-time wait flights 2013-01-01T10:00Z --timeout 1h && echo complete
    """
    requirement = replace(
        writers.build(), to=parse_time(time), from_time=parse_optional_time(since)
    )
    if requirement.from_time is not None and requirement.from_time >= (requirement.to or 0):
        raise typer.BadParameter("--since is not before TIME: exchange them")
    open_dataset = options.open(call, dataset, is_judged_again=True)
    if requirement.from_time is not None and open_dataset.dataset.kind == "table":
        raise typer.BadParameter("--since has no effect on a table: leave it out")
    if requirement.from_time is not None and not requirement.has_no_missing:
        raise typer.BadParameter(SINCE_ALONE)
    try:
        steps = wait_for_dataset(open_dataset, requirement, timeout / 1000)
        answer = run(steps, build_performer(call.ask, _sleep))
    except (Conflict, Unreachable) as error:
        end_text = format_time(requirement.to or 0)
        sentence = f"{dataset} is not known to be complete to {end_text}: {error}"
        fail(sentence, status=choose_error_status(error))
    if not call.print_json(answer) and answer.is_complete:
        echo(f"{answer.sentence}: {_describe_place(answer)}")
    if not answer.is_complete:
        fail(answer.sentence, status=choose_status(answer))


def choose_error_status(error: Conflict | Unreachable) -> int:
    """Return the exit status if there is no answer at the end of the timeout."""
    return NOT_YET_STATUS if isinstance(error, NotYet) else UNANSWERED_STATUS


def choose_status(answer: Completeness) -> int:
    """Return the exit status if the last answer is not that the dataset is complete."""
    return NOT_YET_STATUS if answer.status == "waiting" else MISSING_STATUS


def _sleep(step: Sleep) -> None:
    if step.failures == 1 or (isinstance(step.why, NothingKnown) and step.is_news):
        say(f"noted-time: {step.why}; trying again")
    clock.sleep(step.seconds)


def _describe_place(answer: Completeness) -> str:
    if answer.mark is None:
        return f"version {answer.version}"
    offsets = answer.mark.cut.offsets
    cut = f"cut {format_position(position_to_wire(offsets))}"
    if not offsets:
        cut = "without a cut, because its writers note times and no positions"
    return f"mark {answer.mark.seq}, {cut}"
