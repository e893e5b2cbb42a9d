"""Arguments and flags of several commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from shlex import quote
from typing import Annotated, Any

import typer

from noted_time.client import ENVIRONMENT_VARIABLE as TOKEN_VARIABLE
from noted_time.observing import TimeForm, Unit
from noted_time.reading import Tiling
from noted_time.values import (
    FIRST_MONDAY_MS,
    MAX_INT64,
    WEEK_MS,
    InvalidName,
    Rejected,
    Unreadable,
    format_duration,
    parse_duration,
    parse_time,
    parse_zone,
    validate_contact,
    validate_name,
)

DEFAULT_PORT = 7464
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
NO_VALUES: Any = ()  # of an option that can be repeated


def option(
    metavar: str,
    text: str,
    *names: str,
    default: str | bool = False,
    parse: Callable[[Any], object] | None = None,
) -> Any:  # noqa: ANN401 - as typer's
    """Return an option with a value. Help shows `default` if it is a text."""
    parser = None if parse is None else _report_refusals(parse)
    return typer.Option(*names, metavar=metavar, show_default=default, help=text, parser=parser)


def _report_refusals(parse: Callable[[Any], object]) -> Callable[[object], object]:
    def parse_value(value: object) -> object:
        try:
            return parse(value)
        except Rejected as error:
            raise typer.BadParameter(str(error)) from error

    return parse_value


def duration(
    text: str, *names: str, default: str | bool = False, minimum: int = 0, maximum: int = MAX_INT64
) -> Any:  # noqa: ANN401 - as typer's
    parse = partial(parse_bounded_duration, minimum=minimum, maximum=maximum)
    return option("DURATION", text, *names, default=default, parse=parse)


def window_option(text: str, *, default: str) -> Any:  # noqa: ANN401 - as typer's
    return option("DURATION", text, default=default, parse=parse_windows)


def parse_windows(text: str | Tiling) -> Tiling:
    """Return windows of a duration, or of weeks that begin on Monday.

    >>> parse_windows("1w") == Tiling(7 * 86_400_000, origin=4 * 86_400_000)
    True
    """
    if isinstance(text, Tiling):
        return text
    if text == "1w":
        return Tiling(WEEK_MS, FIRST_MONDAY_MS)
    return Tiling(parse_bounded_duration(text, minimum=1))


def parse_bounded_duration(value: str | int, minimum: int, maximum: int = MAX_INT64) -> int:
    """Return ms, or raise `Unreadable` if the duration is invalid or out of bounds.

    An integer is the default of an option, in ms.
    """
    duration_ms = value if isinstance(value, int) else parse_duration(value)
    if duration_ms < minimum:
        raise Unreadable(f"must be at least {format_duration(minimum)}, not {value}")
    if duration_ms > maximum:
        raise Unreadable(f"must be at most {format_duration(maximum)}, not {value}")
    return duration_ms


def parse_name(name: str) -> str:
    try:
        return validate_name("the name", name)
    except InvalidName as error:
        if "," not in name:
            raise
        message = f"{name[:40]!r} is not one name: repeat the option for each name"
        raise Unreadable(message) from error


def zone_option(text: str, *, default: str | bool = False) -> Any:  # noqa: ANN401 - as typer's
    return option("ZONE", text, default=default, parse=parse_zone)


UnitOption = Annotated[
    Unit | None,
    typer.Option(
        help="The unit of numbers; d is days since 1970. Default: ms, if the first look like it."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTimes:
    """The format of event times."""

    unit: UnitOption = None
    zone: Annotated[
        tzinfo | None, zone_option("The zone of times without one, for example Europe/Berlin.")
    ] = None
    time_format: Annotated[
        str | None,
        option("FORMAT", "The format of digits or text, as strptime's: %Y%m%d%H", "--format"),
    ] = None

    @property
    def form(self) -> TimeForm:
        return TimeForm(self.unit, self.zone, self.time_format)

    @property
    def flags(self) -> str:
        """The options as they are written after a command."""
        values = {"unit": self.unit, "zone": self.zone, "format": self.time_format}
        return "".join(
            f" --{name} {quote(str(value))}" for name, value in values.items() if value is not None
        )


Url = Annotated[
    str,
    typer.Option(
        envvar="NOTED_TIME_URL",
        metavar="URL",
        help="The controller's URL. Separate several controllers of one database by commas.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar=TOKEN_VARIABLE,
        metavar="TOKEN",
        show_default=False,
        help="The token. Required once a token exists: see `noted-time token`.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
CommentOption = Annotated[str | None, option("TEXT", "The reason, stored with the change.")]
ContactOption = Annotated[
    str | None,
    option(
        "TEXT",
        "Whom to ask about the writer, such as a team. An empty text clears it.",
        "--contact",
        parse=validate_contact,
    ),
]
LimitOption = Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of rows.")]

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.")]
StreamOrNone = Annotated[
    str | None, typer.Argument(metavar="STREAM", help="The stream's name.", show_default=False)
]
_TIME_ARGUMENT = typer.Argument(
    metavar="TIME",
    show_default=False,
    help="The time: ISO 8601 with a zone, such as 2013-01-01T10:00Z, or an integer.",
)
TimeArgument = Annotated[str, _TIME_ARGUMENT]
TimeOrNone = Annotated[str | None, _TIME_ARGUMENT]
WriterArgument = Annotated[str, typer.Argument(metavar="WRITER", help="The writer's name.")]
DomainOption = Annotated[
    str | None,
    option(
        "DOMAIN", "The time domain. Optional if the stream has only one, or one named `default`."
    ),
]


def parse_optional_time(text: str | None) -> int | None:
    return None if text is None else parse_time(text)


def parse_offsets(texts: list[str], option_name: str) -> dict[int, int]:
    """Return a position from texts `SEGMENT:OFFSET` or `SEGMENT=OFFSET`.

    >>> parse_offsets(["0:20", "3=7"], "--position")
    {0: 20, 3: 7}
    """
    position: dict[int, int] = {}
    for text in texts:
        segment, _, offset = text.replace("=", ":").partition(":")
        fault = ""
        if not (segment.isdecimal() and offset.isdecimal() and int(offset) <= MAX_INT64):
            fault = f"{text[:40]!r} is not of the form SEGMENT:OFFSET, for example 0:120"
        elif int(segment) in position:
            fault = f"{segment[:40]} is given twice: leave one out"
        if fault:
            raise typer.BadParameter(fault, param_hint=f"'{option_name}'")
        position[int(segment)] = int(offset)
    return position
