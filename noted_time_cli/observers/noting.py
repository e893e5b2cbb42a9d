"""What observers of every kind of log have: where they note, how often they look, their noters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from noted_time.client import Question, stream_path
from noted_time.client.transport import Transport
from noted_time.observing import INGESTION_NAME, Seen, TimeForm, count_unusable
from noted_time.values import InvalidNote, NotedTimeError, Rejected, Unreachable, pluralize
from noted_time_cli.terminal.options import DEFAULT_URL, Token, Url, duration, option
from noted_time_cli.terminal.output import echo, say
from noted_time_cli.terminal.running import Lasting, run_for
from writer_client import EventTimeNoter, IngestionNoter, WriterClient
from writer_client.observer import Observer

FIRST_ANSWER_S = 5.0
IDLE_MS, MAX_LAG_MS = 60_000, 10_000

Looks = Callable[[], Seen]
"""What looks at a whole log, such as a `LogEnds`."""

Noter = Callable[[WriterClient, Looks], Observer]
"""Returns what notes through a client what is seen."""

Delay = Annotated[int, duration("How far rows of one segment come out of order.", "--delay")]
Idle = Annotated[
    int,
    duration(
        "Stop waiting for a segment without rows for this long; 0s: never.", "--idle", default="1m"
    ),
]
Skew = Annotated[int, duration("How far this clock may be ahead.", "--skew", default="0s")]
MaxLag = Annotated[
    int, duration("Maximum lag of the time on a quiet stream.", "--max-lag", default="10s")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noting:
    """Where and under which name an observer notes, and how often and how long it looks."""

    domain: Annotated[str, option("DOMAIN", "The time domain.", default=True)] = "default"
    writer: Annotated[str, option("WRITER", "The name to note under.", default=True)] = "observer"
    poll: Annotated[int, duration("Time between two looks.", "--poll", default="1s")] = 1000
    timeout: Annotated[
        int, duration("How long time waits for a silent observer.", "--timeout", default="1m")
    ] = 60_000
    lasting: Lasting = None
    url: Url = DEFAULT_URL
    token: Token = None

    def observe(self, stream: str, look: Callable[[WriterClient], Looks], noter: Noter) -> None:
        """Note what is seen of a whole log; an unreachable controller is tried again later."""
        with WriterClient(
            self.url,
            stream,
            self.writer,
            token=self.token,
            domains=[self.domain],
            timeout_ms=self.timeout,
        ) as client:
            looks = look(client)
            observer = noter(client, looks)
            client.join()
            self._begin(client)
            echo(f"{client.writer} observes {client.stream}")
            run_for(observer, self.lasting)
        without = getattr(looks, "without_value", 0)
        if without:
            say(f"{pluralize(without, 'record')} without a value passed over.")
        _check_passed_over(looks)

    def _begin(self, client: WriterClient) -> None:
        """Go on if the controller does not answer; say how to declare a domain that is not."""
        try:
            client.flush(FIRST_ANSWER_S)
        except Unreachable as error:
            say(f"noted-time: {error}; trying again")
        except InvalidNote as error:
            if error.status != "unknown_domain" or not isinstance(error.last, tuple):
                raise
            domains = " ".join(f"--domain {each}" for each in (*error.last, self.domain))
            remedy = f"note one that it declares with --domain, or declare {self.domain}, too:"
            say(f"noted-time: {error}; {remedy}")
            say(f"  noted-time stream create {client.stream} {domains}")
            raise typer.Exit(1) from error

    def choose_form(self, client: WriterClient, given: TimeForm) -> TimeForm:
        """Return how times are written; those of a stream with another clock are not doubted."""
        with suppress(NotedTimeError), closing(Transport(self.url, token=self.token)) as transport:
            settings = transport.ask(Question("GET", stream_path(client.stream)))
            if given.unit is None and settings["max_time_ahead_ms"] is None:
                return replace(given, unit="ms")
        return given

    def make_clock_noter(self, skew_ms: int, max_lag_ms: int) -> Noter:
        """Return what notes the clock."""
        return lambda client, ends: IngestionNoter(
            client,
            ends,
            domain=self.domain,
            poll_ms=self.poll,
            max_lag_ms=max_lag_ms,
            skew_ms=skew_ms,
        )

    def make_times_noter(self, delay_ms: int = 0, idle_ms: int = 0) -> Noter:
        """Return what notes the newest times; as they are, and waiting for all, unless given."""
        return lambda client, times: EventTimeNoter(
            client,
            times,
            delay_ms=delay_ms,
            idle_timeout_ms=idle_ms,
            domain=self.domain,
            poll_ms=self.poll,
        )


def _check_passed_over(look: object) -> None:
    """Raise if records were passed over: nothing that was noted covers their times."""
    count = count_unusable(look)
    if count:
        records = "1 record was" if count == 1 else f"{count:,} records were"
        raise Rejected(
            f"{records} passed over: the time could not be read, or was too far ahead; the "
            "warnings above name some"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotingIngestion(Noting):
    """The same, in the domain of ingestion."""

    domain: Annotated[str, option("DOMAIN", "The time domain.", default=True)] = INGESTION_NAME
