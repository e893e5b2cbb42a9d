"""The arguments and flags that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from noted_time.client import VARIABLE as TOKEN_VARIABLE

DEFAULT_DATABASE = "sqlite:///noted-time.db"
DEFAULT_PORT = 7464
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
NONE: list[str] = []

Database = Annotated[
    str,
    typer.Option(
        envvar="NOTED_TIME_DATABASE",
        help="Where notes and marks are kept: sqlite:///FILE (four slashes for an absolute path) "
        "or postgresql://USER@HOST/DATABASE.",
    ),
]
Url = Annotated[
    str,
    typer.Option(
        envvar="NOTED_TIME_URL",
        help="The controller to call; or several of one database, with commas between.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar=TOKEN_VARIABLE,
        show_default=False,
        help="Needed once there is one: see `noted-time token`.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Comment = Annotated[
    str | None,
    typer.Option(metavar="TEXT", show_default=False, help="The reason, kept with the change."),
]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of rows.")]

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.")]
Writer = Annotated[str, typer.Argument(metavar="WRITER", help="The writer's name.")]
Domain = Annotated[
    str | None,
    typer.Option(
        metavar="DOMAIN",
        show_default=False,
        help="The time domain; optional if the stream has only one, or one named `default`.",
    ),
]
