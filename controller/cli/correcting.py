"""`noted-time correct`: a writer's position, if it named offsets that were never written."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.api_client import connected, writer_path
from controller.cli.options import DEFAULT_URL, AsJson, Comment, Stream, Token, Url, Writer, Yes
from controller.cli.output import (
    confirm,
    print_json,
    print_table,
    say,
    shown_position,
    told_plainly,
)
from controller.cli.sealing import pairs

Json = dict[str, Any]
COLUMNS = ("domain", "segment", "offset", "from mark", "to mark")


def correct(  # noqa: PLR0913 - one parameter for each flag
    stream: Stream,
    writer: Writer,
    position: Annotated[
        list[str],
        typer.Argument(metavar="SEGMENT:OFFSET...", help="How far the writer has really written."),
    ],
    *,
    above: Annotated[
        list[str],
        typer.Option(
            metavar="SEGMENT:OFFSET", help="From here on offsets are wrong; for each segment."
        ),
    ],
    comment: Comment = None,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Correct a position that no row stands behind, also in the marks; shows first what changes.

    Readers wait for ever for an offset that nobody writes. You vouch that the writer has written no
    more than you say. Its process is fenced: start it again afterwards.

    Try it:  noted-time correct flights UA 0:20 --above 0:1000 --comment "a wrong unit"
    """
    body = {"position": _offsets(position), "above": _offsets(above)}
    with told_plainly(), connected(url, token) as client:
        path = writer_path(stream, writer, "position")
        would = client.ask("POST", path, body=body | {"dry_run": True})
        print_table(COLUMNS, [tuple(map(str, each.values())) for each in would["replaced"]])
        say(f"In their place marks would have {shown_position(would['cuts'])}.")
        confirm(f"Correct the position of {writer}?", yes=yes)
        corrected = client.ask("POST", path, body=body | {"comment": comment})
    if as_json:
        print_json(corrected)
    else:
        say(f"The position of {writer} is corrected; {stream} has {shown_position(would['cuts'])}.")


def _offsets(given: list[str]) -> dict[str, int]:
    return {segment: int(offset) for segment, offset in pairs(given, ":", str.isdecimal)}
