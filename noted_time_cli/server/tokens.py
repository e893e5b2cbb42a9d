"""`noted-time token`."""

from __future__ import annotations

import json
import re
from contextlib import closing, contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from noted_time import Rejected
from noted_time.answers.permissions import Grant
from noted_time.installation import name_program
from noted_time.values import format_time
from noted_time_cli.terminal.flags import group_command
from noted_time_cli.terminal.options import NO_VALUES, AsJson, duration
from noted_time_cli.terminal.output import echo, echo_json, print_table, say
from writer_client.sending.clock import unix_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.store.records import TokenRecord
    from controller.store.token_table import Tokens

DEFAULT_DATABASE = "sqlite:///noted-time.db"

Database = Annotated[
    str,
    typer.Option(
        envvar="NOTED_TIME_DATABASE",
        help="The database: sqlite:///FILE (four slashes for an absolute path) or "
        "postgresql://USER@HOST/NAME.",
    ),
]

app = typer.Typer(name="token", help="Create, list and revoke tokens.", no_args_is_help=True)


@group_command(app)
def create(  # noqa: PLR0913 - one parameter for each flag
    *,
    scope: Annotated[list[str], typer.Option(help="admin, write, observe or read. Repeatable.")],
    stream: Annotated[
        list[str], typer.Option(help="Stream to write or read, with * as wildcard. Default: all.")
    ] = NO_VALUES,
    writer: Annotated[
        list[str], typer.Option(help="Writer to note for, with * as wildcard. Default: all.")
    ] = NO_VALUES,
    expires_in: Annotated[
        int | None, duration("Lifetime, such as 90d, 12h or 30m. Default: unlimited.", minimum=1)
    ] = None,
    label: Annotated[str, typer.Option(help="The token's purpose, shown in the list.")] = "",
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Create a token and print it. It cannot be shown again.

    Try it:  noted-time token create --scope write --stream flights --writer UA --expires-in 90d
    """
    from controller.service.tokens import mint

    try:
        grant = Grant.of(scope, stream, writer)
    except Rejected as error:
        raise typer.BadParameter(str(error)) from error
    token, record = mint(grant, label=label, now_ms=unix_ms(), lifetime_ms=expires_in)
    with open_tokens(database) as tokens:
        tokens.add(record)
    say(f"Token {record.id}, kept in {hide_password(database)}; it is shown only now:")
    echo(token)


@group_command(app, "list")
def list_tokens(*, database: Database = DEFAULT_DATABASE, as_json: AsJson = False) -> None:
    """List the tokens and their rights, but not their secrets.

    Try it:  noted-time token list
    """
    with open_tokens(database) as tokens:
        say(f"Tokens kept in {hide_password(database)}:")
        rows = [_build_row(record, unix_ms()) for record in tokens.all()]
    if as_json:
        echo_json(json.dumps(rows, ensure_ascii=False))
    else:
        print_table({name: name for name in ("id", "state", "made", "rights", "label")}, rows)


@group_command(app)
def revoke(
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id, as in `noted-time token list`.")
    ],
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Revoke a token for good. Running controllers refuse it within seconds.

    Try it:  noted-time token revoke 5b1f0c2d9e7a
    """
    with open_tokens(database) as tokens:
        if token_id not in {record.id for record in tokens.all()}:
            raise Rejected(
                f"there is no token {token_id[:40]!r} in {hide_password(database)}: "
                f"see {add_database_option('token list', database)}"
            )
        is_revoked_now = tokens.revoke(token_id, unix_ms())
    already = "" if is_revoked_now else " already"
    echo(f"Token {token_id} is revoked{already}, in {hide_password(database)}.")


@contextmanager
def open_tokens(database: str) -> Iterator[Tokens]:
    from controller.store.open import open_tokens

    with closing(open_tokens(database)) as tokens:
        yield tokens


def _build_row(record: TokenRecord, now_ms: int) -> dict[str, str]:
    return {
        "id": record.id,
        "state": _describe_state(record, now_ms),
        "made": format_time(record.created_at // 1000 * 1000),
        "rights": str(Grant.from_json(record.scopes)),
        "label": record.label,
    }


def _describe_state(record: TokenRecord, now_ms: int) -> str:
    if record.revoked_at is not None:
        return f"revoked {format_time(record.revoked_at // 1000 * 1000)}"
    if record.expires_at is None:
        return "valid"
    word = "expired" if record.expires_at <= now_ms else "valid until"
    return f"{word} {format_time(record.expires_at // 1000 * 1000)}"


def describe_database(url: str) -> str:
    """Hide the password of a URL, and make a file's path absolute.

    >>> describe_database("sqlite:////tmp/../a.db")
    'sqlite:////a.db'
    """
    file = url.removeprefix("sqlite:///")
    if file == url:
        return hide_password(url)
    return f"sqlite:///{Path(file).resolve()}"


def add_database_option(command: str, url: str) -> str:
    """Return a command of the program with the option for this database.

    >>> add_database_option("token list", "sqlite:///a.db")
    '`noted-time token list --database sqlite:///a.db`'
    """
    return f"`{name_program()} {command} --database {quote(hide_password(url))}`"


def hide_password(url: str) -> str:
    """Return the URL of a database without user and password.

    >>> hide_password("postgresql://u:secret@h,i/db?sslpassword=secret"), hide_password("sqlite:///a")
    ('postgresql://***@h,i/db?sslpassword=***', 'sqlite:///a')
    """
    scheme, separator, address = url.partition("://")
    _, at_sign, place = address.rpartition("@")
    shown_url = url
    if at_sign:
        shown_url = f"{scheme}{separator}***@{place}"
    return re.sub("(password=)[^&]*", r"\1***", shown_url)
