"""The arguments of commands that read a file log."""

from __future__ import annotations

from typing import Annotated

import typer

from noted_time_cli.extending import option

LogRoot = Annotated[
    str,
    typer.Argument(metavar="ROOT", help="The root of the file log: a directory or s3://lake/log."),
]
Ignore = Annotated[list[str] | None, option("GLOB", "Leave out foreign files. Repeatable.")]
