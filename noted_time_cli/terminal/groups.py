"""Groups of commands."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from noted_time.extensions import describe_absence
from noted_time.wording.faults import describe_unknown, place_faults, shorten
from noted_time_cli.terminal.flags import set_program


class CommandGroup(TyperGroup):
    """Lists the commands if one is unknown, and states the bounds of an invalid value."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as typer's
        super().__init__(*arguments, **options)
        self.help = set_program(self.help or "")

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - as typer's
        return hide_flag_types(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - as typer's
        """Return the names of the commands. Commands of extensions are the last ones."""
        words = super().list_commands(ctx)
        return sorted(words, key=lambda word: hasattr(self.commands[word], "declared"))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - as typer's
        name = args[0]
        if not (name in self.commands or name.startswith("-") or ctx.resilient_parsing):
            ctx.fail(_explain_absence(ctx, name, [*self.commands, "--help"]))
        resolved_name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            hide_flag_types(command.get_params(ctx))
        return resolved_name, command, rest

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as typer's
        """Replace the words of pydantic, which typer repeats, by the words of the API."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            faults: list[Any] = getattr(error.__cause__, "errors", list)()
            if faults:
                error.message = place_faults(faults)[0][1]
            raise


def _explain_absence(ctx: Any, name: str, names: list[str]) -> str:  # noqa: ANN401 - as typer's
    """Return why a group has no command of this name."""
    absence = describe_absence(" ".join((*_list_words(ctx), name)))
    if absence is not None:
        return absence
    return f"{shorten(name)!r} is an {describe_unknown('command', name, names)}"


def _list_words(ctx: Any) -> list[str]:  # noqa: ANN401 - as typer's
    """Return the words after `noted-time` that call the group."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, ctx.info_name)
        ctx = ctx.parent
    return words


def hide_flag_types(options: list[Any]) -> list[Any]:
    """Prevent `<bool>` in help, because a flag takes no value."""
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options
