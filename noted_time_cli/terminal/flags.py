"""Flags as values: what several commands have is a dataclass, whose fields are flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from itertools import chain
from typing import Any

import typer

from noted_time_cli.terminal.output import report_errors

Command = Callable[..., None]


def command(run: Command) -> Command:
    """Make a function a command: its own flags, then the fields of each dataclass that it takes.

    An error is printed as a sentence.
    """
    flags, gathered = unfold_flags(run)

    def run_command(**given: Any) -> None:  # noqa: ANN401 - as the command's
        with report_errors():
            run(**gathered(given))

    return set_flags(run_command, flags, run)


def unfold_flags(
    run: Callable[..., object], *hidden: str
) -> tuple[list[Parameter], Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return the flags of a function, with the fields of each dataclass that it takes.

    And what makes its arguments of their values. `hidden` parameters are no flags.
    """
    own = {name: each for name, each in list_flags(run).items() if name not in hidden}
    values: dict[str, Any] = {
        name: each.annotation for name, each in own.items() if is_dataclass(each.annotation)
    }
    fields = {name: list_flags(of) for name, of in values.items()}
    plain = {name: each for name, each in own.items() if name not in values}

    def gather_arguments(given: dict[str, Any]) -> dict[str, Any]:
        for name, of in values.items():
            given[name] = of(**{field: given.pop(field) for field in fields[name]})
        return given

    return list(chain(*(each.values() for each in (plain, *fields.values())))), gather_arguments


def group_command(group: typer.Typer, name: str | None = None) -> Callable[[Command], Command]:
    """Make a function a command of a group, as `command` does."""
    return lambda run: group.command(name=name)(command(run))


def list_flags(run: Callable[..., object]) -> dict[str, Parameter]:
    """Return the parameters of a function or class, with the types that they have."""
    return dict(signature(run, eval_str=True).parameters)


def set_flags(called: Command, flags: Iterable[Parameter], run: Command) -> Command:
    """Return what is called, with these parameters, and the name and help of what it runs."""
    update_wrapper(called, run)
    parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in flags]
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called
