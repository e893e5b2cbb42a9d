import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from controller.cli.app import app
from tests.support.processes import environment

EXAMPLE = re.compile(r"noted-time ([^&\n]+)")


def leaves(group: TyperGroup, *above: str) -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command below a group by its words."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from leaves(command, *above, name)
        elif isinstance(command, TyperCommand):
            yield " ".join((*above, name)), command


def all_commands() -> dict[str, TyperCommand]:
    """Return every command of `noted-time`; the examples have a help of their own."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    return {name: command for name, command in leaves(group) if not name.startswith("demo ")}


COMMANDS = all_commands()


def test_a_call_does_not_wait_for_the_server_to_be_imported() -> None:
    """Nor does the completion of a shell: that takes a second."""
    program = "import sys, controller.cli.app; print({'fastapi', 'sqlalchemy'} & {*sys.modules})"
    said = subprocess.check_output([sys.executable, "-c", program], env=environment(), text=True)

    assert said == "set()\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_a_summary_and_an_example_that_parses(name: str) -> None:
    """Of the command itself, with arguments and flags that there are."""
    text = COMMANDS[name].help or ""
    _, found, example = text.partition("Try it:")
    command_line = EXAMPLE.search(example)

    assert (bool(found), command_line is not None) == (True, True)
    words = shlex.split(command_line[1] if command_line else "")
    own = len(name.split())
    assert " ".join(words[:own]) == name
    COMMANDS[name].make_context(name, words[own:])


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"spark-jars"}))
def test_a_command_that_calls_takes_url_token_and_its_variables(name: str) -> None:
    """Those that work on a database here take that."""
    variables = {each.envvar for each in COMMANDS[name].params if hasattr(each, "envvar")}
    calls = {"NOTED_TIME_URL", "NOTED_TIME_TOKEN"} <= variables

    assert calls is not ("NOTED_TIME_DATABASE" in variables)
