"""`noted-time demo-stream`."""

from __future__ import annotations

import logging
import re
import time as clock
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from typing import Annotated

import typer

from noted_time import NotedTimeError, Rejected, UnknownStream, Unreachable
from noted_time.answers import Explanation, StreamAnswer, WritersPage
from noted_time.client import Question, stream_path
from noted_time.client.transport import Transport
from noted_time.installation import name_program
from noted_time_cli.terminal.flags import command
from noted_time_cli.terminal.options import DEFAULT_URL, Token, Url, duration
from noted_time_cli.terminal.output import say
from writer_client import WriterClient

WRITER_RATES = {"berlin": 40, "nairobi": 25, "osaka": 10, "lima": 5}

STALLED_WRITER = "lima"
WRITER_TIMEOUT_S = 20
ROUND_S = 60
SILENT_S = 5  # the second of a round when the stalled writer stops noting
BACK_S = 50  # the second of a round when it notes again

BEHIND_MS = 1000
FIRST_LOOK_S = 2  # until then the writers join
PATIENCE_S = 5.0  # a controller restarts within it
RECENT_MS = 3000  # the writers note every second
REASON_PATTERN = re.compile("has held it back|excluded")
NUMBER_PATTERN = re.compile(r"\d\S*")
EXPECTED_WARNINGS = re.compile(
    " is excluded: | is fenced: "
    "|no response, retrying: |the controller responds again|notes not delivered"
)
WRITER_LOG = logging.getLogger("noted_time.writer")


def list_noting_writers(second: int) -> list[str]:
    """List the writers that note in the given second.

    >>> list_noting_writers(4), list_noting_writers(5)
    (['berlin', 'nairobi', 'osaka', 'lima'], ['berlin', 'nairobi', 'osaka'])
    """
    is_silent = SILENT_S <= second % ROUND_S < BACK_S
    return [writer for writer in WRITER_RATES if writer != STALLED_WRITER or not is_silent]


@command
def demo_stream(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The stream's name.")] = "demo",
    *,
    lasting: Annotated[
        int | None, duration("How long to write, such as 60s. Default: until Ctrl-C.", "--for")
    ] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Write a small live stream, to have something to look at within ten seconds.

    Four writers note every second. Once a minute one stalls, and the watermark waits until it times
    out. Each change is printed as the controller explains it. Without an answer for 5s, the status
    is 69.

    Try it:  noted-time demo-stream --for 60s
    """
    with closing(Transport(url, token=token)) as transport:
        _create(transport, name)
        say(f"{name} is running. Look at it:  {transport.controllers.urls[0]}/#/streams/{name}")
        say(f"Or:  {name_program()} explain {name}")
        with _open_fleet(name, url, token) as fleet:
            with suppress(KeyboardInterrupt):
                _play(fleet, lasting, Observer(transport, name))
            for client in fleet.values():
                client.idle()
            for client in fleet.values():
                client.flush(PATIENCE_S)
    say(f"{name} stays as it is, its writers idle.")
    say(f"To remove it:  {name_program()} stream delete {name}")


@contextmanager
def _open_fleet(name: str, url: str, token: str | None) -> Iterator[dict[str, WriterClient]]:
    """Open the writers, and close them without waiting for their last notes."""
    WRITER_LOG.addFilter(_is_unexpected)
    fleet = {
        writer: WriterClient(name, writer, controller=url, token=token) for writer in WRITER_RATES
    }
    try:
        yield fleet
    finally:
        for client in fleet.values():
            with suppress(NotedTimeError):
                client.close(0.0)
        WRITER_LOG.removeFilter(_is_unexpected)


def _is_unexpected(warning: logging.LogRecord) -> bool:
    """Hide the exclusion of a writer, which is the demo, and faults that end it with an error."""
    return EXPECTED_WARNINGS.search(warning.getMessage()) is None


def _create(transport: Transport, name: str) -> None:
    try:
        stream = transport.ask(Question("GET", stream_path(name), answer=StreamAnswer))
    except UnknownStream:
        settings = {
            "writer_timeout_ms": WRITER_TIMEOUT_S * 1000,
            "expected_writers": list(WRITER_RATES),
        }
        transport.ask(Question("PUT", stream_path(name), body=settings))
    else:
        if stream.expected_writers != tuple(WRITER_RATES):
            raise Rejected(
                f"there is a stream {name!r} already, which demo-stream did not create: use "
                "another name"
            )
        _warn_of_other_demo(transport, name)


def _warn_of_other_demo(transport: Transport, name: str) -> None:
    page = transport.ask(Question("GET", stream_path(name, "writers"), answer=WritersPage))
    live_rows = [row for row in page.writers if row.state == "live"]
    if any(page.now - row.noted_at < RECENT_MS for row in live_rows):
        say(
            f"The writers of {name} note at this moment. If another demo-stream runs, this one "
            "takes over its writers, and that one ends."
        )


class Observer:
    """Prints how the controller explains a stream, after each change."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport = transport
        self._question = Question("GET", stream_path(name, "explain"), answer=Explanation)
        self._seen = "", ""
        self._unanswered_since: float | None = None

    def look(self, second: int) -> None:
        """Print the first sentence of the explanation and its reason, if they changed.

        Raises `Unreachable` if no controller has answered for `PATIENCE_S`.
        """
        asked_at = clock.monotonic()
        try:
            explanation = self._transport.ask(self._question)
        except Unreachable:
            if self._unanswered_since is None:
                self._unanswered_since = asked_at
            if clock.monotonic() - self._unanswered_since >= PATIENCE_S:
                raise
            return
        self._unanswered_since = None
        first, *later_sentences = explanation.sentences
        reason = next(
            (sentence for sentence in later_sentences if REASON_PATTERN.search(sentence)), ""
        )
        explained_state = explanation.condition, NUMBER_PATTERN.sub("", reason)
        if explained_state == self._seen:
            return
        self._seen = explained_state
        say(f"{second // 60}:{second % 60:02}  {first} {reason}".rstrip())


def _play(fleet: dict[str, WriterClient], lasting_ms: int | None, observer: Observer) -> None:
    """Continue each writer from its position at the controller."""
    for client in fleet.values():
        client.join()
        client.flush()
    began = clock.monotonic()
    seconds = count() if lasting_ms is None else range(lasting_ms // 1000)
    for second in seconds:
        clock.sleep(max(0.0, began + second - clock.monotonic()))
        now = int(clock.time() * 1000) - BEHIND_MS
        for segment, (writer, rows) in enumerate(WRITER_RATES.items()):
            if writer in list_noting_writers(second):
                client = fleet[writer]
                end = client.position.get(segment, 0) + rows
                client.note_time(now, {segment: end}, max_time=now)
        if second >= FIRST_LOOK_S:
            observer.look(second)
