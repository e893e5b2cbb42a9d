"""`noted-time explain` and `watch`: why the watermark is not advancing, once or as it changes."""

from __future__ import annotations

import json
import signal
import sys
import time as clock
from functools import partial
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from noted_time import Conflict, Rejected, Unreachable
from noted_time.client import Json, stream_path
from noted_time.values import UNIX_MS, duration_ms, shown_seconds, shown_time
from noted_time_cli.calls.calling import Caller, calls
from noted_time_cli.terminal.options import NONE, DomainOption, LimitOption, Stream, offsets, option
from noted_time_cli.terminal.output import console, echo, escaped, print_table, table

if TYPE_CHECKING:
    from noted_time_cli.terminal.output import Columns

HOLDERS: Columns = {
    "writer": "writer",
    "time": lambda each: shown_time(each["time"]),
    "held for": lambda each: shown_seconds(each["held_for_ms"]),
    "times out in": lambda each: shown_seconds(each["times_out_in_ms"]),
    "lower without it": lambda each: shown_time(each["lower_without"]),
}

SEGMENTS: Columns = {
    "segment": "segment",
    "read to": "offset",
    "needed to": "needed",
    "noted by": "writer",
}

LEAST_MS = 100
LAG_MS, LAG_STEPS = 900_000, 30
BARS = "▁▂▃▄▅▆▇█"
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
        str | None,
        option("DURATION", "What if this were the writers' timeout? Changes nothing."),
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
    timeout_ms = None if writer_timeout is None else duration_ms(writer_timeout)
    query = {"domain": domain, "exclude": exclude, "writer_timeout_ms": timeout_ms}
    query["position"] = json.dumps(offsets(position)) if position else None
    found = call.ask("GET", stream_path(stream, "explain"), query=query)
    if not call.prints(found):
        _print(found, found["sentences"])


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
    """Watch a stream: what `explain` says, kept up to date, and the lag of the last 15 minutes.

    Runs until Ctrl-C. While no controller answers it says so, shows what was known last, and
    continues trying. If the output is not a terminal, it prints this once and ends.

    Try it:  noted-time watch flights --every 2s
    """
    every_ms = duration_ms(every)
    if every_ms < LEAST_MS:
        raise Rejected(f"--every {every} is too short: use 100ms or more")
    query = {"domain": domain, "limit": limit}
    if console().is_dumb_terminal or not sys.stdout.isatty():
        _print(*_now(call, stream, query))
    else:
        _live(call, stream, query, every_ms / 1000)


def _now(call: Caller, stream: str, query: Json) -> tuple[Json, list[str]]:
    """Return the explanation, and its sentences with the lag."""
    found = call.ask("GET", stream_path(stream, "explain"), query=query)
    of_lag = {"domain": query["domain"], "from": found["now"] - LAG_MS, "points": 200}
    lag = lag_line(call.ask("GET", stream_path(stream, "history"), query=of_lag))
    return found, [*found["sentences"], *([lag] if lag else [])]


def lag_line(history: Json) -> str | None:
    """Return how far the watermark was behind the clock; `None` if its times are not Unix ms.

    >>> ten = 1357034400000
    >>> marks = [{"at": ten - 600_000, "lower": ten - 660_000}]
    >>> lag_line({"now": ten, "before": ten - 930_000, "points": marks})
    'Lag of the last 15 minutes: ▁▁▂▂▂▃▃▃▄▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇█, now 11m, at most 11m.'
    """
    now, lower, lags = history["now"], history["before"], list[int | None]()
    points = list(reversed(history["points"]))
    for moment in range(now - LAG_MS + LAG_MS // LAG_STEPS, now + 1, LAG_MS // LAG_STEPS):
        while points and points[-1]["at"] <= moment:
            lower = points.pop()["lower"]
        is_unix = lower is not None and lower in UNIX_MS
        lags.append(max(0, moment - lower) if is_unix else None)
    known = [lag for lag in lags if lag is not None]
    if not known or lags[-1] is None:
        return None
    most = max(1, *known)
    bars = "".join(" " if lag is None else BARS[lag * (len(BARS) - 1) // most] for lag in lags)
    return (
        f"Lag of the last {LAG_MS // 60_000} minutes: {bars}, now {shown_seconds(lags[-1])}, "
        f"at most {shown_seconds(most)}."
    )


def _holders(found: Json) -> list[Json]:
    """Return a row for each holder that is named."""
    without = found["lower_without"]
    return [each | {"lower_without": without.get(each["writer"])} for each in found["waiting_for"]]


def _print(found: Json, sentences: list[str]) -> None:
    for sentence in sentences:
        echo(sentence)
    if (reader := found.get("reader")) and reader["waiting_for"]:
        print_table(SEGMENTS, reader["waiting_for"])
    if found["waiting_for"]:
        print_table(HOLDERS, _holders(found))


def _live(call: Caller, stream: str, query: Json, every_s: float) -> None:
    """Show it until Ctrl-C, on a screen of its own; then leave the last state behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # so that the screen is restored
    shown: RenderableType = Text("Waiting for an answer.")
    answered_at = clock.monotonic()
    try:
        with Live(shown, console=console(), screen=True) as live:
            while True:
                pause_s = every_s
                try:
                    found, sentences = _now(call, stream, query)
                    said = Text("\n".join(map(escaped, sentences)))
                    shown = Group(said, table(HOLDERS, _holders(found)))
                    answered_at = clock.monotonic()
                    live.update(shown, refresh=True)
                except (Conflict, Unreachable) as error:
                    pause_s += getattr(error, "retry_after_s", None) or 0.0
                    age = shown_seconds(int((clock.monotonic() - answered_at) * 1000))
                    says = f"No answer for {age}; what is shown is that old. Trying again: {error}"
                    live.update(Group(shown, Text(escaped(says), "bold red")), refresh=True)
                clock.sleep(pause_s)
    except KeyboardInterrupt:
        console().print(shown)
