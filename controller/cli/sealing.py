"""`noted-time seal`: the end of a stream, after a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.api_client import connected, stream_path
from controller.cli.options import (
    DEFAULT_URL,
    NONE,
    AsJson,
    Comment,
    Stream,
    Token,
    Url,
    Yes,
)
from controller.cli.output import confirm, print_json, say, shown_position, told_plainly
from controller.cli.times import shown_time, time_of
from controller.cli.words import states_shown

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]


def seal(  # noqa: PLR0913 - one parameter for each flag
    stream: Stream,
    *,
    cut: Annotated[
        list[str],
        typer.Option(
            metavar="SEGMENT:OFFSET",
            show_default=False,
            help="How far a segment goes, where that is beyond what was noted; several may be "
            "given.",
        ),
    ] = NONE,
    final_time: Annotated[
        list[str],
        typer.Option(
            metavar="DOMAIN=TIME",
            show_default="above all that was noted",
            help="The lower of the domain's last mark; several may be given.",
        ),
    ] = NONE,
    comment: Comment = None,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """End a stream for good, after a question: it takes no more notes, and all windows close.

    Who is live is finished where it noted last. The same command again changes nothing.

    Try it:  noted-time seal flights --comment "the season is over"
    """
    body = {
        "cut": {segment: int(offset) for segment, offset in pairs(cut, ":", str.isdecimal)},
        "final_times": {},
    }
    with told_plainly(), connected(url, token) as client:
        times = pairs(final_time, "=", bool)
        body["final_times"] = {domain: time_of(time) for domain, time in times}
        states = client.ask("GET", stream_path(stream, "writers"), query={"limit": 1})["states"]
        say(f"{stream} has {states_shown(states)} writers.")
        confirm(f"Seal {stream}? It takes no notes any more; that cannot be taken back.", yes=yes)
        query = {"comment": comment}
        sealed = client.ask("POST", stream_path(stream, "seal"), query=query, body=body)
    if as_json:
        print_json(sealed)
        return
    for sentence in _sealed(stream, sealed):
        say(sentence)


def pairs(
    given: list[str], separator: str, is_legal: Callable[[str], bool]
) -> list[tuple[str, str]]:
    """Return (name, value) of each; `is_legal` judges the value."""
    found_pairs = []
    for each in given:
        name, found, value = each.partition(separator)
        if not (name and found and is_legal(value)):
            raise typer.BadParameter(f"{each[:40]!r} is not of the form NAME{separator}VALUE")
        found_pairs.append((name, value))
    return found_pairs


def _sealed(stream: str, sealed: Json) -> list[str]:
    """Return in sentences how a stream was sealed.

    >>> mark = {"lower": 42, "final": True}
    >>> answer = {"seal": {"cut": {"0": 9}}, "marks": {"default": mark}, "never_noted": ["DL"]}
    >>> for sentence in _sealed("flights", answer):
    ...     print(sentence)
    flights is sealed at 0:9.
    The last mark of default is at 42.
    Never noted a time, so it is unknown how far they wrote: DL.
    """
    sentences = [f"{stream} is sealed at {shown_position(sealed['seal']['cut'])}."]
    for domain, mark in sealed["marks"].items():
        at = f"is at {shown_time(mark['lower'])}" if mark else "never came"
        sentences.append(f"The last mark of {domain} {at}.")
    if sealed["never_noted"]:
        names = ", ".join(sealed["never_noted"])
        sentences.append(f"Never noted a time, so it is unknown how far they wrote: {names}.")
    return sentences
