"""`noted-time demo-stream` plays a small live stream; `noted-time demo` runs the examples."""

from __future__ import annotations

import time as clock
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer

from controller.cli import demo_script
from controller.cli.calling import Call, Json, calls
from controller.cli.demo_script import (
    GROUP,
    QUICK,
    READER,
    SETTINGS,
    SLOW,
    TIMEOUT_S,
    WRITERS,
    Beginning,
)
from controller.cli.options import option
from controller.cli.output import ended_in_a_sentence, say
from noted_time import Rejected, UnknownStream, UnknownWriter, Unreachable
from noted_time.client import stream_path
from noted_time.values import NotesRefused, duration_ms

app = typer.Typer(
    name="demo", help="Examples on real data that run here and now.", no_args_is_help=True
)


@partial(calls, prints=False)
def demo_stream(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call the stream.")] = "demo",
    *,
    duration: Annotated[
        str | None,
        option("DURATION", "As 60s; else until Ctrl-C.", "--for"),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Play into a stream that demo-stream did not create."),
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


def _prepare(call: Call, name: str, *, again: bool) -> bool:
    """Make the stream unless it is there; returns whether it was made for this."""
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


def _beginning(call: Call, name: str) -> Beginning:
    """Return where to begin: no writer's time or position may go back."""
    rows = []
    for writer in WRITERS:
        with suppress(UnknownWriter):
            rows.append(call.ask("GET", stream_path(name, "writers", writer)))
    times = {row["writer"]: max(row["times"].values()) for row in rows if row["times"]}
    position = {int(segment): end for row in rows for segment, end in row["position"].items()}
    return Beginning(int(clock.time()) * 1000, times, position)


def _open(name: str, url: str, duration: str | None) -> None:
    page = f"{url}/#/streams/{name}"
    until = "until Ctrl-C" if duration is None else f"for {duration}"
    say(f"{name} plays {until}: {', '.join(QUICK)} note every second, {SLOW} now and then.")
    say(f"A writer that holds the watermark may be silent for {TIMEOUT_S}s.")
    say(f"Look at it:  {page}")
    say(f"or           noted-time watch {name}")


def _farewell(name: str, *, ours: bool) -> list[str]:
    """Return what to say at the end: what stays, and how to remove it."""
    stays = f"{name} stays as it is, its writers idle."
    if ours:
        return [stays, f"To remove it:  noted-time stream delete {name}"]
    removals = [f"noted-time remove {name} {writer}" for writer in WRITERS]
    return [stays, "It was there before; to remove the writers that played:", *removals]


@dataclass(slots=True)
class Player:
    """Sends what the script says, second by second, also where a controller is away for a while."""

    call: Call
    name: str
    beginning: Beginning
    unsent: dict[str, Json] = field(default_factory=dict)
    played: bool = False
    away: bool = False

    def play(self, for_s: float | None) -> None:
        """Play for so many seconds, or until it is interrupted."""
        began = clock.monotonic()
        second = 0
        while for_s is None or second < for_s:
            clock.sleep(max(0.0, began + second - clock.monotonic()))
            scene = demo_script.scene(second, self.beginning)
            if scene.says is not None:
                say(f"{second // 60}:{second % 60:02}  {scene.says}")
            self.unsent |= {note["writer"]: note for note in scene.notes}
            self._send(scene.read)
            second += 1

    def leave(self) -> None:
        """Have the writers go idle and the reader offline, so that nobody is waited for."""
        if not self.played:
            return
        self._note([{"writer": writer, "state": "idle"} for writer in WRITERS])
        position = self.call.ask("GET", stream_path(self.name, "reader-groups", GROUP))
        path = stream_path(self.name, "reader-groups", GROUP, "readers", READER, "offline")
        self.call.ask("POST", path, body={"position": position["position"]})

    def _send(self, read: Json) -> None:
        """Send the notes not yet sent and the reader's position; what is not answered waits."""
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
        """Post the notes; raises `Rejected` where one is refused."""
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
        command = _example("examples.flights.cli").app
    command(context.args, prog_name="noted-time demo flights")


def _example(name: str) -> Any:  # noqa: ANN401 - a module
    """Return a module of the examples, by name as they lie above the controller."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise Rejected(
            f"the examples are not installed ({missing.name} is missing): "
            "clone the repository and run `./run demo` in it"
        ) from missing
