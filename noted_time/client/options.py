"""What commands have that run until they are stopped: flags, beginning and end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from typer.models import OptionInfo

from noted_time.client.controllers import VARIABLE as TOKEN_VARIABLE
from noted_time.client.rounds import Rounds
from noted_time.values import NotedTimeError, Rejected, Unreadable, duration_ms

DEFAULT_URL = "http://127.0.0.1:7464"


def flag(help_: str, *, name: str | None = None, metavar: str = "DURATION") -> OptionInfo:
    """Return a flag without a default."""
    names = [] if name is None else [name]
    option: OptionInfo = typer.Option(*names, metavar=metavar, help=help_, show_default=False)
    return option


Lasting = Annotated[
    str | None,
    flag("Stop after this long; 0s looks once. By default it runs until Ctrl-C.", name="--for"),
]
Bootstrap = Annotated[
    str, typer.Argument(metavar="BOOTSTRAP", help="The brokers, as `host:port,host:port`.")
]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
StreamOfTopic = Annotated[
    str | None, flag("The stream's name, if it is not the topic's.", metavar="STREAM")
]
Config = Annotated[
    Path | None,
    flag("Properties of librdkafka, one `name=value` a line: security.", metavar="FILE"),
]
Url = Annotated[str, typer.Option(envvar="NOTED_TIME_URL", help="The controller to call.")]
Token = Annotated[
    str | None,
    typer.Option(
        envvar=TOKEN_VARIABLE,
        help="Needed once a token exists: see `noted-time token`.",
        show_default=False,
    ),
]


def milliseconds(duration: str | None) -> int | None:
    """Return a duration that may be left out; raises `Unreadable`."""
    return None if duration is None else duration_ms(duration)


def run_for(rounds: Rounds, lasting_ms: int | None) -> None:
    """Look once, for so long, or until a signal."""
    if lasting_ms == 0:
        rounds.look()
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: rounds.stop())
    timer = threading.Timer((lasting_ms or 0) / 1000, rounds.stop)
    timer.daemon = True
    if lasting_ms is not None:
        timer.start()
    try:
        rounds.run()
    finally:
        timer.cancel()


def kafka_config(bootstrap: str, file: Path | None) -> dict[str, str]:
    """Return the configuration of a client of librdkafka, with the properties of a file.

    It has `name=value` a line, and comments that begin with #. Raises `Rejected` naming the line
    that is neither, or what librdkafka refuses.
    """
    if file is None:
        return {"bootstrap.servers": bootstrap}
    from confluent_kafka import KafkaException  # noqa: PLC0415 - the extra `kafka`
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    found: dict[str, str] = {}
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Rejected(f"{file} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if name.startswith("#") or not (name or equals):
            continue
        if not (name and equals):
            raise Rejected(f"{file}, line {number}: write it as name=value")
        found[name] = value
    try:
        AdminClient({"log_level": 2, **found})
    except KafkaException as error:
        raise Rejected(f"{file}: {error.args[0].str()}") from error
    return {**found, "bootstrap.servers": bootstrap}


@contextmanager
def ended_in_a_sentence() -> Iterator[None]:
    """Print what went wrong as a sentence, and end with status 1.

    The status is 2 if a time cannot be read or a package is missing.
    """
    try:
        yield
    except (NotedTimeError, ImportError) as error:
        typer.echo(f"noted-time: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, Unreadable | ImportError) else 1) from error
