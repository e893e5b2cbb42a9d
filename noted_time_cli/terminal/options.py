"""Arguments and flags of several commands, and the parsing of their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from string import ascii_uppercase
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from noted_time.client import ENVIRONMENT_VARIABLE as TOKEN_VARIABLE
from noted_time.observing import TimeForm, Unit
from noted_time.values import Unreadable, parse_duration

DEFAULT_PORT = 7464
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
NO_VALUES: list[str] = []


def option(metavar: str, text: str, *names: str, default: str | bool = False) -> Any:  # noqa: ANN401 - as typer's
    """Return an option with a value. Help shows `default` if it is a text."""
    return typer.Option(*names, metavar=metavar, show_default=default, help=text)


def duration(text: str, *names: str, default: str | bool = False) -> Any:  # noqa: ANN401 - as typer's
    return typer.Option(
        *names, metavar="DURATION", parser=_parse_duration, show_default=default, help=text
    )


def _parse_duration(given: str | int) -> int:
    try:
        return given if isinstance(given, int) else parse_duration(given)
    except Unreadable as error:
        raise typer.BadParameter(str(error)) from error


def parse_zone(name: str | tzinfo) -> tzinfo:
    if isinstance(name, tzinfo):
        return name
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (OSError, KeyError, ValueError) as error:
        raise typer.BadParameter(f"there is no zone {name[:40]!r} here") from error


def zone_option(text: str, *, default: str | bool = False) -> Any:  # noqa: ANN401 - as typer's
    return typer.Option(metavar="ZONE", parser=parse_zone, show_default=default, help=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTimes:
    """The format of event times."""

    unit: Annotated[
        Unit | None, typer.Option(help="The unit of numbers. Default: inferred from the first.")
    ] = None
    zone: Annotated[
        tzinfo | None, zone_option("The zone of times without one, for example Europe/Berlin.")
    ] = None

    @property
    def form(self) -> TimeForm:
        return TimeForm(self.unit, self.zone)


Url = Annotated[
    str,
    typer.Option(
        envvar="NOTED_TIME_URL",
        help="The controller's URL. Separate several controllers of one database by commas.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar=TOKEN_VARIABLE,
        show_default=False,
        help="The token. Required once a token exists: see `noted-time token`.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
CommentOption = Annotated[str | None, option("TEXT", "The reason, stored with the change.")]
LimitOption = Annotated[int, typer.Option(min=1, help="Maximum number of rows.")]

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.")]
StreamOrNone = Annotated[
    str | None, typer.Argument(metavar="STREAM", help="The stream's name.", show_default=False)
]
WriterArgument = Annotated[str, typer.Argument(metavar="WRITER", help="The writer's name.")]
DomainOption = Annotated[
    str | None,
    option(
        "DOMAIN", "The time domain. Optional if the stream has only one, or one named `default`."
    ),
]


def parse_pairs(
    given: list[str], form: str, is_legal: Callable[[str], bool] = bool
) -> list[tuple[str, str]]:
    separator = form.strip(ascii_uppercase)
    found_pairs = []
    for each in given:
        name, found, value = each.partition(separator)
        if not (name and found and is_legal(value)):
            raise typer.BadParameter(f"{each[:40]!r} is not of the form {form}")
        found_pairs.append((name, value))
    return found_pairs


def parse_offsets(given: list[str]) -> dict[str, int]:
    """Return a position from texts `SEGMENT:OFFSET` or `SEGMENT=OFFSET`.

    >>> parse_offsets(["0:20", "3=7"])
    {'0': 20, '3': 7}
    """
    written = parse_pairs(
        [each.replace("=", ":") for each in given], "SEGMENT:OFFSET", str.isdecimal
    )
    return {segment: int(offset) for segment, offset in written}
