"""`noted-time observe log`: note time for a file log whose writers do not."""

from __future__ import annotations

from typing import Annotated

import typer

import writer_client
from noted_time_cli.observers.noting import (
    IDLE_MS,
    MAX_LAG_MS,
    Delay,
    Idle,
    MaxLag,
    Noting,
    NotingIngestion,
    Skew,
)
from noted_time_cli.terminal.flags import group_command
from noted_time_cli.terminal.options import Stream, WrittenTimes, option

Root = Annotated[str, typer.Argument(metavar="ROOT", help="The directory of the file log.")]

app = typer.Typer(
    name="log",
    no_args_is_help=True,
    help="""Watch a file log and note what can be concluded from it.

    Ends with status 0 on Ctrl-C or after `--for`, and with 1 if it is refused (unknown stream,
    missing right, a log that was recreated). The observer stays a member of the stream: time waits
    for it until its timeout.

    Try it:  noted-time observe log event-time /data/log flights --field departure --delay 5m""",
    short_help="Watch a file log: when rows came in, or the times that they have.",
)


@group_command(app)
def ingestion(
    root: Root,
    stream: Stream,
    noting: NotingIngestion,
    *,
    skew: Skew = 0,
    max_lag: MaxLag = MAX_LAG_MS,
) -> None:
    """Note when rows became visible, by this machine's clock.

    Whatever was visible at a moment lies below the ends of the segments read after it.

    Try it:  noted-time observe log ingestion /data/log flights
    """
    noting.observe(
        stream,
        lambda _: writer_client.LogEnds(root, stream),
        noting.make_clock_noter(skew, max_lag),
    )


@group_command(app)
def event_time(  # noqa: PLR0913 - one parameter for each flag
    root: Root,
    stream: Stream,
    noting: Noting,
    *,
    field: Annotated[str, option("COLUMN", "The column of the event time.", "--field")],
    delay: Delay,
    written: WrittenTimes,
    idle: Idle = IDLE_MS,
) -> None:
    """Note the newest time of each segment less the delay; the slowest segment counts.

    Try it:  noted-time observe log event-time /data/log flights --field departure --delay 5m
    """
    noting.observe(
        stream,
        lambda client: writer_client.LogTimes(
            root, stream, field, form=noting.choose_form(client, written.form)
        ),
        noting.make_times_noter(delay, idle),
    )
