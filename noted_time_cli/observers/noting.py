"""The flags that all observers have, and a command's run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Protocol, TypeVar

import typer

from noted_time.answers import StreamAnswer
from noted_time.client import Question, stream_path
from noted_time.client.transport import Transport
from noted_time.installation import name_program
from noted_time.observing import ANY_TIME, LEAST_POLL_MS, PLACEHOLDER_WORDS, Passes, Seen, TimeForm
from noted_time.values import (
    INGESTION_NAME,
    InvalidNote,
    NotedTimeError,
    Rejected,
    Unreachable,
    pluralize,
)
from noted_time_cli.terminal.health import HealthPort
from noted_time_cli.terminal.options import (
    DEFAULT_URL,
    ContactOption,
    Token,
    Url,
    duration,
    option,
    parse_offsets,
)
from noted_time_cli.terminal.output import echo, say
from noted_time_cli.terminal.running import Lasting, run_for
from writer_client import EventTimeNoter, IngestionNoter, WriterClient
from writer_client.observer import Observer

FIRST_ANSWER_S = 5.0
IDLE_MS = 60_000
MAX_LAG_MS = 10_000

Looks = Callable[[], Seen]
"""Looks at the log once."""

Noter = Callable[[WriterClient, Looks], Observer]
"""Returns the observer that notes through the client."""


class SegmentedLog(Protocol):
    """A log that may have no segments yet."""

    def check_segments(self) -> None:
        """Raise `Unreachable` if the log cannot be read or has no segments."""


Log = TypeVar("Log", bound=SegmentedLog)

Delay = Annotated[int, duration("Maximum delay of a row within its segment or partition.")]
Idle = Annotated[
    int,
    duration(
        "Stop waiting for a segment that gets no rows for this long. 0s waits without end.",
        default="1m",
    ),
]
Skew = Annotated[int, duration("How far this machine's clock may be ahead.", default="0s")]
MaxLag = Annotated[int, duration("Maximum lag of the time on a quiet stream.", default="10s")]
Poll = Annotated[int, duration("Time between two polls.", default="1s", minimum=LEAST_POLL_MS)]
NullOption = Annotated[
    Literal["hold", "pass"],
    typer.Option("--null", help="Whether the watermark waits after a row whose time is null."),
]
Timeout = Annotated[int, duration("The observer's writer timeout.", default="1m", minimum=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRecords:
    """Whether the watermark waits for partitions whose newest record was skipped."""

    passed: Annotated[
        list[str] | None,
        option("PARTITION", "Skip without waiting. Or PARTITION:OFFSET. Repeatable.", "--pass"),
    ] = None
    unreadable: Annotated[
        Literal["hold", "idle"], typer.Option(help="A partition's state after a skipped record.")
    ] = "hold"

    @property
    def passes(self) -> Passes:
        values = self.passed or []
        last_offsets = parse_offsets([value for value in values if not value.isdecimal()], "--pass")
        partitions = {int(value): None for value in values if value.isdecimal()}
        if self.unreadable == "idle" and values:
            raise typer.BadParameter("--pass has no effect with --unreadable idle: leave one out")
        if self.unreadable == "idle":
            return "all"
        if partitions_twice := sorted(last_offsets.keys() & partitions):
            raise typer.BadParameter(
                f"--pass {partitions_twice[0]} includes its offset: leave one out"
            )
        return {**last_offsets, **partitions}


@dataclass(frozen=True, slots=True, kw_only=True)
class Noting:
    """The stream's domain, the observer's name, and how often and how long it polls."""

    domain: Annotated[str, option("DOMAIN", "The time domain.", default=True)] = "default"
    writer: Annotated[str, option("WRITER", "The name to note under.", default=True)] = "observer"
    poll: Poll = 1000
    timeout: Timeout = 60_000
    contact: ContactOption = None
    lasting: Lasting = None
    health_port: HealthPort = None
    url: Url = DEFAULT_URL
    token: Token = None

    def observe(
        self, stream: str, make_looks: Callable[[WriterClient], Looks], noter: Noter
    ) -> None:
        with WriterClient(
            stream,
            self.writer,
            controller=self.url,
            token=self.token,
            domains=[self.domain],
            timeout_ms=self.timeout,
            contact=self.contact,
        ) as client:
            looks = make_looks(client)
            observer = noter(client, looks)
            client.join()
            self._begin(client)
            echo(f"{client.writer} observes {client.stream}")
            run_for(observer, self.lasting, self.health_port, self.timeout / 1000)
        _report_counts(looks)

    def _begin(self, client: WriterClient) -> None:
        try:
            client.flush(FIRST_ANSWER_S)
        except Unreachable as error:
            say(f"noted-time: {error}; trying again")
        except InvalidNote as error:
            if error.status != "unknown_domain" or not isinstance(error.last, tuple):
                raise
            domains = " ".join(f"--domain {name}" for name in (*error.last, self.domain))
            remedy = f"use one of these with --domain, or declare {self.domain}:"
            say(f"noted-time: {error}; {remedy}")
            say(f"  {name_program()} stream set {client.stream} {domains}")
            raise typer.Exit(1) from error

    def check_log(self, log: Log) -> Log:
        """Check that a log has segments, before the observer joins. Without `--for`, only warn."""
        try:
            log.check_segments()
        except Unreachable as error:
            if self.lasting is not None:
                raise
            say(f"noted-time: {error}; trying again")
        return log

    def choose_form(self, client: WriterClient, form: TimeForm) -> TimeForm:
        """Take numbers as ms without `max_time_ahead_ms`; they may not be wall-clock times."""
        with suppress(NotedTimeError), closing(Transport(self.url, token=self.token)) as transport:
            settings = transport.ask(
                Question("GET", stream_path(client.stream), answer=StreamAnswer)
            )
            if settings.max_time_ahead_ms is None:
                return replace(form, unit=form.unit or "ms", bounds=ANY_TIME)
        return form

    def make_clock_noter(self, skew_ms: int, max_lag_ms: int) -> Noter:
        return lambda client, ends: IngestionNoter(
            client,
            ends,
            domain=self.domain,
            poll_ms=self.poll,
            max_lag_ms=max_lag_ms,
            skew_ms=skew_ms,
        )

    def make_times_noter(self, delay_ms: int = 0, idle_ms: int = 0) -> Noter:
        return lambda client, times: EventTimeNoter(
            client,
            times,
            delay_ms=delay_ms,
            idle_timeout_ms=idle_ms,
            domain=self.domain,
            poll_ms=self.poll,
        )


def _report_counts(look: object) -> None:
    for name, description in (
        ("without_value", "without a value skipped."),
        ("null_times", "skipped, with null as the time."),
        ("without_time", f"skipped, with {PLACEHOLDER_WORDS}."),
        ("twice", "read as of the first hour of two, because their zone had it twice."),
    ):
        if number := getattr(look, name, 0):
            say(f"{pluralize(number, 'record')} {description}")
    if count := getattr(look, "unusable", 0):
        records = "1 record was" if count == 1 else f"{count:,} records were"
        raise Rejected(
            f"{records} skipped: the time could not be read or was too far ahead; see the "
            "warnings above"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotingIngestion(Noting):
    """`Noting` with the domain of ingestion as default."""

    domain: Annotated[str, option("DOMAIN", "The time domain.", default=True)] = INGESTION_NAME
