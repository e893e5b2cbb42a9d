"""Flags shared by several commands: the fields of a dataclass become flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from typing import Any

import typer

from noted_time.installation import name_program
from noted_time_cli.terminal.output import report_errors

CommandFunction = Callable[..., None]


def command(run: CommandFunction) -> CommandFunction:
    """Make a function a command that prints an error as a sentence."""
    flags, gather = unfold_flags(run)

    def run_command(**values: Any) -> None:  # noqa: ANN401 - as the command's
        with report_errors():
            run(**gather(values))

    return set_flags(run_command, flags, run)


def unfold_flags(
    run: Callable[..., object], *hidden_names: str
) -> tuple[list[Parameter], Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return the flags of a function, and a function that makes its arguments of their values.

    The fields of a dataclass take the place of its parameter.
    """
    flags: list[Parameter] = []
    classes: dict[str, Any] = {}
    for name, parameter in list_flags(run).items():
        if name in hidden_names:
            continue
        if is_dataclass(parameter.annotation):
            classes[name] = parameter.annotation
            flags += list_flags(classes[name]).values()
        else:
            flags.append(parameter)

    def gather_arguments(values: dict[str, Any]) -> dict[str, Any]:
        for name, options_class in classes.items():
            fields = {field: values.pop(field) for field in list_flags(options_class)}
            values[name] = options_class(**fields)
        return values

    return flags, gather_arguments


def group_command(
    group: typer.Typer, name: str | None = None
) -> Callable[[CommandFunction], CommandFunction]:
    add_command = group.command(name=name)

    def add(run: CommandFunction) -> CommandFunction:
        return add_command(command(run))

    return add


def list_flags(run: Callable[..., object]) -> dict[str, Parameter]:
    return dict(signature(run, eval_str=True).parameters)


def refuse_options(context: typer.Context, why: str, *names: str) -> None:
    """Refuse the options of these parameters on the command line, because they have no effect."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"{parameter.opts[0]} has no effect {why}: leave it out")


def set_program(text: str) -> str:
    """Let the first command in a help text begin with the program's name."""
    return text.replace(":  noted-time ", f":  {name_program()} ", 1)


def set_flags(
    run_command: CommandFunction, flags: Iterable[Parameter], run: CommandFunction
) -> CommandFunction:
    update_wrapper(run_command, run)
    run_command.__doc__ = set_program(run.__doc__ or "")
    parameters = [flag.replace(kind=Parameter.KEYWORD_ONLY) for flag in flags]
    run_command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run_command.__annotations__ = {flag.name: flag.annotation for flag in parameters}
    return run_command
