"""`noted-time token`: who may note, read and administer.

What opens the database is imported when a command needs it, which takes half a second.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli.options import DEFAULT_DATABASE, NONE, AsJson, Database
from controller.cli.output import (
    print_json,
    print_table,
    say,
    told_plainly,
    with_database,
    without_password,
)
from controller.service.access import Grant
from noted_time import Rejected
from noted_time.values import duration_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.store.tokens import TokenRecord, Tokens

COLUMNS = ("id", "state", "made", "rights", "label")

app = typer.Typer(name="token", help="Who may note, read and administer.", no_args_is_help=True)


@app.command()
def create(  # noqa: PLR0913 - one parameter for each flag
    *,
    scope: Annotated[list[str], typer.Option(help="admin, write or read; several may be given.")],
    stream: Annotated[
        list[str], typer.Option(help="Stream to write or read; * stands for anything. All if none.")
    ] = NONE,
    writer: Annotated[
        list[str], typer.Option(help="Writer it may note for; * stands for anything. All if none.")
    ] = NONE,
    alignment: Annotated[
        list[str],
        typer.Option(help="Alignment a reader may use; * stands for anything. All if none."),
    ] = NONE,
    expires_in: Annotated[
        str | None, typer.Option(help="90d, 12h, 30m or 45s; by default the token never expires.")
    ] = None,
    label: Annotated[str, typer.Option(help="What it is for, to be known by in the list.")] = "",
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Make a token and show it, this once; a running controller knows it within seconds.

    Try it:  noted-time token create --scope write --stream flights --writer UA --expires-in 90d
    """
    from controller.service.tokens import mint
    from controller.store.migrate import create_if_new

    with told_plainly():
        grant = Grant.of(scope, stream, writer, alignment)
        lifetime_ms = None if expires_in is None else duration_ms(expires_in)
        if lifetime_ms == 0:
            raise Rejected("the lifetime must be positive, for example 90d")
        shown, record = mint(grant, label=label, now_ms=_now(), lifetime_ms=lifetime_ms)
        create_if_new(database)
        with tokens_of(database) as kept:
            kept.add(record)
    say(f"Token {record.id}, kept in {without_password(database)}; it is shown only now:")
    typer.echo(shown)


@app.command(name="list")
def list_tokens(*, database: Database = DEFAULT_DATABASE, as_json: AsJson = False) -> None:
    """List the tokens: what each lets its holder do, never the token itself.

    Try it:  noted-time token list
    """
    with told_plainly(), tokens_of(database) as kept:
        say(f"Tokens kept in {without_password(database)}:")
        rows = [_told(record, _now()) for record in kept.all()]
    if as_json:
        print_json([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    else:
        print_table(COLUMNS, rows)


@app.command()
def revoke(
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="As `noted-time token list` has it.")
    ],
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Revoke a token for good; every controller on the database refuses it within seconds.

    Try it:  noted-time token revoke 5b1f0c2d9e7a
    """
    with told_plainly(), tokens_of(database) as kept:
        if token_id not in {record.id for record in kept.all()}:
            raise Rejected(
                f"there is no token {token_id[:40]!r} in {without_password(database)}: "
                f"see {with_database('noted-time token list', database)}"
            )
        done = kept.revoke(token_id, _now())
    already = "" if done else " already"
    typer.echo(f"Token {token_id} is revoked{already}, in {without_password(database)}.")


@contextmanager
def tokens_of(database: str) -> Iterator[Tokens]:
    """Open the tokens of a database, which must be there."""
    from controller.store.open import open_tokens

    with closing(open_tokens(database)) as kept:
        yield kept


def _told(record: TokenRecord, now_ms: int) -> list[str]:
    """Return the columns of a token in the list."""
    rights = str(Grant.from_scopes(record.scopes))
    return [record.id, _state(record, now_ms), _day(record.created_at), rights, record.label]


def _state(record: TokenRecord, now_ms: int) -> str:
    if record.revoked_at is not None:
        return f"revoked {_day(record.revoked_at)}"
    if record.expires_at is None:
        return "valid"
    word = "expired" if record.expires_at <= now_ms else "valid until"
    return f"{word} {_day(record.expires_at)}"


def _day(unix_ms: int) -> str:
    return f"{datetime.fromtimestamp(unix_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"


def _now() -> int:
    return time.time_ns() // 1_000_000
