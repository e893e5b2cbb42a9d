"""`noted-time watch`: the time strip of a stream, live in the terminal."""

from __future__ import annotations

import os
import signal
import sys
import time as clock
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from controller.cli.api_client import MOST_ROWS, ApiClient, connected, stream_path
from controller.cli.options import DEFAULT_URL, Domain, Limit, Stream, Token, Url
from controller.cli.output import told_plainly
from controller.cli.strip import drawn, out_of_date
from controller.cli.strip_values import Strip, domain_of, strip_of
from noted_time import Conflict, Rejected, Unreachable
from noted_time.values import duration_ms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from rich.console import RenderableType

LEAST_MS = 100
PATIENCE_MS = 3000
"""An answer that is so late is said to be missing."""

PLAIN_WIDTH = 160
AROUND = 10
"""Lines of the terminal that are not writers."""

TERMINATED = 128 + signal.SIGTERM


def watch(  # noqa: PLR0913 - one parameter for each flag
    stream: Stream,
    *,
    domain: Domain = None,
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="How often to ask, at least 100ms.")
    ] = "1s",
    limit: Limit = 20,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Watch a stream: its watermark, who holds it, and a bar of noted time for each writer.

    Live until Ctrl-C. While no controller answers it says so, shows what was known last, and goes
    on trying. Where the output is no terminal, it prints this once and ends.

    Try it:  noted-time watch flights --every 2s
    """
    with told_plainly(), connected(url, token) as client:
        every_ms = duration_ms(every)
        if every_ms < LEAST_MS:
            raise Rejected(f"--every {every} is too short: use 100ms or more")
        watched = Watched(client, stream, domain, limit)
        console = console_for_strips()
        if console.is_dumb_terminal or not sys.stdout.isatty():
            watched.ask()
            console.print(watched.shown(console, every_ms=every_ms))
        else:
            _live(watched, console, every_ms)


def console_for_strips() -> Console:
    """Return a console that takes no text for markup; off a terminal it is wide enough for all."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    width = None if known else PLAIN_WIDTH
    return Console(width=width, markup=False, highlight=False, emoji=False)


@dataclass(slots=True)
class Watched:
    """One domain of a stream as it was last known, and what is wrong since."""

    client: ApiClient
    stream: str
    domain: str | None
    limit: int
    strip: Strip | None = None
    answered_at: float = 0.0
    trouble: str | None = None

    def ask(self) -> None:
        """Get the strip; raises what the calls raise and is as it was then."""
        stream = self.client.ask("GET", stream_path(self.stream))
        domain = domain_of(stream, self.domain)
        query = {"domain": domain, "limit": min(self.limit, MOST_ROWS)}
        explained, writers = (
            self.client.ask("GET", stream_path(self.stream, asked), query=query)
            for asked in ("explain", "writers")
        )
        self.strip = strip_of(stream, explained, writers, domain)
        self.answered_at, self.trouble = clock.monotonic(), None

    def try_to_ask(self) -> float:
        """Get the strip, or remember why not; returns how long the controller asks to be left."""
        try:
            self.ask()
        except (Conflict, Unreachable) as error:
            self.trouble = str(error)
            return getattr(error, "retry_after_s", None) or 0.0
        return 0.0

    def shown(self, console: Console, *, every_ms: int) -> RenderableType:
        """Return what is known, and how old it is where that is worth saying."""
        if self.strip is None:
            return Text(f"Waiting for an answer. {self.trouble or ''}")
        rows = console.height - AROUND if console.is_terminal else self.limit
        strip = drawn(self.strip, zone=None, width=console.width, rows=max(1, rows))
        age_ms = int((clock.monotonic() - self.answered_at) * 1000)
        if self.trouble is None and age_ms < every_ms + PATIENCE_MS:
            return strip
        return Group(strip, Text(), out_of_date(age_ms, self.trouble))


def _live(watched: Watched, console: Console, every_ms: int) -> None:
    """Show the strip until Ctrl-C, on a screen of its own; then leave the last one behind."""
    live = Live(
        console=console,
        screen=True,
        get_renderable=lambda: watched.shown(console, every_ms=every_ms),
    )
    with _ended_in_order():
        try:
            live.start()
            while True:
                due = clock.monotonic() + every_ms / 1000
                due += watched.try_to_ask()
                live.refresh()
                clock.sleep(max(0.0, due - clock.monotonic()))
        except KeyboardInterrupt:
            pass
        finally:
            live.stop()
        console.print(watched.shown(console, every_ms=every_ms))


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Restore the terminal on SIGTERM too."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(TERMINATED)
