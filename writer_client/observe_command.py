"""`noted-time observe`: note time for a log whose writers do not.

`noted_time.__main__` adds it to the other commands: those run a controller or call one, and do not
import the writers' client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from noted_time.client import options
from noted_time.values import duration_ms
from noted_time.wing import INGESTION
from writer_client.client import WriterClient
from writer_client.observe_kafka import kafka
from writer_client.observe_options import (
    MAX_LAG,
    POLL,
    TIMEOUT,
    WRITER,
    Delay,
    Domain,
    Idle,
    Looks,
    MaxLag,
    Noting,
    Poll,
    Skew,
    Timeout,
    Way,
    WriterName,
    begin,
    way_of,
)

app = typer.Typer(
    name="observe", no_args_is_help=True, help="Note time for a log whose writers do not."
)
app.command()(kafka)


class LogTime(StrEnum):
    """What is noted."""

    INGESTION = "ingestion"
    EVENT_TIME = "event-time"


@app.command()
def log(  # noqa: PLR0913 - one parameter for each flag
    root: Annotated[str, typer.Argument(metavar="ROOT", help="The directory of the file log.")],
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.")],
    *,
    by: Annotated[
        LogTime, typer.Option(help="The clock, or the times in the rows.")
    ] = LogTime.INGESTION,
    field: Annotated[
        str | None, options.flag("The column of the event time.", metavar="COLUMN")
    ] = None,
    delay: Delay = None,
    idle: Idle = None,
    skew: Skew = None,
    domain: Domain = None,
    poll: Poll = POLL,
    max_lag: MaxLag = MAX_LAG,
    writer: WriterName = WRITER,
    timeout: Timeout = TIMEOUT,
    lasting: options.Lasting = None,
    url: options.Url = options.DEFAULT_URL,
    token: options.Token = None,
) -> None:
    """Watch a file log and note what can be concluded from it.

    By ingestion: whatever was visible at a moment lies below the ends of the segments read after
    it. By event time: the newest time of each segment less the delay; the slowest segment counts.

    Ends with status 0 on Ctrl-C or after `--for`, and with 1 if it is refused (unknown stream,
    missing right, a log that was recreated). The observer stays a member of the stream: time waits
    for it until its timeout.

    Try it:  noted-time observe log /data/log flights --by event-time --field departure --delay 5m
    """
    with options.ended_in_a_sentence():
        way = way_of(WAYS, by, field=field, delay=delay, idle=idle, skew=skew)
        noting = Noting(
            domain=domain or way.domain,
            poll_ms=duration_ms(poll),
            max_lag_ms=duration_ms(max_lag),
            delay_ms=options.milliseconds(delay),
            idle_ms=options.milliseconds(idle),
            skew_ms=options.milliseconds(skew),
        )
        lasting_ms, timeout_ms = options.milliseconds(lasting), duration_ms(timeout)
        with WriterClient(
            url, stream, writer, token=token, domains=[noting.domain], timeout_ms=timeout_ms
        ) as client:
            observer = way.observer(noting, client, way.look(FileLog(root, stream, field)))
            begin(client)
            options.run_for(observer, lasting_ms)


@dataclass(frozen=True, slots=True)
class FileLog:
    """The log of a stream below a directory, and the column of the event time."""

    root: str
    stream: str
    field: str | None


def _ends(log: FileLog) -> Looks:
    from writer_client import LogEnds  # noqa: PLC0415 - it needs pyarrow

    return LogEnds(log.root, log.stream)


def _times(log: FileLog) -> Looks:
    from writer_client import LogTimes  # noqa: PLC0415 - it needs pyarrow

    return LogTimes(log.root, log.stream, log.field or "")


WAYS: Mapping[LogTime, Way[FileLog]] = {
    LogTime.INGESTION: Way(_ends, Noting.ingestion, optional=("skew",), domain=INGESTION),
    LogTime.EVENT_TIME: Way(
        _times, Noting.event_time, required=("field", "delay"), optional=("idle",)
    ),
}
