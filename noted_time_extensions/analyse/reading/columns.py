"""Flags of `noted-time analyse`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from noted_time_cli.extending import DEFAULT_URL, DomainOption, Token, Url, option

FileOrder = Literal["name", "modified"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """The names of the columns in files."""

    time: Annotated[str, option("COLUMN", "The column of the event time.")]
    arrival: Annotated[str | None, option("COLUMN", "The column of the arrival time.")] = None
    who: Annotated[str | None, option("COLUMN", "Group late rows by this column.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamToJudge:
    """The stream whose marks are compared with the delays, if any."""

    noted: Annotated[
        str | None, option("STREAM", "Judge the marks of this stream, too.", "--stream")
    ] = None
    domain: DomainOption = None
    url: Url = DEFAULT_URL
    token: Token = None
    fail_if_broken: Annotated[
        bool,
        typer.Option(
            "--fail-if-broken",
            help="End with status 1 if a writer wrote rows below its noted time.",
        ),
    ] = False
