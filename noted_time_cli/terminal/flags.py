"""Flags as values: what several commands have is a dataclass, whose fields are flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from itertools import chain
from typing import Any

import typer

from noted_time_cli.terminal.output import ended_in_a_sentence

Command = Callable[..., None]


def command(run: Command) -> Command:
    """Make a function a command: its own flags, then the fields of each dataclass that it takes.

    An error is printed as a sentence.
    """
    own = flags_of(run)
    values: dict[str, Any] = {
        name: each.annotation for name, each in own.items() if is_dataclass(each.annotation)
    }
    fields = {name: flags_of(of) for name, of in values.items()}
    plain = {name: each for name, each in own.items() if name not in values}

    def called(**given: Any) -> None:  # noqa: ANN401 - as the command's
        for name, of in values.items():
            given[name] = of(**{field: given.pop(field) for field in fields[name]})
        with ended_in_a_sentence():
            run(**given)

    return with_flags(called, chain(*(each.values() for each in (plain, *fields.values()))), run)


def command_of(group: typer.Typer, name: str | None = None) -> Callable[[Command], Command]:
    """Make a function a command of a group, as `command` does."""
    return lambda run: group.command(name=name)(command(run))


def flags_of(run: Callable[..., object]) -> dict[str, Parameter]:
    """Return the parameters of a function or class, with the types that they have."""
    return dict(signature(run, eval_str=True).parameters)


def with_flags(called: Command, flags: Iterable[Parameter], run: Command) -> Command:
    """Return what is called, with these parameters, and the name and help of what it runs."""
    update_wrapper(called, run)
    parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in flags]
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called
