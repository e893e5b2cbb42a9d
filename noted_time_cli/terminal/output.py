"""The output of commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from noted_time import InvalidName, NotedTimeError, Unreachable
from noted_time.client import Json
from noted_time.installation import name_program
from noted_time.values import Unreadable

Columns = Mapping[str, str | Callable[[Json], object]]


def make_column(name: str, form: Callable[[Any], object]) -> Callable[[Json], object]:
    """Return a column of the field `name` in a form, which gets `None` if a row lacks the field."""

    def format_field(row: Json) -> object:
        return form(row.get(name))

    return format_field


UNANSWERED_STATUS = 69  # as of sysexits(3)


@contextmanager
def report_errors() -> Iterator[None]:
    """Print an error as a sentence, and exit.

    The status is 2 for an unreadable argument or a missing extra, 69 without an answer, and else 1.
    """
    try:
        yield
    except (NotedTimeError, ImportError) as error:
        if isinstance(error, ModuleNotFoundError):  # `main` prints how to install it
            raise
        fail(str(error), status=_choose_status(error))


def _choose_status(error: Exception) -> int:
    if isinstance(error, Unreachable):
        return UNANSWERED_STATUS
    if isinstance(error, Unreadable | InvalidName | ImportError):
        return 2
    return 1


def fail(sentence: str, *, status: int) -> NoReturn:
    say(f"noted-time: {sentence}")
    raise typer.Exit(status)


_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


def escape_controls(text: str) -> str:
    r"""Escape control characters, also bidirectional ones, which could forge lines.

    >>> print(escape_controls("late\n\x1b[2Jok"))
    late\n\u001b[2Jok
    """

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        return _SHORT_ESCAPES.get(character, f"\\u{ord(character):04x}")

    return _CONTROL_CHARACTERS.sub(escape, text)


_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class HintNames:
    """Leaves the program's name in the first hint of an output. Later ones call it `noted-time`.

    The first one can be pasted, and the later ones are shorter to read.

    >>> names = HintNames("./run noted-time")
    >>> [names.shorten(f"`./run noted-time {word}`") for word in ("note", "serve")]
    ['`./run noted-time note`', '`noted-time serve`']
    """

    def __init__(self, program: str) -> None:
        self._program_pattern = re.compile(rf"(?<![\w./-]){re.escape(program)}(?= )")
        self._has_hint = False

    def shorten(self, text: str) -> str:
        return self._program_pattern.sub(self._choose_name, text)

    def _choose_name(self, match: re.Match[str]) -> str:
        if self._has_hint:
            return "noted-time"
        self._has_hint = True
        return match[0]


_HINT_NAMES = ContextVar[HintNames]("hint names")


def begin_output() -> None:
    """Begin the output of a command, whose first hint has the program's name."""
    _HINT_NAMES.set(HintNames(name_program()))


def prepare(text: str) -> str:
    """Return a text as commands print it: with short hints, and without control characters."""
    hint_names = _HINT_NAMES.get(None)
    if hint_names is not None:
        text = hint_names.shorten(text)
    return escape_controls(text)


def echo(line: str, *, err: bool = False) -> None:
    typer.echo(prepare(line), err=err)


def echo_json(text: str) -> None:
    """Print JSON, whose hints are read one by one and keep the program's name."""
    typer.echo(escape_controls(text))


def say(sentence: str) -> None:
    echo(sentence, err=True)


def print_table(columns: Columns, rows: Iterable[Json]) -> None:
    """Print a table on a terminal, and tab-separated lines with a header elsewhere."""
    if sys.stdout.isatty():
        create_console().print(build_table(columns, rows))
        return
    typer.echo("\t".join(columns))
    for row in rows:
        typer.echo("\t".join(format_cells(columns, row)))


def build_table(columns: Columns, rows: Iterable[Json]) -> Table:
    """Return a table that fits a terminal: times are broken, or each cell has a line."""
    cell_rows = [list(format_cells(columns, row)) for row in rows]
    screen = create_console()
    wide = screen.options.update(max_width=MAX_WIDTH)
    table = _build_cells_table(columns, cell_rows)
    if screen.measure(table, options=wide).maximum > screen.width:
        table = _build_cells_table(columns, [_break_times(cells) for cells in cell_rows])
    if screen.measure(table, options=wide).minimum > screen.width:
        lines: list[tuple[str, str]] = []
        for cells in cell_rows:
            lines += zip(columns, cells, strict=True)
            lines.append(("", ""))
        table = _build_cells_table(("", ""), lines)
    return table


def _break_times(cells: Sequence[str]) -> list[str]:
    """Let a time be broken between its date and its time of day."""
    return [_DATE_SEPARATOR.sub(" ", cell) for cell in cells]


def _build_cells_table(names: Iterable[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(names))
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


MAX_WIDTH = 10_000
_DATE_SEPARATOR = re.compile(r"(?<=\d\d-\d\d)T(?=\d\d:)")


def format_cells(columns: Columns, row: Json) -> Iterator[str]:
    """Yield the cells of a row. A column is a key of the row, or a function of it.

    >>> list(format_cells({"writer": "name", "by": "by"}, {"name": "UA", "by": None}))
    ['UA', '-']
    """
    for column in columns.values():
        value = row[column] if isinstance(column, str) else column(row)
        if value is None or value == "":
            yield "-"
        else:
            yield prepare(str(value))


def create_console() -> Console:
    return Console(markup=False, highlight=False, emoji=False)


def format_position(position: Mapping[str, int] | None) -> str:
    """Format a position or a cut.

    >>> format_position({"3": 7, "0": 120}), format_position({})
    ('0:120 3:7', '-')
    """
    if not position:
        return "-"
    segments = sorted(position, key=int)
    return " ".join(f"{segment}:{position[segment]}" for segment in segments)


def confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        fail(f"{question} There is no terminal to ask on: add --yes", status=2)
    typer.confirm(prepare(question), abort=True, err=True)
