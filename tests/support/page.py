"""Runs the examples of a page as printed, in order.

A command of a `console` block has its output below it; a `sh` or `python` block in a `text` or
`json` block that may follow. `…` stands for anything.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import time as clock
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from noted_time.values import DAY_MS, HOUR_MS
from tests.support.paragraphs import ANY, REST, matches, parse_expected
from tests.support.processes import environment
from tests.support.terminals import run_on_terminal
from tools.trials.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
BINDING = "http://127.0.0.1:7464"
"""The URL of the controller on the pages."""

KILLED = -9
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ", re.MULTILINE)
ELSEWHERE = re.compile(
    r"(git|go mod|npm install|pip|python3 -m venv|uvx|noted-time serve"
    r"|\./run(?! (?:noted-time|spark-submit))|\"\"\"Observe)\b"
)
"""The start of examples that install, serve or observe, which tests do themselves."""

CHANGING = {
    "id",
    "stream_id",
    "written_at",
    "noted_at",
    "holding_back_began_at",
    "held_back_ms",
    "at",
}
CHANGING |= {"times_out_in_ms", "reported_at", "began_at", "suspension_ends_at", "excluded_at"}
CHANGING |= {"backlog_began_at", "connected_at"}
CHANGING |= {"now", "first_at", "recent_lags_ms", "silent_ms", "times_out_at", "in_ms"}
CHANGING |= {"first_seen_at", "last_seen_at"}
DURATION = re.compile(r"\b\d+(?:ms|[smhd])(?: \d+(?:ms|[smhd]))?\b")
RECENT_DAY = re.compile(r"\b20(?:2[6-9]|[3-9]\d)-\d\d-\d\d(?=[T ]\d\d:)")
"""The day of an output whose example has events of yesterday."""


def find_yesterday(hour: int) -> int:
    """Return an hour of yesterday in UTC, in Unix ms, as the examples on topics compute it.

    >>> find_yesterday(10) % DAY_MS // HOUR_MS
    10
    """
    return int(clock.time() * 1000) // DAY_MS * DAY_MS - (24 - hour) * HOUR_MS


DEFAULT_RETENTION = {"retention.ms": 604_800_000}
"""The setting of a topic that a broker of the pages' readers has, which deletes older events."""


class Example(NamedTuple):
    """A program, and its output on the page, or `None`."""

    language: str
    program: str
    shown: str | None


def read_page(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def read_section(page: str, heading: str) -> str:
    return read_page(page).split(f"\n## {heading}\n")[1].split("\n## ")[0]


def list_examples(text: str) -> Iterator[Example]:
    """Yield the examples of a page, except installing, serving or observing ones."""
    blocks = [*BLOCK.findall(text), ("", "")]
    for (language, block), (next_language, next_block) in pairwise(blocks):
        if language == "console":
            for command_text in COMMAND.split(block)[1:]:
                yield Example(language, *_command_and_output(command_text))
        elif language in {"sh", "python"} and not ELSEWHERE.match(block):
            shown_block = next_block if next_language in {"text", "json"} else None
            yield Example(language, block, shown_block)


def _command_and_output(command_text: str) -> tuple[str, str]:
    lines = command_text.splitlines(keepends=True)
    heads = ("".join(lines[:count]).rstrip("\n") for count in range(1, len(lines) + 1))
    command = next(head for head in heads if _is_complete(head))
    return command, command_text.removeprefix(command).lstrip("\n")


def _is_complete(command: str) -> bool:
    try:
        shlex.split(command)
    except ValueError:  # within quotes, or a continued line
        return False
    return True


@dataclass
class Runner:
    """Runs examples in a directory, each as a process, with the controller at `url`.

    `elsewhere` maps texts of the examples, such as addresses, to the test's; `variables` are their
    environment.
    """

    directory: Path
    url: str
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        commands = self.directory / "bin"
        commands.mkdir(exist_ok=True)
        python = shlex.quote(sys.executable)
        given = {"curl": f"{shutil.which('curl')} -sS", "python": python}
        for name, line in {**given, "noted-time": f"{python} -m noted_time"}.items():
            (commands / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n')
            (commands / name).chmod(0o755)
        run = self.directory / "run"
        run.write_text('#!/bin/sh\n[ "$1" = noted-time ] && exec "$@"\n')
        run.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        inherited_variables = environment(
            NOTED_TIME_URL=self.url,
            PYSPARK_PYTHON=sys.executable,
            PYSPARK_DRIVER_PYTHON=sys.executable,
            SPARK_LOCAL_IP="127.0.0.1",
            **self.variables,
        )
        return inherited_variables | {
            "PATH": f"{self.directory / 'bin'}:{inherited_variables['PATH']}"
        }

    def run(self, example: Example) -> str:
        """Return the output of an example, which must succeed or kill itself."""
        program = self.localize(example.program)
        if example.language == "console":
            status, output = run_on_terminal(
                ["sh", "-c", program], self.environment, cwd=self.directory
            )
        else:
            command = ["sh", "-e"] if example.language == "sh" else [sys.executable]
            process = subprocess.run(
                [*command, "-c", program],
                cwd=self.directory,
                env=self.environment,
                stdout=subprocess.PIPE,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            status = process.returncode
            output = process.stdout
        assert status in {0, KILLED}, f"status {status} of\n{program}\n{output}"
        return output

    def localize(self, program: str) -> str:
        """Replace the addresses and paths by the test's."""
        for page_word, local_word in {BINDING: self.url, **self.elsewhere}.items():
            program = program.replace(page_word, local_word)
        return program

    def run_page(self, page: str, section: str | None = None) -> list[str]:
        """Run all examples, or those below a heading, and compare their outputs.

        Returns the outputs.
        """
        outputs = []
        text = read_page(page) if section is None else read_section(page, section)
        for example in list_examples(text):
            outputs.append(self.run(example))
            assert example.shown is None or agrees(example.shown, outputs[-1]), (
                f"{example.program}\nshown:\n{example.shown}\nprinted:\n{outputs[-1]}"
            )
        return outputs


class Session:
    """The Python blocks of a page, run in this process with shared names.

    `elsewhere` maps addresses, paths and names of the page to the test's.
    """

    def __init__(self, page: str, elsewhere: Mapping[str, str], **names: Any) -> None:  # noqa: ANN401
        self._page = page
        self.elsewhere = dict(elsewhere)
        self.names = dict(names)

    def run(self, *containing: str) -> dict[str, Any]:
        """Run the blocks with these texts, by default all, and return the names."""
        blocks = [
            example.program
            for example in list_examples(read_page(self._page))
            if example.language == "python"
        ]
        for text in containing or blocks:
            (block,) = (block for block in blocks if text in block)
            for page_word, local_word in self.elsewhere.items():
                block = block.replace(page_word, local_word)
            exec(compile(block, self._page, "exec"), self.names)  # noqa: S102 - our page
        return self.names


def agrees(shown_text: str, printed_text: str) -> bool:
    """Return whether the output is as shown, apart from `…` and varying parts."""
    if shown_text.startswith("{"):
        return matches(_without_changing(parse_expected(shown_text)), steady(printed_text))
    parts = [re.escape(part) for part in _squeeze(shown_text).split(REST)]
    return re.fullmatch(".*".join(parts), _squeeze(printed_text), re.DOTALL) is not None


def steady(output: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON without varying parts."""
    return _without_changing(json.loads(output))


def _squeeze(text: str) -> str:
    """Return the text without durations, recent days, rules, empty lines and column widths."""
    steady_text = DURATION.sub("DURATION", text.replace("─", ""))
    steady_text = RECENT_DAY.sub("DAY", steady_text)
    lines = steady_text.splitlines()
    return "\n".join(" ".join(line.split()) for line in lines if line.strip())


def _without_changing(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        return [_without_changing(element) for element in value]
    if not isinstance(value, dict):
        return value
    steady_value = {}
    for name, element in value.items():
        if name in CHANGING and element != ANY:
            steady_value[name] = type(element).__name__
        else:
            steady_value[name] = _without_changing(element)
    return steady_value
