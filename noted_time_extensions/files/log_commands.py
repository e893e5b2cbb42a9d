"""`noted-time observe log`."""

from __future__ import annotations

from typing import Annotated

import typer

from noted_time_cli.extending import (
    IDLE_MS,
    MAX_LAG_MS,
    Delay,
    Idle,
    MaxLag,
    Noting,
    NotingIngestion,
    NullOption,
    Skew,
    SkippedRecords,
    Stream,
    WrittenTimes,
    group_command,
    option,
)
from noted_time_extensions import files
from noted_time_extensions.files.log_options import Ignore, LogRoot

app = typer.Typer(
    name="log", no_args_is_help=True, short_help="Note the arrival or event times of a file log."
)


@app.callback()
def describe_log() -> None:
    """Watch a file log and note time for it.

    Exit statuses:

    - 0: stopped by Ctrl-C or `--for`.
    - 1: refused: the stream does not exist, a right is missing, or the log was recreated.
    - 69: with `--for`, no controller answered, or the log cannot be read or has no segments.

    The watermark waits for the observer until it times out.

    Try it:  noted-time observe log event-time /data/log flights --field departure --delay 5m
    """


@group_command(app)
def ingestion(  # noqa: PLR0913 - one parameter for each flag
    root: LogRoot,
    stream: Stream,
    *,
    skew: Skew = 0,
    max_lag: MaxLag = MAX_LAG_MS,
    ignore: Ignore = None,
    noting: NotingIngestion,
) -> None:
    """Note when rows became visible, by this machine's clock.

    Try it:  noted-time observe log ingestion /data/log flights
    """
    noting.observe(
        stream,
        lambda _: noting.check_log(files.LogEnds(root, stream, ignore=ignore or ())),
        noting.make_clock_noter(skew, max_lag),
    )


@group_command(app)
def event_time(  # noqa: PLR0913 - one parameter for each flag
    root: LogRoot,
    stream: Stream,
    *,
    field: Annotated[str, option("COLUMN", "The column of the event time.")],
    delay: Delay,
    idle: Idle = IDLE_MS,
    ignore: Ignore = None,
    null: NullOption = "hold",
    written: WrittenTimes,
    skipped: SkippedRecords,
    noting: Noting,
) -> None:
    """Note the newest event time of the slowest segment, minus the delay.

    Try it:  noted-time observe log event-time /data/log flights --field departure --delay 5m
    """
    noting.observe(
        stream,
        lambda client: noting.check_log(
            files.LogTimes(
                root,
                stream,
                field,
                form=noting.choose_form(client, written.form),
                ignore=ignore or (),
                passes=skipped.passes,
                nulls=null,
            )
        ),
        noting.make_times_noter(delay, idle),
    )
