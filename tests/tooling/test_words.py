"""Public names have docstrings."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

import noted_time
from noted_time_cli.app import app

PUBLIC = ("noted_time", "writer_client", "reader_client", "spark_integration")


def list_undocumented(package: str) -> Iterator[str]:
    """Yield the public names of a package, and their public methods, without a docstring."""
    module = importlib.import_module(package)
    for name in module.__all__:
        public = getattr(module, name)
        if inspect.isclass(public) or inspect.isfunction(public):
            if not inspect.getdoc(public):
                yield f"{package}.{name}"
            for attribute, member in vars(public).items() if inspect.isclass(public) else ():
                is_ours = inspect.isfunction(member) or isinstance(member, property | classmethod)
                if is_ours and not attribute.startswith("_") and not inspect.getdoc(member):
                    yield f"{package}.{name}.{attribute}"


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names_have_docstrings(package: str) -> None:
    """Users read them in the reference."""
    assert list(list_undocumented(package)) == []


def list_annotations(package: str) -> Iterator[str]:
    """Yield the annotations of the public functions and classes of a package."""
    module = importlib.import_module(package)
    for public in (getattr(module, name) for name in module.__all__):
        owners = inspect.getmro(public) if inspect.isclass(public) else (public,)
        for owner in owners:
            if owner.__module__.startswith("builtins"):
                continue
            yield str(inspect.get_annotations(owner))
            for member in vars(owner).values():
                function = getattr(member, "fget", getattr(member, "__func__", member))
                yield str(getattr(function, "__annotations__", ""))


SERVER_ERRORS = {
    "AlreadySealed",
    "InvalidCut",
    "InvalidFinalTime",
    "InvalidScale",
    "LimitReached",
    "MarkConflict",
    "NotLive",
    "NotedMeanwhile",
    "NotesRefused",
    "StreamSealed",
    "TooManySegments",
    "UnknownReader",
    "UnknownWriter",
}
"""Errors that no call of a client raises: those of the server, and of calls that programs lack."""


def test_noted_time_exports_errors_and_client_values() -> None:
    """The rules and the controller's values are internal. A mark has a cut."""
    used = str(inspect.get_annotations(noted_time.Mark))
    for package in PUBLIC[1:]:
        used += " ".join(["", *list_annotations(package)])
    errors = set()
    for name, attribute in vars(noted_time.values.errors).items():
        if inspect.isclass(attribute) and issubclass(attribute, noted_time.NotedTimeError):
            errors.add(name)

    assert noted_time.__all__ == sorted(noted_time.__all__)
    assert errors - set(noted_time.__all__) == SERVER_ERRORS
    for name in set(noted_time.__all__) - errors:
        assert re.search(rf"\b{name}\b", used), name


NAMED_COMMANDS = {
    "analyse ",  # the part that needs an extra
    "observe`.",
    "token list`.",
    "token`.",  # in help, as references to other commands
    "relay kafka` writes",
}
"""What follows `noted-time` in texts that no user is to type."""


def list_hints(path: Path) -> Iterator[str]:
    """Yield what follows `noted-time` in the texts of a module, but for docstrings and help."""
    tree = ast.parse(path.read_text())
    docs = {
        id(expression.value) for expression in ast.walk(tree) if isinstance(expression, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield from re.findall(rf"(?<!:  )noted-time ((?:{COMMANDS})\b.*)", node.value)


COMMANDS = "|".join(get_command(app).commands)  # type: ignore[attr-defined]


def test_hints_begin_with_the_name_of_the_program(root: Path) -> None:
    """A shell does not find `noted-time` in a clone."""
    packages = (*PUBLIC, "noted_time_cli", "noted_time_extensions", "controller", "demo")
    hints = list[str]()
    for package in packages:
        for path in (root / package).rglob("*.py"):
            if "tests" not in path.parts:
                hints += list_hints(path)

    assert [hint for hint in hints if not hint.startswith(tuple(NAMED_COMMANDS))] == []
