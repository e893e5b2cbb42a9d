"""The command line of the conformance runner: `./run conformance -- COMMAND...`."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, NamedTuple

import httpx
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from demo.trials.descendants import end_with_this_process
from tests.conformance.checks import CHECKS, Check
from tests.conformance.program import Broken
from tests.conformance.trial import Trial
from tests.support.calls import Calls
from tests.support.processes import ServeProcess

AT_ONCE = 3
"""How many checks run at once: each mostly waits."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
console = Console()


class Verdict(NamedTuple):
    """What a check found: `broken` is empty if the writer passed."""

    name: str
    law: str
    broken: str
    seconds: float


@app.command()
def conformance(
    command: Annotated[list[str], typer.Argument(help="The program and its arguments.")],
    *,
    only: Annotated[
        list[str] | None, typer.Option(help="Only the checks whose name contains this.")
    ] = None,
) -> None:
    r"""Check a writer program against a real controller behind a proxy that fails.

    The proxy delays answers, cuts connections, doubles and holds requests, and answers 408, 429
    and 5xx. The controller restarts, and its database is put back. Prints each check, and what
    broke. Ends with status 0 if all pass, and with 1 otherwise.

    The program gets NOTED_TIME_URL, NOTED_TIME_STREAM, NOTED_TIME_WRITER, NOTED_TIME_OFFSET and
    NOTED_TIME_GIVE_UP_S (default 30) in its environment. Its log is a counter of events in
    segment "0" that begins at NOTED_TIME_OFFSET. It reads a command a line from standard input,
    and answers each with one JSON object on a line:

    \b
      join       join the stream in a new session
      write N    write N events: {"answer": "ok", "position": {"0": END}}
      note T     note time T at the present position
      heartbeat  say that it lives, without a new time
      idle       say that it writes nothing for now
      finish     say that it will write no more
      leave      leave the stream
      close      deliver what is pending, and exit with status 0

    \b
    Answers: {"answer": "accepted"}, with "late": true if the note's time is at or below the
    watermark, {"answer": "excluded"}, {"answer": "fenced"}, {"answer": "refused", "code": CODE}
    or {"answer": "gave up"}. The end of input is a crash: it exits and sends nothing.

    docs/reference/protocol.md describes the protocol. An example program is
    tests/conformance/writers/python_writer.py.
    """
    end_with_this_process()
    chosen = [each for each in CHECKS if not only or any(part in each.__name__ for part in only)]
    if shutil.which(command[0]) is None or not chosen:
        what = f"no program {command[0]!r}" if chosen else f"no check is named {only}"
        console.print(f"conformance: there is {what}")
        raise typer.Exit(2)
    with console.status(f"{len(chosen)} checks"):
        verdicts = list(run_checks(command, chosen))
    console.print(build_table(verdicts))
    raise typer.Exit(1 if any(each.broken for each in verdicts) else 0)


def run_checks(command: Sequence[str], chosen: Sequence[Check] = CHECKS) -> Iterator[Verdict]:
    """Run checks against a controller of their own, and yield each verdict."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as name:
        directory = Path(name)
        with ServeProcess(directory).ready() as controller, ThreadPoolExecutor(AT_ONCE) as pool:
            yield from pool.map(
                lambda each: _run(each, command, Calls(controller.url), directory), chosen
            )


def build_table(verdicts: Sequence[Verdict]) -> Table:
    """Return the verdicts as a table."""
    failed = sum(bool(each.broken) for each in verdicts)
    title = f"{len(verdicts) - failed} of {len(verdicts)} checks pass"
    table = Table("", "check", "what is checked, and what broke", title=title, box=None)
    table.title_justify = "left"
    for each in verdicts:
        law = escape(each.law) + (f"\n[red]{escape(each.broken)}[/red]" if each.broken else "")
        table.add_row("[red]FAIL[/red]" if each.broken else "pass", each.name, law)
    return table


def _run(check: Check, command: Sequence[str], controller: Calls, directory: Path) -> Verdict:
    own = directory / check.__name__
    own.mkdir()
    begun, broken = time.monotonic(), ""
    try:
        with Trial(command, controller, own) as trial:
            check(trial)
    except (Broken, httpx.HTTPError) as error:
        broken = str(error)
    name = check.__name__.replace("_", " ")
    return Verdict(name, check.__doc__ or "", broken, time.monotonic() - begun)


if __name__ == "__main__":
    app(prog_name="./run conformance")
