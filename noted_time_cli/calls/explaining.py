"""`noted-time explain` and `watch`: why the watermark is not advancing, once or as it changes."""

from __future__ import annotations

import json
import signal
import sys
import time as clock
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from noted_time import Conflict, Rejected, Unreachable
from noted_time.client import Json, stream_path
from noted_time.values import format_seconds, format_time, parse_duration
from noted_time_cli.calls.calling import Caller, calls
from noted_time_cli.terminal.options import NONE, DomainOption, LimitOption, Stream, offsets, option
from noted_time_cli.terminal.output import console, echo, escaped, print_table, table

if TYPE_CHECKING:
    from noted_time_cli.terminal.output import Columns

HOLDERS: Columns = {
    "writer": "writer",
    "time": lambda each: format_time(each["time"]),
    "held for": lambda each: format_seconds(each["held_for_ms"]),
    "times out in": lambda each: format_seconds(each["times_out_in_ms"]),
    "lower without it": lambda each: format_time(each["lower_without"]),
}

SEGMENTS: Columns = {
    "segment": "segment",
    "read to": "offset",
    "needed to": "needed",
    "noted by": "writer",
}

LEAST_MS = 100
TERMINATED = 128 + signal.SIGTERM


@calls
def explain(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    stream: Stream,
    *,
    domain: DomainOption = None,
    exclude: Annotated[
        list[str],
        option("WRITER", "What if it were excluded? Changes nothing; several may be given."),
    ] = NONE,
    writer_timeout: Annotated[
        str | None, option("DURATION", "What if this were the writers' timeout? Changes nothing.")
    ] = None,
    position: Annotated[
        list[str],
        option("SEGMENT:OFFSET", "What holds a reader that has read so far? Several may be given."),
    ] = NONE,
) -> None:
    """Explain why the watermark is not advancing: who holds it, since when, and what without it.

    In sentences first: who holds it, why the others do not, when it advances by itself, where it
    would be without the holders, and who is excluded. Then the holders as a table.

    Of a reader at a position it says which segments hold it back, if it waits for no writer.

    Try it:  noted-time explain flights --exclude UA
    """
    timeout_ms = None if writer_timeout is None else parse_duration(writer_timeout)
    query = {"domain": domain, "exclude": exclude, "writer_timeout_ms": timeout_ms}
    query["position"] = json.dumps(offsets(position)) if position else None
    found = call.ask("GET", stream_path(stream, "explain"), query=query)
    if not call.prints(found):
        _print(found)


@partial(calls, prints=False)
def watch(
    call: Caller,
    stream: Stream,
    *,
    domain: DomainOption = None,
    every: Annotated[
        str, option("DURATION", "How often to ask, at least 100ms.", default=True)
    ] = "1s",
    limit: LimitOption = 20,
) -> None:
    """Watch a stream: what `explain` says, kept up to date.

    Runs until Ctrl-C. While no controller answers it says so, shows what was known last, and
    continues trying. If the output is not a terminal, it prints this once and ends.

    Try it:  noted-time watch flights --every 2s
    """
    every_ms = parse_duration(every)
    if every_ms < LEAST_MS:
        raise Rejected(f"--every {every} is too short: use 100ms or more")
    query = {"domain": domain, "limit": limit}
    look = partial(call.ask, "GET", stream_path(stream, "explain"), query=query)
    if console().is_dumb_terminal or not sys.stdout.isatty():
        _print(look())
    else:
        _live(look, every_ms / 1000)


def _holders(found: Json) -> list[Json]:
    """Return a row for each holder that is named."""
    without = found["lower_without"]
    return [each | {"lower_without": without.get(each["writer"])} for each in found["waiting_for"]]


def _print(found: Json) -> None:
    for sentence in found["sentences"]:
        echo(sentence)
    if (reader := found["reader"]) and reader["waiting_for"]:
        print_table(SEGMENTS, reader["waiting_for"])
    if found["waiting_for"]:
        print_table(HOLDERS, _holders(found))


def _live(look: Callable[[], Json], every_s: float) -> None:
    """Show it until Ctrl-C, on a screen of its own; then leave the last state behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # so that the screen is restored
    shown: RenderableType = Text("Waiting for an answer.")
    answered_at = clock.monotonic()
    try:
        with Live(shown, console=console(), screen=True) as live:
            while True:
                pause_s = every_s
                try:
                    found = look()
                    said = Text("\n".join(map(escaped, found["sentences"])))
                    shown = Group(said, table(HOLDERS, _holders(found)))
                    answered_at = clock.monotonic()
                    live.update(shown, refresh=True)
                except (Conflict, Unreachable) as error:
                    pause_s += getattr(error, "retry_after_s", None) or 0.0
                    age = format_seconds(int((clock.monotonic() - answered_at) * 1000))
                    says = f"No answer for {age}; what is shown is that old. Trying again: {error}"
                    live.update(Group(shown, Text(escaped(says), "bold red")), refresh=True)
                clock.sleep(pause_s)
    except KeyboardInterrupt:
        console().print(shown)
