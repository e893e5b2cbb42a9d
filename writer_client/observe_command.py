"""`noted-time observe`: note time for a log whose writers do not.

`noted_time.__main__` adds it to the other commands: those run a controller or call one, and do not
import the writers' client.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer
from typer.models import OptionInfo

from noted_time.client import VARIABLE as TOKEN_VARIABLE
from noted_time.values import NotedTimeError, Rejected, Unreachable, Unreadable, duration_ms
from noted_time.wing import INGESTION
from writer_client.client import WriterClient
from writer_client.observing import EventTimeNoter, IngestionNoter, Observer

DEFAULT_URL = "http://127.0.0.1:7464"
IDLE_MS = 60_000
BEGIN_S = 5.0

app = typer.Typer(
    name="observe", no_args_is_help=True, help="Note time for a log whose writers do not."
)


@app.callback()
def observe() -> None:
    """Note time for a log whose writers do not."""


class By(StrEnum):
    """What is noted."""

    INGESTION = "ingestion"
    EVENT_TIME = "event-time"


def _flag(help_: str, *, name: str | None = None, metavar: str = "DURATION") -> OptionInfo:
    names = [] if name is None else [name]
    option: OptionInfo = typer.Option(*names, metavar=metavar, help=help_, show_default=False)
    return option


@app.command()
def log(  # noqa: PLR0913 - one parameter for each flag
    root: Annotated[str, typer.Argument(metavar="ROOT", help="The directory of the file log.")],
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.")],
    *,
    by: Annotated[By, typer.Option(help="The clock, or the times in the rows.")] = By.INGESTION,
    field: Annotated[str | None, _flag("The column of the event time.", metavar="COLUMN")] = None,
    delay: Annotated[str | None, _flag("How far rows of one segment come out of order.")] = None,
    idle: Annotated[
        str | None,
        _flag("Stop waiting for a segment without rows for this long; 0s: never. By default 1m."),
    ] = None,
    skew: Annotated[str | None, _flag("How far this clock may be ahead. By default 0s.")] = None,
    domain: Annotated[
        str | None,
        _flag(
            "The time domain: `ingestion`, or `default` by event time, if none is given.",
            metavar="DOMAIN",
        ),
    ] = None,
    poll: Annotated[str, typer.Option(metavar="DURATION", help="Time between two looks.")] = "1s",
    max_lag: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Maximum lag of ingestion time on a quiet stream."),
    ] = "10s",
    writer: Annotated[str, typer.Option(help="The name to note under.")] = "observer",
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long time waits for a silent observer.")
    ] = "1m",
    lasting: Annotated[
        str | None,
        _flag(
            "Stop after this long; 0s looks once. By default it runs until Ctrl-C.", name="--for"
        ),
    ] = None,
    url: Annotated[
        str, typer.Option(envvar="NOTED_TIME_URL", help="The controller to call.")
    ] = DEFAULT_URL,
    token: Annotated[
        str | None,
        typer.Option(
            envvar=TOKEN_VARIABLE,
            help="Needed once a token exists: see `noted-time token`.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Watch a file log and note what can be concluded from it.

    By ingestion: whatever was visible at a moment lies below the ends of the segments read after
    it. By event time: the newest time of each segment less the delay; the slowest segment counts.

    Ends with status 0 on Ctrl-C or after `--for`, and with 1 if it is refused (unknown stream,
    missing right, a log that was recreated). The observer stays a member of the stream: time waits
    for it until its timeout.

    Try it:  noted-time observe log /data/log flights --by event-time --field departure --delay 5m
    """
    with _ended_in_a_sentence():
        choice = Choice(
            by,
            field,
            delay_ms=None if delay is None else duration_ms(delay),
            idle_ms=None if idle is None else duration_ms(idle),
            skew_ms=None if skew is None else duration_ms(skew),
            domain=domain or (INGESTION if by is By.INGESTION else "default"),
            poll_ms=duration_ms(poll),
            max_lag_ms=duration_ms(max_lag),
        )
        lasting_s = None if lasting is None else duration_ms(lasting) / 1000
        timeout_ms, domains = duration_ms(timeout), [choice.domain]
        with WriterClient(
            url, stream, writer, token=token, domains=domains, timeout_ms=timeout_ms
        ) as client:
            observer = choice.observer(client, root)
            _begin(client)
            _observe(observer, lasting_s)


@dataclass(frozen=True, slots=True)
class Choice:
    """The flags; raises `Rejected` if they cannot be combined."""

    by: By
    field: str | None
    delay_ms: int | None
    idle_ms: int | None
    skew_ms: int | None
    domain: str
    poll_ms: int
    max_lag_ms: int

    def __post_init__(self) -> None:
        if self.by is By.EVENT_TIME:
            if self.field is None or self.delay_ms is None:
                raise Rejected("--by event-time requires --field and --delay")
            if self.skew_ms is not None:
                raise Rejected("--skew requires --by ingestion")
        elif (self.field, self.delay_ms, self.idle_ms) != (None, None, None):
            raise Rejected("--field, --delay and --idle require --by event-time")

    def observer(self, client: WriterClient, root: str) -> Observer:
        """Return the observer of the client's stream below `root`."""
        from writer_client.log_ends import LogEnds, LogTimes  # noqa: PLC0415 - needs pyarrow

        if self.field is None or self.delay_ms is None:
            return IngestionNoter(
                client,
                LogEnds(root, client.stream),
                domain=self.domain,
                poll_ms=self.poll_ms,
                max_lag_ms=self.max_lag_ms,
                skew_ms=self.skew_ms or 0,
            )
        return EventTimeNoter(
            client,
            LogTimes(root, client.stream, self.field),
            delay_ms=self.delay_ms,
            idle_timeout_ms=IDLE_MS if self.idle_ms is None else self.idle_ms,
            domain=self.domain,
            poll_ms=self.poll_ms,
        )


def _begin(client: WriterClient) -> None:
    """Let time wait for the observer; an unreachable controller is tried again later."""
    client.join()
    try:
        client.flush(BEGIN_S)
    except Unreachable as error:
        typer.echo(f"noted-time: {error}; trying again", err=True)
    typer.echo(f"{client.writer} observes {client.stream}")


def _observe(observer: Observer, lasting_s: float | None) -> None:
    """Look once, for so long, or until a signal."""
    if lasting_s == 0:
        observer.look()
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: observer.stop())
    timer = threading.Timer(lasting_s or 0, observer.stop)
    timer.daemon = True
    if lasting_s is not None:
        timer.start()
    try:
        observer.run()
    finally:
        timer.cancel()


@contextmanager
def _ended_in_a_sentence() -> Iterator[None]:
    """Print what went wrong as a sentence, and end with status 1.

    The status is 2 if a time cannot be read or a package is missing.
    """
    try:
        yield
    except NotedTimeError as error:
        typer.echo(f"noted-time: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, Unreadable) else 1) from error
    except ImportError as error:
        typer.echo(f'noted-time: {error}: pip install "noted-time[files]"', err=True)
        raise typer.Exit(2) from error
