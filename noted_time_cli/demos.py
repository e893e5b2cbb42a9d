"""`noted-time demo-stream` plays a small live stream; `noted-time demo` runs the examples.

Three writers note every second, a second or two behind the clock. The fourth, `SLOW`, notes every
ten seconds and advances at a tenth of the clock's pace, so it holds the watermark, minutes behind.
Then it is silent until it has timed out, comes back late, and catches up: that is one round.
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, NamedTuple

import typer

from noted_time import Rejected, UnknownStream, UnknownWriter, Unreachable
from noted_time.client import stream_path
from noted_time.values import NotesRefused, duration_ms
from noted_time_cli.calls.calling import Caller, Json, calls
from noted_time_cli.terminal.options import option
from noted_time_cli.terminal.output import ended_in_a_sentence, say


class Role(NamedTuple):
    """The part of one writer: its segment, how much it writes, and its lag at the start."""

    segment: int
    rows_per_second: int
    lag_ms: int


SLOW = "lima"
WRITERS = {
    "berlin": Role(0, 40, 1000),
    "nairobi": Role(1, 25, 2000),
    "osaka": Role(2, 10, 1500),
    SLOW: Role(3, 5, 5000),
}
GROUP, READER, READER_LAG_S = "hourly-counts", "counts-0", 15

TIMEOUT_S = 20
SETTINGS: Json = {"writer_timeout_ms": TIMEOUT_S * 1000, "expected_writers": list(WRITERS)}
"""Of the stream; its expected writers show `demo-stream` that it created the stream."""

ROUND_S, FIRST_S = 300, 210
"""How long a round is, and at which second of it the play begins."""

EVERY_S, LAST_S, BACK_S = 10, 240, 290
"""How often the slow writer notes, up to `LAST_S` of a round; it notes again at `BACK_S`."""

PACE_MS = 100
"""How far the slow writer's time advances in a second."""

SAYINGS = {
    0: f"{SLOW} has caught up. From here on it falls behind again.",
    LAST_S + EVERY_S: f"{SLOW} has fallen silent: it times out in {TIMEOUT_S - EVERY_S}s.",
    LAST_S + TIMEOUT_S + 1: f"{SLOW} has timed out: the watermark advances without it.",
    BACK_S: f"{SLOW} is back, below the watermark, which waits until it has caught up.",
}


@dataclass(frozen=True, slots=True)
class Beginning:
    """When the play begins (Unix ms), and the times and offsets that an earlier one left."""

    at: int
    times: Mapping[str, int] = field(default_factory=dict)
    position: Mapping[int, int] = field(default_factory=dict)


class Scene(NamedTuple):
    """The events of one second: the notes, the reader's position, and a comment."""

    notes: list[Json]
    read: dict[str, int]
    says: str | None


def scene(second: int, beginning: Beginning) -> Scene:
    """Return what happens `second` seconds after the beginning; no time goes back, nor an offset.

    >>> first = scene(0, Beginning(at=1357034400000))
    >>> [(note["writer"], (1357034400000 - note["time"]) // 1000) for note in first.notes]
    [('berlin', 1), ('nairobi', 2), ('osaka', 1), ('lima', 194)]
    """
    within = (second + FIRST_S) % ROUND_S
    slow_notes = within == BACK_S or (within <= LAST_S and within % EVERY_S == 0)
    notes = []
    for name in WRITERS:
        if name != SLOW or slow_notes:
            time = beginning.at + _ms(name, second)
            time = max(time, beginning.times.get(name, time))
            position = _written(name, second, beginning)
            notes.append({"writer": name, "time": time, "position": position, "max_time": time})
    read: dict[str, int] = {}
    for name in WRITERS:
        read |= _written(name, second - READER_LAG_S, beginning)
    says = f"{SLOW} lags minutes behind the others: it holds the watermark."
    return Scene(notes, read, SAYINGS.get(within) if second else says)


def _ms(name: str, second: int) -> int:
    """Return the writer's time at a second, in ms from the beginning."""
    if name != SLOW:
        return second * 1000 - WRITERS[name].lag_ms
    rounds, within = divmod(second + FIRST_S, ROUND_S)
    noted = BACK_S if within >= BACK_S else min(within // EVERY_S * EVERY_S, LAST_S)
    return (rounds * ROUND_S - FIRST_S) * 1000 - WRITERS[name].lag_ms + noted * PACE_MS


def _written(name: str, second: int, beginning: Beginning) -> dict[str, int]:
    """Return how far the writer's segment is written."""
    segment, rows, _ = WRITERS[name]
    since_ms = _ms(name, max(0, second)) - _ms(name, 0)
    return {str(segment): beginning.position.get(segment, 0) + rows * since_ms // 1000}


app = typer.Typer(
    name="demo", help="Examples on real data that run here and now.", no_args_is_help=True
)


@partial(calls, prints=False)
def demo_stream(
    call: Caller,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call the stream.")] = "demo",
    *,
    duration: Annotated[
        str | None, option("DURATION", "For example 60s; by default until Ctrl-C.", "--for")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Play into a stream that demo-stream did not create.")
    ] = False,
) -> None:
    """Play a small live stream on a controller: something to look at within ten seconds.

    Four writers note; one of them lags minutes behind and holds the watermark. Now and then it is
    silent, times out, and comes back. A reader follows.

    Try it:  noted-time demo-stream --for 60s
    """
    for_s = None if duration is None else duration_ms(duration) / 1000
    ours = _prepare(call, name, again=again)
    _open(name, call.transport.controllers.urls[0], duration)
    player = Player(call, name, _beginning(call, name))
    with suppress(KeyboardInterrupt):
        player.play(for_s)
    for line in _farewell(name, ours=ours):
        say(line)
    player.leave()


def _prepare(call: Caller, name: str, *, again: bool) -> bool:
    """Create the stream unless it exists; returns whether `demo-stream` created it."""
    try:
        found = call.ask("GET", stream_path(name))
    except UnknownStream:
        call.ask("PUT", stream_path(name), body=SETTINGS)
        return True
    ours: bool = found["expected_writers"] == list(WRITERS)
    if not (ours or again):
        raise Rejected(
            f"there is a stream {name!r} already, which demo-stream did not create: use another "
            f"name, or --again to have {', '.join(WRITERS)} note in it anyway"
        )
    return ours


def _beginning(call: Caller, name: str) -> Beginning:
    """Return where the last play ended: no writer's time or position may go back."""
    rows = []
    for writer in WRITERS:
        with suppress(UnknownWriter):
            rows.append(call.ask("GET", stream_path(name, "writers", writer)))
    times = {row["writer"]: max(row["times"].values()) for row in rows if row["times"]}
    position = {int(segment): end for row in rows for segment, end in row["position"].items()}
    return Beginning(int(clock.time()) * 1000, times, position)


def _open(name: str, url: str, duration: str | None) -> None:
    until = "until Ctrl-C" if duration is None else f"for {duration}"
    quick = ", ".join(each for each in WRITERS if each != SLOW)
    say(f"{name} plays {until}: {quick} note every second, {SLOW} now and then.")
    say(f"A writer that holds the watermark may be silent for {TIMEOUT_S}s.")
    say(f"Look at it:  {url}/#/streams/{name}")
    say(f"or           noted-time watch {name}")


def _farewell(name: str, *, ours: bool) -> list[str]:
    """Return what stays at the end, and how to remove it."""
    stays = f"{name} stays as it is, its writers idle."
    if ours:
        return [stays, f"To remove it:  noted-time stream delete {name}"]
    removals = [f"noted-time remove {name} {writer}" for writer in WRITERS]
    return [stays, "It was there before; to remove the writers that played:", *removals]


@dataclass(slots=True)
class Player:
    """Plays the scenes, second by second, also while no controller answers."""

    call: Caller
    name: str
    beginning: Beginning
    unsent: dict[str, Json] = field(default_factory=dict)
    played: bool = False
    away: bool = False

    def play(self, for_s: float | None) -> None:
        """Play for that many seconds, or until it is interrupted."""
        began = clock.monotonic()
        second = 0
        while for_s is None or second < for_s:
            clock.sleep(max(0.0, began + second - clock.monotonic()))
            now = scene(second, self.beginning)
            if now.says is not None:
                say(f"{second // 60}:{second % 60:02}  {now.says}")
            self.unsent |= {note["writer"]: note for note in now.notes}
            self._send(now.read)
            second += 1

    def leave(self) -> None:
        """Let the writers go idle and the reader offline: the stream waits for none of them."""
        if not self.played:
            return
        self._note([{"writer": writer, "state": "idle"} for writer in WRITERS])
        position = self.call.ask("GET", stream_path(self.name, "reader-groups", GROUP))
        path = stream_path(self.name, "reader-groups", GROUP, "readers", READER, "offline")
        self.call.ask("POST", path, body={"position": position["position"]})

    def _send(self, read: Json) -> None:
        """Send all unsent notes and the reader's position; what is not answered stays unsent."""
        path = stream_path(self.name, "reader-groups", GROUP, "readers", READER)
        try:
            self._note(list(self.unsent.values()))
            self.unsent.clear()
            self.call.ask("PUT", path, body={"position": read})
            self.played = True
        except Unreachable as error:
            if not self.away:
                say(f"noted-time: {error}; trying again")
        self.away = bool(self.unsent)

    def _note(self, notes: list[Json]) -> None:
        """Post the notes; raises `Rejected` if one is refused."""
        try:
            path = stream_path(self.name, "notes")
            answer = self.call.ask("POST", path, body={"notes": notes})
        except NotesRefused as refused:
            answer = dict(refused.answer)
        for note, result in zip(notes, answer["results"], strict=True):
            if result["status"] != "accepted":
                raise Rejected(
                    f"a note of {note['writer']} was refused as {result['status']}: "
                    f"does another demo-stream play in {self.name}?"
                )


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def flights(context: typer.Context) -> None:
    """Replay a month of real flights: rows lost and latency, noted time against guessed delays."""
    with ended_in_a_sentence():
        try:
            from examples.flights.cli import app as command
        except ModuleNotFoundError as missing:
            raise Rejected(
                f"the examples are not installed ({missing.name} is missing): "
                "clone the repository and run `./run demo` in it"
            ) from missing
    command(context.args, prog_name="noted-time demo flights")
