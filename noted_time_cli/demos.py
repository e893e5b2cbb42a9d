"""`noted-time demo-stream` plays a small live stream; `noted-time demo` runs the demo.

A fleet of writers notes every second, a second behind the clock. Once a minute one of them stalls:
it holds the watermark until it has timed out, and comes back.
"""

from __future__ import annotations

import time as clock
from contextlib import ExitStack, closing, suppress
from itertools import count
from typing import Annotated

import typer

from noted_time import Rejected, UnknownStream
from noted_time.client import Question, stream_path
from noted_time.client.transport import Transport
from noted_time_cli.terminal.flags import command
from noted_time_cli.terminal.options import DEFAULT_URL, Token, Url, duration
from noted_time_cli.terminal.output import report_errors, say
from writer_client import WriterClient

WRITER_RATES = {"berlin": 40, "nairobi": 25, "osaka": 10, "lima": 5}
"""How many rows each writer appends in a second, to a segment of its own."""

STALLED_WRITER, WRITER_TIMEOUT_S, ROUND_S = "lima", 20, 60
SILENT_S, BACK_S = 5, 50
"""From and up to which second of a round the writer that stalls does not note."""

STALL_MESSAGES = {
    SILENT_S: f"{STALLED_WRITER} has stalled: the watermark waits for it, for {WRITER_TIMEOUT_S}s.",
    SILENT_S
    + WRITER_TIMEOUT_S: f"{STALLED_WRITER} has timed out: the watermark advances without it.",
    BACK_S: f"{STALLED_WRITER} is back, and counts again.",
}
BEHIND_MS = 1000


def list_noting_writers(second: int) -> list[str]:
    """Return the writers that note in a second of the play.

    >>> list_noting_writers(4), list_noting_writers(5)
    (['berlin', 'nairobi', 'osaka', 'lima'], ['berlin', 'nairobi', 'osaka'])
    """
    is_silent = SILENT_S <= second % ROUND_S < BACK_S
    return [each for each in WRITER_RATES if each != STALLED_WRITER or not is_silent]


app = typer.Typer(
    name="demo", help="Examples on real data that run here and now.", no_args_is_help=True
)


@command
def demo_stream(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call the stream.")] = "demo",
    *,
    lasting: Annotated[
        int | None, duration("For example 60s; by default until Ctrl-C.", "--for")
    ] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Play a small live stream on a controller: something to look at within ten seconds.

    Four writers note every second. Once a minute one of them stalls: the watermark waits for it
    until it has timed out, and it comes back.

    Try it:  noted-time demo-stream --for 60s
    """
    with closing(Transport(url, token=token)) as transport:
        _create(transport, name)
        say(f"{name} plays. Look at it:  {transport.controllers.urls[0]}/#/streams/{name}")
        say(f"Or:  noted-time watch {name}")
    with ExitStack() as stack:
        fleet = {
            each: stack.enter_context(WriterClient(url, name, each, token=token))
            for each in WRITER_RATES
        }
        with suppress(KeyboardInterrupt):
            _play(fleet, lasting)
        for client in fleet.values():
            client.idle()
    say(f"{name} stays as it is, its writers idle.")
    say(f"To remove it:  noted-time stream delete {name}")


def _create(transport: Transport, name: str) -> None:
    """Create the stream; raises `Rejected` for one whose expected writers are not the fleet."""
    try:
        found = transport.ask(Question("GET", stream_path(name)))
    except UnknownStream:
        settings = {
            "writer_timeout_ms": WRITER_TIMEOUT_S * 1000,
            "expected_writers": list(WRITER_RATES),
        }
        transport.ask(Question("PUT", stream_path(name), body=settings))
    else:
        if found["expected_writers"] != list(WRITER_RATES):
            raise Rejected(
                f"there is a stream {name!r} already, which demo-stream did not create: use "
                "another name"
            )


def _play(fleet: dict[str, WriterClient], lasting_ms: int | None) -> None:
    """Note second by second, on from the position that each writer has at the controller."""
    for client in fleet.values():
        client.join()
        client.flush()
    began = clock.monotonic()
    for second in count() if lasting_ms is None else range(lasting_ms // 1000):
        clock.sleep(max(0.0, began + second - clock.monotonic()))
        if second % ROUND_S in STALL_MESSAGES:
            say(f"{second // 60}:{second % 60:02}  {STALL_MESSAGES[second % ROUND_S]}")
        now = int(clock.time() * 1000) - BEHIND_MS
        for segment, (writer, rows) in enumerate(WRITER_RATES.items()):
            if writer in list_noting_writers(second):
                client = fleet[writer]
                end = client.position.get(segment, 0) + rows
                client.note_time(now, {segment: end}, max_time=now)


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def flights(context: typer.Context) -> None:
    """Replay a month of real flights: rows lost and latency, noted time against guessed delays."""
    with report_errors():
        try:
            from demo.cli import app as command
        except ModuleNotFoundError as missing:
            raise Rejected(
                f"the demo is not installed ({missing.name} is missing): "
                "clone the repository and run `./run demo` in it"
            ) from missing
    command(context.args, prog_name="noted-time demo flights")
