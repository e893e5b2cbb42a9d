"""What `noted-time observe` has for every kind of log: flags, ways to note, its beginning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, TypeVar

import typer

from noted_time.client.options import flag
from noted_time.values import Rejected, Unreachable
from writer_client.client import WriterClient
from writer_client.observing import EventTimeNoter, IngestionNoter, Observer
from writer_client.posting import unix_ms

IDLE_MS = 60_000
BEGIN_S = 5.0
POLL, MAX_LAG, TIMEOUT, WRITER = "1s", "10s", "1m", "observer"

Log = TypeVar("Log")
Looks = Callable[[], Any]
"""What looks at a whole log, such as a `LogEnds`."""


Delay = Annotated[str | None, flag("How far rows of one segment come out of order.")]
Idle = Annotated[
    str | None,
    flag("Stop waiting for a segment without rows for this long; 0s: never. By default 1m."),
]
Skew = Annotated[
    str | None,
    flag("How far this clock may be ahead, by default 0s; by broker-time, clocks apart: 1s."),
]
Domain = Annotated[
    str | None,
    flag(
        "The time domain: `ingestion`, or `default` by event time, if none is given.",
        metavar="DOMAIN",
    ),
]
Poll = Annotated[str, typer.Option(metavar="DURATION", help="Time between two looks.")]
MaxLag = Annotated[
    str, typer.Option(metavar="DURATION", help="Maximum lag of ingestion time on a quiet stream.")
]
WriterName = Annotated[str, typer.Option(help="The name to note under.")]
Timeout = Annotated[
    str, typer.Option(metavar="DURATION", help="How long time waits for a silent observer.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noting:
    """How an observer notes what it finds."""

    domain: str
    poll_ms: int
    max_lag_ms: int
    delay_ms: int | None
    idle_ms: int | None
    skew_ms: int | None
    lag_ms: int | None = None
    clock: Callable[[], int] = unix_ms

    def ingestion(self, client: WriterClient, ends: Looks) -> Observer:
        """Return an observer that notes the clock."""
        return IngestionNoter(
            client,
            ends,
            domain=self.domain,
            poll_ms=self.poll_ms,
            max_lag_ms=self.max_lag_ms,
            skew_ms=self.skew_ms or 0,
            clock=self.clock,
        )

    def event_time(self, client: WriterClient, times: Looks) -> Observer:
        """Return an observer that notes the newest times."""
        return EventTimeNoter(
            client,
            times,
            delay_ms=self.delay_ms or 0,
            idle_timeout_ms=IDLE_MS if self.idle_ms is None else self.idle_ms,
            domain=self.domain,
            poll_ms=self.poll_ms,
        )

    def exact(self, client: WriterClient, times: Looks) -> Observer:
        """Return an observer that notes the least time found, and waits for all segments."""
        return replace(self, delay_ms=0, idle_ms=0).event_time(client, times)


@dataclass(frozen=True, slots=True)
class Way(Generic[Log]):
    """One kind of time to note of a log: the flags for it, and the domain unless one is given.

    `look` returns what looks at the whole log, and `observer` what notes it through a client.
    """

    look: Callable[[Log], Looks]
    observer: Callable[[Noting, WriterClient, Looks], Observer]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    domain: str = "default"


By = TypeVar("By", bound=str)


def way_of(ways: Mapping[By, Way[Log]], by: By, **flags: object) -> Way[Log]:
    """Return the way; raises `Rejected` if a flag is missing, or is not for it."""
    way = ways[by]
    if any(flags[name] is None for name in way.required):
        needed = " and ".join(f"--{name}" for name in way.required)
        raise Rejected(f"--by {by} requires {needed}")
    for name, value in flags.items():
        if value is not None and name not in (*way.required, *way.optional):
            right = [each for each, of in ways.items() if name in (*of.required, *of.optional)]
            raise Rejected(f"--{name} requires --by {' or '.join(right)}")
    return way


def begin(client: WriterClient) -> None:
    """Let time wait for the observer; an unreachable controller is tried again later."""
    client.join()
    try:
        client.flush(BEGIN_S)
    except Unreachable as error:
        typer.echo(f"noted-time: {error}; trying again", err=True)
    typer.echo(f"{client.writer} observes {client.stream}")
