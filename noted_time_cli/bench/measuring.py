"""`noted-time bench`: notes a second, and how long after a note its mark is there."""

from __future__ import annotations

import json
import os
import time as clock
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from threading import Thread
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit
from uuid import uuid4

import typer

from noted_time import NotedTimeError, Rejected, Unreachable
from noted_time.client import Question, stream_path
from noted_time.client.controllers import authorization
from noted_time.client.transport import Transport
from noted_time.values import counted, shown_duration
from noted_time_cli.bench.load import LoadResult, drive, percentile, post
from noted_time_cli.terminal.flags import command
from noted_time_cli.terminal.options import DEFAULT_URL, AsJson, Token, duration
from noted_time_cli.terminal.output import echo, print_table, say

if TYPE_CHECKING:
    from noted_time_cli.terminal.output import Columns

BASE_MS = 1_700_000_000_000
SEGMENTS = 16
JOINED_AT_ONCE = 500
WRITER_TIMEOUT_MS = 600_000
BARE_S = 5.0
"""For how long the bare server is measured, at most."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How much was done a second, and how long it took, in ms: the median, and 99 % at most."""

    per_second: float
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, answered: LoadResult) -> Rate:
        """Return that of a load."""
        median, slow = (answered.percentile_ms(percent) for percent in (50, 99))
        return cls(answered.per_second, median, slow)


@dataclass(frozen=True, slots=True)
class Measured:
    """What `noted-time bench` found out; `marks` is `None` if none was seen."""

    writers: int
    connections: int
    notes: Rate
    marks: Rate | None
    bare_server: Rate


@dataclass(slots=True)
class Fleet:
    """Writers that note in rounds: each mark of round `n` needs the notes of all of them.

    So the mark of a round is late by the time since its last note was sent, in `mark_ns`.
    """

    stream: str
    headers: str
    prefix: str
    writers: int
    ends_at: float = 0.0
    noted_ns: dict[int, int] = field(default_factory=dict)
    mark_ns: list[int] = field(default_factory=list)

    def joining(self) -> Iterator[list[dict[str, object]]]:
        """Yield the notes of round 0, many in a request."""
        for begin in range(0, self.writers, JOINED_AT_ONCE):
            numbers = range(begin, min(begin + JOINED_AT_ONCE, self.writers))
            yield [{"writer": f"w{number}", "time": BASE_MS, "position": {}} for number in numbers]

    def scripts(self, connections: int, lasting_s: float) -> list[Iterator[bytes]]:
        """Return the requests of each connection; a writer keeps to one, so its notes are in order.

        Requests are made as they are sent.
        """
        self.ends_at = clock.monotonic() + lasting_s
        return [
            self._script(range(first, self.writers, connections)) for first in range(connections)
        ]

    def drive(self, connections: int, lasting_s: float, url: str) -> LoadResult:
        """Note for so long, over connections to one server; raises `Unreachable`."""
        server = urlsplit(url)
        scripts = self.scripts(connections, lasting_s)
        try:
            return drive(server.port or 80, scripts, server.hostname or "")
        except OSError as error:
            raise Unreachable(f"{url} closed a connection under load: {error}") from error

    def _script(self, writers: range) -> Iterator[bytes]:
        for number in count(1):
            for writer in writers:
                if clock.monotonic() > self.ends_at:
                    return
                if writer == writers[-1]:  # the last of all connections to come here stays
                    self.noted_ns[number] = clock.perf_counter_ns()
                yield self._note(writer, number)

    def _note(self, writer: int, number: int) -> bytes:
        note = b'{"notes":[{"writer":"w%d","time":%d,"position":{"%d":%d}}]}' % (
            writer,
            BASE_MS + number,
            writer % SEGMENTS,
            number,
        )
        return post(f"{self.prefix}{stream_path(self.stream, 'notes')}", note, self.headers)

    def watch(self, transport: Transport) -> None:
        """Take the time of each mark, until the connections end."""
        seq = seen = 0
        with suppress(NotedTimeError):
            while True:
                query = {"after": seq, "wait_ms": 1000}
                path = stream_path(self.stream, "marks")
                marks = transport.ask(Question("GET", path, query, wait_ms=1000))["marks"]
                now = clock.perf_counter_ns()
                for mark in marks:
                    seq, last = mark["seq"], mark["lower"] - BASE_MS
                    self.mark_ns += [now - self.noted_ns[n] for n in range(seen + 1, last + 1)]
                    seen = max(seen, last)


@command
def bench(  # noqa: PLR0913 - one parameter for each flag
    url: Annotated[
        str, typer.Argument(envvar="NOTED_TIME_URL", help="The controller to measure.")
    ] = DEFAULT_URL,
    *,
    writers: Annotated[int, typer.Option(min=1, help="How many writers note.")] = 1000,
    connections: Annotated[
        int, typer.Option(min=1, help="How many connections they share; each waits for an answer.")
    ] = 64,
    lasting: Annotated[int, duration("How long they note.", "--for", default="30s")] = 30_000,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Measure a controller: notes a second, and how long after a note its mark is there.

    Single notes over HTTP, each answered once it is durable, in a stream of its own that is deleted
    at the end. A bare server that stores nothing gets the same requests: what this machine can do.
    Run it where the writers run, on a controller that nobody needs meanwhile.

    Try it:  noted-time bench --writers 100 --for 10s
    """
    from noted_time_cli.bench.bare import bare_server  # the server that controllers have, too

    connections = min(connections, writers)
    with closing(Transport(url, token=token)) as transport:
        at = urlsplit(transport.controllers.urls[0])
        if at.scheme != "http":
            raise Rejected(
                f"{url} is encrypted: run bench beside the controller, with its http:// URL"
            )
        headers = {"Host": at.netloc, **authorization(token, os.environ)}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        fleet = Fleet(f"bench-{uuid4().hex[:8]}", lines, at.path.rstrip("/"), writers)
        transport.ask(
            Question(
                "PUT", stream_path(fleet.stream), body={"writer_timeout_ms": WRITER_TIMEOUT_MS}
            )
        )
        say(
            f"{counted(writers, 'writer')} note over {counted(connections, 'connection')} for "
            f"{shown_duration(lasting)}, in the stream {fleet.stream}."
        )
        try:
            path = stream_path(fleet.stream, "notes")
            for notes in fleet.joining():
                transport.ask(Question("POST", path, body={"notes": notes}))
            with closing(Transport(url, token=token)) as waiting:
                reader = Thread(target=fleet.watch, args=(waiting,), daemon=True)
                reader.start()
                noted = fleet.drive(connections, lasting / 1000, transport.controllers.urls[0])
                waiting.hang_up()
                reader.join()
        finally:
            try:
                transport.ask(Question("DELETE", stream_path(fleet.stream)))
            except NotedTimeError as error:  # what ended the load comes after it
                say(f"The stream {fleet.stream} is not deleted: {error}")
    if noted.accepted < len(noted.latencies):
        refused = len(noted.latencies) - noted.accepted
        raise Rejected(f"{refused:,} of {len(noted.latencies):,} notes were not accepted")
    say("The same requests to a bare server.")
    with bare_server() as (_, port):
        at_it = f"http://127.0.0.1:{port}"
        bare = fleet.drive(connections, min(lasting / 1000, BARE_S), at_it)
    late = fleet.mark_ns
    marks = late and Rate(
        len(late) / noted.seconds, percentile(late, 50) / 1e6, percentile(late, 99) / 1e6
    )
    found = Measured(writers, connections, Rate.of(noted), marks or None, Rate.of(bare))
    if as_json:
        echo(json.dumps(asdict(found)))
    else:
        _print(found)


def _print(found: Measured) -> None:
    rows = {
        "notes, each answered once durable": found.notes,
        "marks, after the last note they need": found.marks,
        "bare server, which stores nothing": found.bare_server,
    }
    columns: Columns = {
        "measured": "name",
        "a second": lambda row: row["rate"] and f"{row['rate'].per_second:,.0f}",
        "p50": lambda row: row["rate"] and f"{row['rate'].p50_ms:,.1f} ms",
        "p99": lambda row: row["rate"] and f"{row['rate'].p99_ms:,.1f} ms",
    }
    print_table(columns, ({"name": name, "rate": rate} for name, rate in rows.items()))
