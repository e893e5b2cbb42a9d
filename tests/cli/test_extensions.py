"""Commands of extensions: how they are found, listed, called and refused."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from noted_time import extensions
from noted_time.extensions import Command, Extension, FoundExtensions, find_extensions
from noted_time_cli.terminal.groups import CommandGroup
from noted_time_cli.terminal.plugged import plug_in

PLUG = """
from noted_time.extending import Command

FUNCTION = "noted_time_extensions.{name}.greeting:{of}"
COMMANDS = [Command({words!r}, "Read a stream", "Greet.", FUNCTION)]
"""

GREETING = '''
import typer

app = typer.Typer(no_args_is_help=True)


@app.command()
def greet(*, loud: bool = False) -> None:
    """Greet."""
    print("HELLO" if loud else "hello")


@app.command()
def leave() -> None:
    """Leave."""
'''

Extend = Callable[..., None]


@pytest.fixture
def extend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Extend:
    """Return a function that adds an extension with a command to Python's path."""

    def add(name: str, words: str, of: str = "greet", plug: str = PLUG) -> None:
        folder = tmp_path / "noted_time_extensions" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "plug.py").write_text(plug.format(words=words, name=name, of=of))
        (folder / "greeting.py").write_text(GREETING)
        for module in ("", ".plug", ".greeting"):
            monkeypatch.delitem(sys.modules, f"noted_time_extensions.{name}{module}", raising=False)

    monkeypatch.syspath_prepend(tmp_path)
    return add


class Program:
    """The groups `noted-time` and `noted-time observe`, and their extensions."""

    def __init__(self) -> None:
        self.app = typer.Typer(cls=CommandGroup)
        observe = typer.Typer(name="observe")

        @self.app.command()
        def serve() -> None:
            """Serve."""

        @observe.command()
        def clock() -> None:
            """Observe a clock."""

        self.app.add_typer(observe, cls=CommandGroup)
        self.extensions = plug_in({"": self.app, "observe": observe}, find_extensions())

    def run(self, *words: str) -> tuple[int, str]:
        """Run a command, and return its status and its output without the frame around errors."""
        result = CliRunner().invoke(self.app, words, env={"COLUMNS": "300"})
        return result.exit_code, result.output.strip()


@pytest.mark.parametrize(
    ("words", "of", "called"),
    [
        ("greet", "greet", "greet"),
        ("observe greet", "greet", "observe greet"),
        ("greet", "app", "greet greet"),
        ("observe greet", "app", "observe greet greet"),
    ],
)
def test_a_command_or_a_group_is_added(extend: Extend, words: str, of: str, called: str) -> None:
    """It is listed by its plug, and imported when it is called."""
    extend("greeter", words, of)
    program = Program()

    _, output = program.run(*words.split()[:-1], "--help")
    assert output.index("Observe a clock." if "observe" in words else "serve") < output.index(
        "Greet."
    )
    assert "noted_time_extensions.greeter.greeting" not in sys.modules
    assert program.run(*called.split(), "--loud") == (0, "HELLO")
    assert "bool" not in program.run(*called.split(), "--help")[1]  # as of any flag


def test_a_mistyped_option_is_refused_by_the_command(extend: Extend) -> None:
    extend("greeter", "greet")

    status, output = Program().run("greet", "--lud")
    assert (status, "No such option: --lud" in output) == (2, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("serve", "noted-time has a command 'serve' already"),
        ("observe clock", "noted-time has a command 'observe clock' already"),
        ("mqtt greet", "there is no group of commands 'mqtt' for its command 'mqtt greet'"),
    ],
)
def test_a_command_that_cannot_be_added_is_refused(extend: Extend, words: str, reason: str) -> None:
    extend("greeter", words)
    program = Program()

    assert program.extensions.unused["greeter"] == reason
    assert program.run("serve") == (0, "")


def test_two_extensions_with_one_command_are_refused(extend: Extend) -> None:
    """Otherwise the order of their names would decide."""
    extend("first", "greet")
    extend("second", "greet")

    extensions = Program().extensions
    reason = "the extensions first and second both have the command 'greet': remove one of them"
    assert (extensions.unused["first"], extensions.unused["second"]) == (reason, reason)


@pytest.mark.parametrize(
    ("plug", "reason"),
    [
        ("raise ValueError('no', 5)", "ValueError: ('no', 5)"),
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of"),
        ("COMMANDS = [('greet',)]", "TypeError: Command.__new__() missing 3 required"),
    ],
)
def test_a_broken_plug_stops_nothing_else(extend: Extend, plug: str, reason: str) -> None:
    extend("broken", "leave", plug=plug)
    extend("greeter", "greet")
    program = Program()

    assert program.extensions.unused["broken"].startswith(f"its plug cannot be read: {reason}")
    assert program.run("greet") == (0, "hello")


def test_a_command_without_its_function_is_named(extend: Extend) -> None:
    extend("greeter", "greet", "gret")

    status, output = Program().run("greet")
    says = "the extension greeter cannot be loaded: module 'noted_time_extensions.greeter.greeting'"
    assert (status, says in output) == (2, True)


def test_a_command_of_an_extension_that_is_not_used_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`noted-time` knows the commands of the extensions that come with it."""
    monkeypatch.setattr(extensions, "_list_names", lambda: iter(()))
    app = typer.Typer(cls=CommandGroup)
    app.command("serve")(lambda: None)
    app.command("wait")(lambda: None)

    result = CliRunner().invoke(app, ["analyse"], env={"COLUMNS": "300"})
    says = "'analyse' is of the extension analyse, and it is not installed: pip install"
    assert (result.exit_code, says in result.output) == (2, True)


def test_refused_extensions_leave_the_others() -> None:
    greet = Command("greet", "Read a stream", "Greet.", "greeting:greet")
    found_extensions = FoundExtensions(
        (Extension("a", (greet,)), Extension("b")), {"c": "it is broken"}
    )

    assert found_extensions.refuse({"a": "no"}) == (
        (Extension("b"),),
        {"c": "it is broken", "a": "no"},
    )
