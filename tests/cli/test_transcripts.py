"""Sessions on a terminal; see `transcripts/*.txt`.

A paragraph of these files has a fact, more about it, and a session, indented. There is a stream
`flights`, which marks every advance. A session shows all that a command prints, standard error
behind exclamation marks, and last its status, unless that is 0:

    note flights UA=10:00 DL=5        writers note times, of 2013-01-01 or any, at position 0:10
    write flights 0 10:05 10:09       rows of a partition of an archive have times in column `at`
    rows flights 0 [{"at": 5}]        rows of any other columns, in one file
    PUT flights {"domains": ["a"]}    a call of the API that succeeds, below `/v1/streams/`
    claim orders 10:00 {"from_time": 5}   a commit to a Delta table has a claim; see `Orders.claim`
    append orders                     a commit has none; so does `overwrite orders`
    ask wait flights 10:05 require=all        a question by `tests.support.asking.ask`, whose
    [3]                                       output is compared only if some is shown
    find (note lima .* TIME) TIME=9           a part of the output, with values filled in,
    $ noted-time $FOUND                       is used in the commands that follow
    $ noted-time stream delete flights
    ! noted-time: Remove flights … add --yes                  `…` stands for any part of a line
    [2]
    $ noted-time changes flights
    number  at  action                                        columns are two spaces apart or more
    …                                                         stands for any lines, or none
    $ noted-time stream show flights --json
    {"name": "flights", …}                                    these fields, and others
    $ echo '{"0": 19}' | noted-time complete-to flights --offsets -
    $ echo '{"0": 19}' > offsets.json                         any other command runs in a shell
    $ cat > sales.csv                                         and reads the lines below it
      sold,shop
      2013-01-01T10:00Z,berlin
    proxy caches POST                 the commands that follow call through a `CachingProxy`
    $ export NOTED_TIME_URL=http://127.0.0.1:9                for the commands that follow
    $ cd query                                                likewise

A line continues on lines that are indented by four more. A mistyped command shows the text of its
frame, without the usage above it. An observer with `--for` polls 20 times, however long that takes.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from deltalake import write_deltalake

from noted_time.values import parse_time
from tests.cli.conftest import Commands, Result, note, write
from tests.support.archive import append_rows
from tests.support.asking import ask
from tests.support.caching_proxy import CachingProxy
from tests.support.claimed import ROWS, Orders
from tests.support.paragraphs import matches, parse_expected, read_paragraphs
from tests.support.polling import count_polls
from tools.trials.served import Served

FILES = sorted(Path(__file__).with_name("transcripts").glob("*.txt"))


VERBS = "ask|find|note|write|rows|claim|append|overwrite|proxy|PUT|POST|DELETE"


def split_session(acts: list[str], verbs: str = VERBS) -> list[str]:
    """Return each act with the lines that it prints."""
    session = re.sub(r"\n {8,}", " ", "\n".join(acts)).replace("\n    ", "\n")
    return re.split(rf"\n(?=\$ |(?:{verbs}) )", session)


def read_time(written: str) -> int:
    """Return a time as an integer.

    >>> read_time("10:00"), read_time("5"), read_time("2013-01-01T10:01Z")
    (1357034400000, 5, 1357034460000)
    """
    return parse_time(f"2013-01-01T{written}Z" if written[2:3] == ":" else written)


def join_columns(line: str) -> str:
    return re.sub(r"\t|  +", "  ", line.rstrip())


def list_lines(done: Result) -> tuple[list[str], list[str]]:
    """Return the lines of standard output and of standard error, or the text of its frame."""
    framed = " ".join(re.findall("│ (.*?) *│", done.err))
    err = [framed] if framed else done.err.splitlines()
    return [*map(join_columns, done.out.splitlines())], [*map(join_columns, err)]


def is_expected(expected: list[str], found: list[str]) -> bool:
    """Whether lines are as expected, where `…` stands for any part of a line, or any lines.

    >>> is_expected(["a … c", "…"], ["a b c"]), is_expected(["a…"], ["a", "b"])
    (True, False)
    """
    patterns = (
        r"(?:.*\n)*" if each == "…" else re.escape(each).replace("…", ".*") + r"\n"
        for each in map(join_columns, expected)
    )
    return bool(re.fullmatch("".join(patterns), "".join(f"{each}\n" for each in found)))


@dataclass
class Session:
    """A terminal whose commands call one controller."""

    served: Served
    run: Commands
    orders: Orders
    stack: ExitStack = field(default_factory=ExitStack)
    batches: Iterator[int] = field(default_factory=count)
    printed: str = ""
    found: str = ""

    def perform(self, act: str) -> None:
        """Perform an act of a paragraph, and compare its output."""
        line, *expected = act.splitlines()
        verb, _, rest = line.partition(" ")
        path, _, given = rest.partition(" ")
        if verb == "$":
            self._type(line, expected)
        elif verb == "ask":
            self._ask(rest.split(), expected)
        elif verb == "find":
            self._find(rest)
        elif verb == "note":
            times = dict(each.split("=") for each in given.split())
            note(self.served, path, **{name: read_time(time) for name, time in times.items()})
        elif verb == "write":
            segment, *at = given.split()
            write(Path.cwd(), path, int(segment), *map(read_time, at))
        elif verb == "rows":
            segment, _, rows = given.partition(" ")
            append_rows(Path.cwd(), path, int(segment), json.loads(rows))
        elif verb == "claim":
            time, _, more = given.partition(" ")
            claimed = None if time == "none" else read_time(time)
            options = json.loads(more or "{}")
            self.orders.claim(
                claimed, next(self.batches), *options.pop("missing_writers", ()), **options
            )
        elif verb == "proxy":
            self.run.url = self.stack.enter_context(CachingProxy(self.served.url, rest)).url
        elif verb in {"append", "overwrite"}:
            write_deltalake(path, ROWS, mode="append" if verb == "append" else "overwrite")
        else:
            self.served.call(verb, f"/{path}", json.loads(given or "null"))

    def _ask(self, words: list[str], expected: list[str]) -> None:
        options = dict(each.split("=", 1) for each in words if "=" in each)
        command, dataset, *time = (each for each in words if "=" not in each)
        options |= {"since": str(read_time(options["since"]))} if "since" in options else {}
        done = ask(self.run, command, dataset, *map(read_time, time), **options)
        self.printed = done.out + done.err
        is_shown = any(not re.fullmatch(r"\[\d+\]", each) for each in expected)
        compare(done, " ".join(words), expected if is_shown else ["…", "! …", *expected])

    def _find(self, sought: str) -> None:
        pattern, *given = re.split(" (?=[A-Z]+=)", sought)
        found = re.search(pattern, self.printed)
        assert found, (sought, self.printed)
        self.found = found[1]
        for name, _, value in (each.partition("=") for each in given):
            self.found = self.found.replace(name, value)

    def _type(self, line: str, expected: list[str]) -> None:
        line = line.replace("$FOUND", self.found).replace("$NOTED_TIME_URL", self.run.url)
        echo, _, command = line[2:].rpartition(" | ")
        word, *words = shlex.split(command)
        if word == "noted-time":
            typed = " ".join(shlex.split(echo)[1:])
            done = self.run(*words, typed=typed)
            self.printed = done.out + done.err
            compare(done, line, expected)
        elif word == "export":
            self.run.url = words[0].partition("=")[2]
        elif word == "cd":
            os.chdir(words[0])
        else:
            rows = "".join(f"{each.strip()}\n" for each in expected)
            subprocess.run(["sh", "-c", command], input=rows, text=True, check=True)


def compare(done: Result, line: str, expected: list[str]) -> None:
    """Compare the status and the output of a command."""
    ends = re.fullmatch(r"\[(\d+)\]", expected[-1] if expected else "")
    lines = expected[:-1] if ends else expected
    err = [each[2:] for each in lines if each.startswith("! ")]
    out = [each for each in lines if not each.startswith("! ")]
    printed, told = list_lines(done)
    if line.endswith(" --json") and out:
        assert matches(parse_expected("".join(out)), done.json), (line, done)
        out = ["…"] if len(printed) == 1 else []
    assert done.status == (int(ends[1]) if ends else 0), (line, done)
    assert is_expected(out, printed), (line, done)
    assert is_expected(err, told), (line, done)


def clear_streams(served: Served) -> None:
    """Leave only the stream `flights`, without writers."""
    for each in served.ask("GET", "/streams").json()["streams"]:
        served.call("DELETE", f"/{each['name']}")
    served.create("flights")


@pytest.mark.parametrize("acts", [each for file in FILES for each in read_paragraphs(file)])
def test_transcripts(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: list[str]
) -> None:
    """Each session prints the output that its file shows."""
    monkeypatch.chdir(tmp_path)
    count_polls(monkeypatch)
    clear_streams(served)
    session = Session(served, Commands(served.url), Orders(tmp_path))
    with session.stack:
        for act in split_session(acts):
            session.perform(act)
