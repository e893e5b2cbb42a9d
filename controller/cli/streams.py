"""`noted-time stream`: the streams of a controller and their settings."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

import typer

from controller.cli.api_client import connected, stream_path
from controller.cli.options import (
    DEFAULT_URL,
    NONE,
    AsJson,
    Comment,
    Limit,
    Stream,
    Token,
    Url,
    Yes,
)
from controller.cli.output import (
    confirm,
    print_json,
    print_table,
    say,
    shown_position,
    told_plainly,
)
from controller.cli.times import shown_time
from noted_time.values import Rejected, duration_ms, shown_duration

Json = dict[str, Any]
MARKS = ("stream", "domain", "mark", "lower", "upper", "cut")

app = typer.Typer(name="stream", help="Make, show and remove streams.", no_args_is_help=True)


@app.command(name="list")
def list_streams(
    *,
    limit: Limit = 100,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List the streams that the token may read, with the last mark of each domain.

    Try it:  noted-time stream list --json
    """
    with told_plainly(), connected(url, token) as client:
        found = client.rows("/v1/streams", "streams", cursor="after", limit=limit, query={})
    if as_json:
        print_json(found)
        return
    print_table(MARKS, [row for stream in found["streams"] for row in _marks(stream)])
    if found["next"] is not None:
        say(f"There are more than these {limit}: see --limit.")


@app.command()
def create(  # noqa: PLR0913 - one parameter for each flag
    stream: Stream,
    *,
    writer_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default="60s",
            help="How long a writer that holds the watermark back may be silent before it is "
            "excluded.",
        ),
    ] = None,
    mark_interval: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default="200ms",
            help="The least time between two marks; 0s: a mark at every advance.",
        ),
    ] = None,
    returning_writer: Annotated[
        Literal["hold", "exclude"] | None,
        typer.Option(
            show_default="hold",
            help="A writer that comes back late: wait for it, or exclude it until it caught up.",
        ),
    ] = None,
    domain: Annotated[
        list[str],
        typer.Option(
            metavar="NAME", show_default="default", help="A time domain; several may be given."
        ),
    ] = NONE,
    expected_writer: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="A writer to wait for from the start; several may be given.",
        ),
    ] = NONE,
    max_time_ahead: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default="1h",
            help="How far beyond the controller's clock a note's time may be; `none` where times "
            "are not Unix ms.",
        ),
    ] = None,
    mark_retention: Annotated[
        str | None,
        typer.Option(metavar="DURATION", show_default="7d", help="How long marks are kept."),
    ] = None,
    writer_retention: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default="1d",
            help="How long writers that are gone are remembered.",
        ),
    ] = None,
    reader_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default="1d",
            help="How long a reader may be silent before it counts as offline.",
        ),
    ] = None,
    max_segments: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", show_default="4096", help="How many segments notes may name in all."
        ),
    ] = None,
    max_offset_jump: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            show_default="10^12",
            help="How far beyond the last one known an offset may be; `none`: any.",
        ),
    ] = None,
    comment: Comment = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Make a stream; where it is there already, change the settings that are given.

    Durations are written 90m, 1h, 500ms.

    Try it:  noted-time stream create flights --writer-timeout 90m --mark-interval 0s
    """
    with told_plainly():
        durations = {
            "writer_timeout_ms": writer_timeout,
            "mark_interval_ms": mark_interval,
            "max_time_ahead_ms": None if max_time_ahead == "none" else max_time_ahead,
            "mark_retention_ms": mark_retention,
            "writer_retention_ms": writer_retention,
            "reader_timeout_ms": reader_timeout,
        }
        settings: Json = {name: duration_ms(text) for name, text in durations.items() if text}
        settings |= {"max_time_ahead_ms": None} if max_time_ahead == "none" else {}
        settings |= {"max_segments": max_segments} if max_segments else {}
        settings |= {"max_offset_jump": _number_or_none(max_offset_jump)} if max_offset_jump else {}
        settings |= {"returning_writer": returning_writer} if returning_writer else {}
        settings |= {"domains": domain} if domain else {}
        settings |= {"expected_writers": expected_writer} if expected_writer else {}
        with connected(url, token) as client:
            path, query = stream_path(stream), {"comment": comment}
            status, made = client.answer("PUT", path, query=query, body=settings)
    if as_json:
        print_json(made)
        return
    is_new = status == HTTPStatus.CREATED
    say(f"Created stream {stream}." if is_new else f"Stream {stream} already exists. Settings:")
    _print_settings(made)


@app.command()
def show(
    stream: Stream, *, url: Url = DEFAULT_URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Show a stream's settings and the last mark of each domain.

    Try it:  noted-time stream show flights
    """
    with told_plainly(), connected(url, token) as client:
        found = client.ask("GET", stream_path(stream))
    if as_json:
        print_json(found)
        return
    _print_settings(found)
    print_table(MARKS, _marks(found))
    if found["seal"] is not None:
        at, cut = shown_time(found["seal"]["at"]), shown_position(found["seal"]["cut"])
        say(f"{stream} was sealed at {at}: it ends at {cut}.")


@app.command()
def delete(
    stream: Stream, *, yes: Yes = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Remove a stream with all its notes, marks and readers, after a question.

    Try it:  noted-time stream delete flights
    """
    with told_plainly(), connected(url, token) as client:
        client.ask("GET", stream_path(stream))
        confirm(f"Remove {stream} with all its notes and marks, for good?", yes=yes)
        client.ask("DELETE", stream_path(stream))
    say(f"{stream} is removed.")


def _number_or_none(text: str) -> int | None:
    if not text.isdecimal() and text != "none":
        raise Rejected(f"{text[:40]!r} is neither a whole number nor none")
    return None if text == "none" else int(text)


def _print_settings(stream: Json) -> None:
    rows = [
        (name, shown_setting(name, value)) for name, value in stream.items() if name not in LARGE
    ]
    print_table(("setting", "value"), rows)


LARGE = frozenset(("marks", "scale_events", "corrections", "seal"))
"""What is no setting."""


def shown_setting(name: str, value: object) -> str:
    """Return a setting as people read it.

    >>> shown_setting("writer_timeout_ms", 5_400_000), shown_setting("domains", ["a", "b"])
    ('1h 30m', 'a, b')
    """
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    if name.endswith("_ms") and isinstance(value, int):
        return shown_duration(value)
    return "none" if value is None else str(value)


def _marks(stream: Json) -> list[tuple[str, ...]]:
    """Return a row for the last mark of each domain."""
    return [(stream["name"], domain, *_mark(mark)) for domain, mark in stream["marks"].items()]


def _mark(mark: Json | None) -> tuple[str, ...]:
    if mark is None:
        return ("-", "-", "-", "-")
    times = (shown_time(mark["lower"]), shown_time(mark["upper"]))
    return (str(mark["seq"]), *times, shown_position(mark["cut"]))
