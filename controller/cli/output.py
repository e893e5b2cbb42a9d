"""How the commands speak: tables, JSON, questions, and what went wrong in a sentence."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from controller.store.port import StoreUnavailable
from noted_time import NotedTimeError
from noted_time.values import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@contextmanager
def told_plainly() -> Iterator[None]:
    """Say what went wrong in a sentence; end with status 1, or 2 if a time cannot be read."""
    try:
        yield
    except Unreadable as error:
        fail(str(error), status=2)
    except (StoreUnavailable, NotedTimeError) as error:
        fail(str(error), status=1)


def fail(sentence: str, *, status: int) -> None:
    """Say why, and end with the status."""
    say(f"noted-time: {sentence}")
    raise typer.Exit(status)


def say(sentence: str) -> None:
    """Say something to whoever runs the command, apart from its output."""
    typer.echo(sentence, err=True)


def print_json(body: object) -> None:
    """Print one line of JSON."""
    typer.echo(json.dumps(body, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on a terminal; elsewhere lines with tabs between, the first with the names."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            typer.echo("\t".join(row))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False, emoji=False).print(table)


def shown_position(position: Mapping[str, int]) -> str:
    """Return a position or a cut by its segments.

    >>> shown_position({"3": 7, "0": 120}), shown_position({})
    ('0:120 3:7', '-')
    """
    offsets = sorted(position.items(), key=lambda each: int(each[0]))
    return " ".join(f"{segment}:{offset}" for segment, offset in offsets) or "-"


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal, and end where the answer is no; elsewhere `--yes` has to say it."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("there is no terminal to ask for confirmation on: use --yes", status=2)
    typer.confirm(question, abort=True, err=True)


def named_database(url: str) -> str:
    """Return the URL of a database without its password, and a file by its absolute path.

    >>> named_database("sqlite:////tmp/../a.db"), named_database("postgresql://u:secret@h/db")
    ('sqlite:////a.db', 'postgresql://***@h/db')
    """
    file = url.removeprefix("sqlite:///")
    return without_password(url) if file == url else f"sqlite:///{Path(file).resolve()}"


def with_database(command: str, url: str) -> str:
    """Return a command to type that uses this database.

    >>> with_database("noted-time token list", "sqlite:///a.db")
    '`noted-time token list --database sqlite:///a.db`'
    """
    return f"`{command} --database {quote(without_password(url))}`"


def without_password(url: str) -> str:
    """Return the URL of a database as it may be shown.

    >>> without_password("postgresql://u:secret@h/db"), without_password("sqlite:///a.db")
    ('postgresql://***@h/db', 'sqlite:///a.db')
    """
    scheme, separator, rest = url.partition("://")
    _, at, place = rest.rpartition("@")
    return f"{scheme}{separator}***@{place}" if at else url
