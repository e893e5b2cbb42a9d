"""Sessions on a terminal; see `transcripts/*.txt`.

A paragraph of these files has a fact, more about it, and a session, indented. There is a stream
`flights`, which marks every advance. Calls of the API have the form of `tests/support/api_acts.py`.
A session shows all that a command prints, standard error behind exclamation marks, and last its
status, unless that is 0:

    write flights 0 10:05 10:09       rows of a partition of an archive have times in column `at`
    rows flights 0 [{"at": 5}]        rows of any other columns, in one file
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
`why DATASET TIME` must end with the status of `wait DATASET TIME --timeout 0s`.
"""

import json
import os
import re
import shlex
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Commands, Result, write
from tests.support.api_acts import read_api_act, read_time
from tests.support.archive import append_rows
from tests.support.asking import ask
from tests.support.caching_proxy import CachingProxy
from tests.support.paragraphs import matches, parse_expected, read_paragraphs
from tests.support.polling import count_polls
from tools.trials.served import Served

FILES = sorted(Path(__file__).with_name("transcripts").glob("*.txt"))

VERBS = "ask|find|note|write|rows|proxy|GET|PUT|POST|DELETE"


def split_session(acts: list[str], verbs: str = VERBS) -> list[str]:
    """Return each act with the lines that it prints."""
    session = re.sub(r"\n {8,}", " ", "\n".join(acts)).replace("\n    ", "\n")
    return re.split(rf"\n(?=\$ |(?:{verbs}) )", session)


def join_columns(lines: list[str]) -> list[str]:
    return [re.sub(r"\t|  +", "  ", line.rstrip()) for line in lines]


def list_lines(result: Result) -> tuple[list[str], list[str]]:
    """Return the lines of standard output and of standard error, or the text of its frame."""
    framed_text = " ".join(re.findall("│ (.*?) *│", result.err))
    err = [framed_text] if framed_text else result.err.splitlines()
    return join_columns(result.out.splitlines()), join_columns(err)


def is_expected(expected: list[str], lines: list[str]) -> bool:
    """Whether lines are as expected, where `…` stands for any part of a line, or any lines.

    >>> is_expected(["a … c", "…"], ["a b c"]), is_expected(["a…"], ["a", "b"])
    (True, False)
    """
    pattern = ""
    for line in join_columns(expected):
        if line == "…":
            pattern += r"(?:.*\n)*"
        else:
            pattern += re.escape(line).replace("…", ".*") + r"\n"
    return bool(re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)))


@dataclass
class Session:
    """A terminal whose commands call one controller."""

    served: Served
    run: Commands
    stack: ExitStack = field(default_factory=ExitStack)
    printed: str = ""
    found: str = ""

    def perform(self, act: str) -> None:
        """Perform an act of a paragraph, and compare its output."""
        line, *expected = act.splitlines()
        api_act = read_api_act(line)
        if api_act is not None:
            api_act.check(api_act.ask(self.served))
            return
        verb, _, rest = line.partition(" ")
        path, _, arguments = rest.partition(" ")
        if verb == "$":
            self._type(line, expected)
        elif verb == "ask":
            self._ask(rest.split(), expected)
        elif verb == "find":
            self._find(rest)
        elif verb == "write":
            segment, *times_of_day = arguments.split()
            write(Path.cwd(), path, int(segment), *[read_time(time) for time in times_of_day])
        elif verb == "rows":
            segment, _, rows = arguments.partition(" ")
            append_rows(Path.cwd(), path, int(segment), json.loads(rows))
        else:
            assert verb == "proxy", line
            self.run.url = self.stack.enter_context(CachingProxy(self.served.url, rest)).url

    def _ask(self, words: list[str], expected: list[str]) -> None:
        options = {}
        plain_words = []
        for word in words:
            if "=" in word:
                name, _, value = word.partition("=")
                options[name] = str(read_time(value)) if name == "since" else value
            else:
                plain_words.append(word)
        command, dataset, *times = plain_words
        result = ask(self.run, command, dataset, *[read_time(time) for time in times], **options)
        self.printed = result.out + result.err
        is_shown = any(not re.fullmatch(r"\[\d+\]", line) for line in expected)
        compare(result, " ".join(words), expected if is_shown else ["…", "! …", *expected])

    def _find(self, sought: str) -> None:
        pattern, *filters = re.split(" (?=[A-Z]+=)", sought)
        match = re.search(pattern, self.printed)
        assert match, (sought, self.printed)
        self.found = match[1]
        for condition in filters:
            name, _, value = condition.partition("=")
            self.found = self.found.replace(name, value)

    def _type(self, line: str, expected: list[str]) -> None:
        line = line.replace("$FOUND", self.found).replace("$NOTED_TIME_URL", self.run.url)
        echo, _, command = line[2:].rpartition(" | ")
        word, *words = shlex.split(command)
        if word == "noted-time":
            typed_text = " ".join(shlex.split(echo)[1:])
            result = self.run(*words, typed=typed_text)
            self.printed = result.out + result.err
            compare(result, line, expected)
            if is_why_at_time(words):
                waited = self.run("wait", *words[1:], "--timeout", "0s")
                assert waited.status == result.status, (line, result, waited)
        elif word == "export":
            self.run.url = words[0].partition("=")[2]
        elif word == "cd":
            os.chdir(words[0])
        else:
            rows = "".join(f"{line.strip()}\n" for line in expected)
            subprocess.run(["sh", "-c", command], input=rows, text=True, check=True)


def is_why_at_time(words: list[str]) -> bool:
    """Return whether a command is `why` with a time, which ends with the status of `wait`."""
    command, *arguments = words
    return command == "why" and len(arguments) > 1 and not arguments[1].startswith("-")


def compare(result: Result, line: str, expected: list[str]) -> None:
    """Compare the status and the output of a command."""
    ends = re.fullmatch(r"\[(\d+)\]", expected[-1] if expected else "")
    lines = expected[:-1] if ends else expected
    out = []
    err = []
    for expected_line in lines:
        if expected_line.startswith("! "):
            err.append(expected_line[2:])
        else:
            out.append(expected_line)
    printed_lines, error_lines = list_lines(result)
    if line.endswith(" --json") and out:
        assert matches(parse_expected("".join(out)), result.json), (line, result)
        out = ["…"] if len(printed_lines) == 1 else []
    assert result.status == (int(ends[1]) if ends else 0), (line, result)
    assert is_expected(out, printed_lines), (line, result)
    assert is_expected(err, error_lines), (line, result)


def clear_streams(served: Served) -> None:
    """Leave only the stream `flights`, without writers."""
    for stream in served.ask("GET", "/streams").json()["streams"]:
        served.call("DELETE", f"/{stream['name']}")
    served.create("flights")


def play_session(session: Session, acts: list[str], verbs: str = VERBS) -> None:
    """Perform the acts of a paragraph, and compare their output."""
    clear_streams(session.served)
    with session.stack:
        for act in split_session(acts, verbs):
            session.perform(act)


PARAGRAPHS: list[Any] = []
for transcript_file in FILES:
    PARAGRAPHS += read_paragraphs(transcript_file)


@pytest.mark.parametrize("acts", PARAGRAPHS)
def test_transcripts(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: list[str]
) -> None:
    """Each session prints the output that its file shows."""
    monkeypatch.chdir(tmp_path)
    count_polls(monkeypatch)
    play_session(Session(served, Commands(served.url)), acts)
