"""Check a writer program against a real controller behind a proxy that fails.

The proxy delays or withholds answers, cuts connections, doubles and holds requests, and answers
408, 429 and 5xx. The controller restarts, and its database is put back. The command prints each
trial and each fault. Its exit status is 0 if all trials pass, and 1 otherwise.

The program gets NOTED_TIME_URL, NOTED_TIME_STREAM, NOTED_TIME_WRITER and NOTED_TIME_GIVE_UP_S
(default 30) in its environment. Its log is a counter of events in each of the segments "0" and "1".
It reads one command a line from standard input. The next command follows the answer:

  join       join the stream in a new session
  ends E F   after a join: the segments of the log end at E and F, so continue there
  write N M  write N events to segment "0", and M to segment "1"
  note T     note time T (Unix ms) at the present position
  heartbeat  say that it lives, without a new time
  idle       say that it writes nothing for now
  finish     say that it will write no more
  leave      leave the stream, as idle or finished
  close      deliver all pending notes, answer "accepted", and exit with status 0

It answers each command with one JSON object on a line of standard output:

  {"answer": "ok", "position": {"0": E, "1": F}}
                                       to `write` and `ends`, at once; to the others, once known:
  {"answer": "accepted"}               with "late": true if the time is not above its `lower`
  {"answer": "excluded"}               the result has `excluded`
  {"answer": "fenced"}                 another session has the name
  {"answer": "refused", "code": CODE}  final: the status of the result, or the problem's code
  {"answer": "gave up"}                no final answer within NOTED_TIME_GIVE_UP_S

After `fenced` the program sends nothing, and answers each command with `fenced`. It does not exit,
because the trial continues. Write logs to standard error. If the program ends too early, the
command prints what it wrote there.

The end of input is a crash: the program exits at once and sends nothing more.

docs/reference/protocol.md describes the protocol. tests/conformance/trials.txt has the steps of
each trial. An example is tests/conformance/writers/http_writer.py.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.conformance.trial import Script, Trial, read_scripts
from tests.support.processes import ServeProcess
from tools.trials.calls import Calls
from tools.trials.descendants import end_with_this_process

AT_ONCE = 4
"""The number of trials that run at once. They mostly wait."""

MOST_SHOWN = 4

STEPS = "tests/conformance/trials.txt"

console = Console()


class Verdict(NamedTuple):
    """The outcome of a trial. `broken` is empty if the writer passes."""

    name: str
    law: str
    broken: str


def main() -> int:
    """Check the program that the arguments name, and return the exit status."""
    end_with_this_process()
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "./run conformance", "%(prog)s [--only PART ...] -- COMMAND ..."
    )
    parser.description = __doc__
    parser.formatter_class = shape
    parser.add_argument("--only", action="append", help="only trials whose name contains this")
    parser.add_argument("command", nargs="+", help="the program and its arguments")
    options = parser.parse_args()
    parts = options.only or [""]
    chosen_scripts = []
    for script in read_scripts():
        if any(part in script.name for part in parts):
            chosen_scripts.append(script)
    if not chosen_scripts:
        parser.error(f"unknown trial: {', '.join(parts)}")
    if shutil.which(options.command[0]) is None:
        parser.error(f"program not found: {options.command[0]}")
    with console.status(f"{len(chosen_scripts)} trials"):
        verdicts = list(run_trials(options.command, chosen_scripts))
    console.print(build_table(verdicts))
    failed_name = next((verdict.name for verdict in verdicts if verdict.broken), None)
    if failed_name is not None:
        console.print(
            f"\n{STEPS} has the steps of each trial. --only '{failed_name}' runs a single one."
        )
    return 0 if failed_name is None else 1


def run_trials(command: Sequence[str], scripts: Sequence[Script]) -> Iterator[Verdict]:
    """Run each trial on a separate stream, and yield the verdicts."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as name:
        directory = Path(name)
        with ServeProcess(directory).ready() as controller, ThreadPoolExecutor(AT_ONCE) as pool:
            calls = Calls(controller.url)
            run = partial(_run, command=command, controller=calls, directory=directory)
            yield from pool.map(run, scripts)


def _run(script: Script, command: Sequence[str], controller: Calls, directory: Path) -> Verdict:
    script_directory = directory / script.name.lower().replace(" ", "-")
    script_directory.mkdir()
    with ExitStack() as stack:
        broken = Trial(command, controller, script_directory, stack).judge(script.steps)
    return Verdict(script.name, script.law, "; ".join(broken[:MOST_SHOWN]))


def build_table(verdicts: Sequence[Verdict]) -> Table:
    failed_count = sum(bool(verdict.broken) for verdict in verdicts)
    title = f"{len(verdicts) - failed_count} of {len(verdicts)} trials pass"
    table = Table("", "trial", "its law, and what broke", title=title, box=None)
    for verdict in verdicts:
        law = escape(verdict.law) + (
            f"\n[red]{escape(verdict.broken)}[/red]" if verdict.broken else ""
        )
        table.add_row("[red]FAIL[/red]" if verdict.broken else "pass", verdict.name, law)
    return table


if __name__ == "__main__":
    sys.exit(main())
