"""`noted-time --help`, and how the command line starts."""

import re
import shlex
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import cast

import pytest
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from noted_time_cli.app import app
from noted_time_cli.terminal.output import build_table, create_console
from noted_time_cli.terminal.plugged import PluggedCommand
from tests.support.processes import run_python

EXAMPLE = re.compile(r"noted-time ([^&\n]+)")


def leaves(group: TyperGroup, *group_names: str) -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command below a group by its words."""
    for name, listed_command in group.commands.items():
        command = (
            listed_command.load() if isinstance(listed_command, PluggedCommand) else listed_command
        )
        if isinstance(command, TyperGroup):
            yield from leaves(command, *group_names, name)
        elif isinstance(command, TyperCommand):
            yield " ".join((*group_names, name)), command


ROOT = Path(__file__).resolve().parents[2]
TOP_NAMES = cast("TyperGroup", get_command(app)).commands.keys()
COMMANDS = dict(leaves(cast("TyperGroup", get_command(app))))


def test_module_controller_serves_without_a_command() -> None:
    """It has the options of `noted-time serve`; `--version` and commands work, too."""
    word_lists = (("--port", "x"), ("--version",), ("stream", "--nope"))
    processes = [run_python("-m", "controller", *words) for words in word_lists]

    first = [
        f"{process.stdout}{process.stderr}".split(" [")[0].splitlines()[0] for process in processes
    ]
    assert first == [
        "Usage: noted-time serve",
        f"noted-time {version('noted-time')}",
        "Usage: noted-time stream",
    ]


def test_a_call_does_not_wait_for_the_server_to_be_imported() -> None:
    """The import takes a second, which a shell's completion must not wait for."""
    program = "import sys, noted_time_cli.app; print({'fastapi', 'sqlalchemy'} & {*sys.modules})"

    assert run_python("-c", program).stdout == "set()\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_truncates_no_word_at_80_columns(name: str) -> None:
    """The variable of a flag is what people copy."""
    output = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "80"}).output

    lines = output.splitlines()
    assert [line for line in lines if re.search("…[ │]*$", line) or len(line) > 80] == []


def test_help_has_one_heading_for_questions_of_completeness() -> None:
    """The commands are read side by side, so that one can be chosen."""
    panels = {name: getattr(command, "rich_help_panel", "") for name, command in COMMANDS.items()}

    assert [name for name, panel in panels.items() if panel == "Is it complete?"] == [
        "wait",
        "complete-to",
        "windows",
        "changed-since",
        "explain",
        "why",
    ]


def list_panels(pattern: str, text: str) -> list[tuple[str, list[str]]]:
    """List the headings of a text, each with the names of commands that follow it."""
    panels: list[tuple[str, list[str]]] = []
    for match in re.finditer(pattern, text, re.MULTILINE):
        heading, name = match.groups()
        if heading is not None:
            panels.append((heading, []))
        elif panels and name in TOP_NAMES and name not in panels[-1][1]:
            panels[-1][1].append(name)
    return [(heading, names) for heading, names in panels if names]


def test_page_lists_the_commands_as_help_does() -> None:
    """It has the same headings in the same order, and the same sentences on completeness."""
    page = (ROOT / "docs/reference/command-line.md").read_text()
    help_text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    first_cells = "\n".join(re.findall(r"(?m)^\|[^|]*\|", page.partition("\n## Who holds")[0]))
    panels = list_panels("^╭─ (.+?) ─+╮$|^│ ([a-z-]+) ", help_text)
    missing_sentences = []
    for name in dict(panels)["Is it complete?"]:
        summary = (COMMANDS[name].help or "").partition(".\n")[0]
        if f"| {' '.join(summary.split())}" not in page:
            missing_sentences.append(name)

    assert list_panels(r"^\| ([A-Z][^|`]*) \|$|`([a-z-]+)", first_cells) == panels
    assert missing_sentences == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_summary_and_an_example_that_parses(name: str) -> None:
    """The example uses the command itself, with existing arguments and flags."""
    text = COMMANDS[name].help or ""
    _, heading, example = text.partition("Try it:")
    command_line = EXAMPLE.search(example)

    assert (bool(heading), command_line is not None) == (True, True)
    words = shlex.split(command_line[1] if command_line else "")
    name_length = len(name.split())
    assert " ".join(words[:name_length]) == name
    COMMANDS[name].make_context(name, words[name_length:])


ALONE = {"claim accept", "claim inherit", "claim pin", "claim show"}
ALONE |= {name for name in COMMANDS if name.startswith("analyse ")}
"""Commands that need neither a controller nor its database."""


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - ALONE))
def test_calling_commands_take_url_and_token(name: str) -> None:
    """Commands that work on a database take its URL instead."""
    variables = {
        parameter.envvar for parameter in COMMANDS[name].params if hasattr(parameter, "envvar")
    }
    calls = {"NOTED_TIME_URL", "NOTED_TIME_TOKEN"} <= variables

    assert calls is not ("NOTED_TIME_DATABASE" in variables)


@pytest.mark.parametrize(
    ("width", "has"),
    [
        (80, ["terminal-north", "2013-01-01T10:00:00.250Z", "2013-01-01T11:00:00.250Z"]),
        (55, ["terminal-north", "2013-01-01", "2013-01-01"]),
        (55, ["10:00:00.250Z", "11:00:00.250Z"]),
        (40, ["from", "2013-01-01T10:00:00.250Z"]),
    ],
)
def test_times_in_tables_do_not_wrap_within_a_word(
    width: int, has: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A narrow terminal shows the clock below the date, or each cell in another line."""
    monkeypatch.setenv("COLUMNS", str(width))
    times = {"from": "2013-01-01T10:00:00.250Z", "to": "2013-01-01T11:00:00.250Z"}
    row = {"writer": "terminal-north", **times}
    create_console().print(build_table({name: name for name in row}, [row]))

    lines = capsys.readouterr().out.splitlines()
    assert has in [line.split() for line in lines]
    assert max(map(len, lines)) <= width
