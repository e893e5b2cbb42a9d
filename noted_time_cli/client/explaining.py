"""`noted-time explain` and `watch`."""

from __future__ import annotations

import json
import signal
import sys
import time as clock
from collections.abc import Callable
from functools import partial
from typing import Annotated

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from noted_time import Conflict, Unreachable
from noted_time.client import Json, stream_path
from noted_time.values import format_seconds, format_time
from noted_time_cli.client.caller import Caller, client_command
from noted_time_cli.terminal.options import (
    NO_VALUES,
    DomainOption,
    LimitOption,
    Stream,
    duration,
    option,
    parse_offsets,
)
from noted_time_cli.terminal.output import (
    Columns,
    build_table,
    create_console,
    echo,
    escape_controls,
    print_table,
)

HOLDER_COLUMNS: Columns = {
    "writer": "writer",
    "time": lambda each: format_time(each["time"]),
    "held for": lambda each: format_seconds(each["held_for_ms"]),
    "times out in": lambda each: format_seconds(each["times_out_in_ms"]),
    "lower without it": lambda each: format_time(each["lower_without"]),
}

SEGMENT_COLUMNS: Columns = {
    "segment": "segment",
    "read to": "offset",
    "needed to": "needed",
    "noted by": "writer",
}

LEAST_MS = 100
TERMINATED_STATUS = 128 + signal.SIGTERM


@client_command
def explain(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    stream: Stream,
    *,
    domain: DomainOption = None,
    exclude: Annotated[
        list[str], option("WRITER", "Explain as if this writer were excluded. Repeatable.")
    ] = NO_VALUES,
    writer_timeout: Annotated[
        int | None, duration("Explain as if this were the writer timeout.", least=1)
    ] = None,
    position: Annotated[
        list[str],
        option("SEGMENT:OFFSET", "Explain for a reader that has read to here. Repeatable."),
    ] = NO_VALUES,
) -> None:
    """Explain whether the watermark advances, and why not.

    The sentences name its holders and the excluded writers, when it advances
    without an action, and where it would be without the holders.

    If the watermark holds, a table of the holders follows. With --position, the sentences also say
    which segments hold the reader.

    Nothing is changed, even with --exclude and --writer-timeout.

    Try it:  noted-time explain flights --exclude UA
    """
    reached = json.dumps(parse_offsets(position, "--position")) if position else None
    query = {"domain": domain, "exclude": exclude, "writer_timeout_ms": writer_timeout}
    query["position"] = reached
    explanation = call.ask("GET", stream_path(stream, "explain"), query=query)
    if not call.print_json(explanation):
        _print(explanation)


@partial(client_command, prints=False)
def watch(
    call: Caller,
    stream: Stream,
    *,
    domain: DomainOption = None,
    every: Annotated[
        int, duration("Time between two updates, at least 100ms.", default="1s", least=LEAST_MS)
    ] = 1000,
    limit: LimitOption = 20,
) -> None:
    """Show the output of `explain`, and update it until Ctrl-C.

    If no controller answers, the last output stays and the command continues to try.

    Try it:  noted-time watch flights --every 2s
    """
    query = {"domain": domain, "limit": limit}
    look = partial(call.ask, "GET", stream_path(stream, "explain"), query=query)
    if create_console().is_dumb_terminal or not sys.stdout.isatty():
        _print(look())
    else:
        _show_live(look, every / 1000)


def _list_holders(explanation: Json) -> list[Json]:
    """List no holders while the watermark advances as usual."""
    if explanation["condition"] == "advancing":
        return []
    without = explanation["lower_without"]
    return [
        each | {"lower_without": without.get(each["writer"])} for each in explanation["waiting_for"]
    ]


def _print(explanation: Json) -> None:
    for sentence in explanation["sentences"]:
        echo(sentence)
    if (reader := explanation["reader"]) and reader["waiting_for"]:
        print_table(SEGMENT_COLUMNS, reader["waiting_for"])
    if holders := _list_holders(explanation):
        print_table(HOLDER_COLUMNS, holders)


def _show_live(look: Callable[[], Json], every_s: float) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED_STATUS))  # restores the screen
    shown: RenderableType = Text("Waiting for an answer.")
    answered_at = clock.monotonic()
    try:
        with Live(shown, console=create_console(), screen=True) as live:
            while True:
                pause_s = every_s
                try:
                    explanation = look()
                    sentences = Text("\n".join(map(escape_controls, explanation["sentences"])))
                    holders = _list_holders(explanation)
                    table = build_table(HOLDER_COLUMNS, holders) if holders else ""
                    shown = Group(sentences, table)
                    answered_at = clock.monotonic()
                    live.update(shown, refresh=True)
                except (Conflict, Unreachable) as error:
                    pause_s += getattr(error, "retry_after_s", None) or 0.0
                    age = format_seconds(int((clock.monotonic() - answered_at) * 1000))
                    notice = f"No answer for {age}, so this output is old. Trying again: {error}"
                    warning = Text(escape_controls(notice), "bold red")
                    live.update(Group(shown, warning), refresh=True)
                clock.sleep(pause_s)
    except KeyboardInterrupt:
        create_console().print(shown)
