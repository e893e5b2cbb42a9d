"""Commands of extensions: they are listed by their plugs, and imported when they are called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand

from noted_time.extensions import Command, Extension, FoundExtensions
from noted_time_cli.terminal.groups import CommandGroup, hide_flag_types
from noted_time_cli.terminal.output import fail


def plug_in(groups: Mapping[str, typer.Typer], extensions: FoundExtensions) -> FoundExtensions:
    """Add the commands of extensions to groups, each named by the words that call it.

    Returns the extensions, less the ones with a command that cannot be added.
    """
    reasons = {
        extension.name: reason
        for extension in extensions.used
        if (reason := _find_misfit(groups, extension))
    }
    fitting_extensions = extensions.refuse(reasons)
    for extension in fitting_extensions.used:
        for command in extension.commands:
            group, _, word = command.words.rpartition(" ")
            _add_command(groups[group], word, command, extension.name)
    return fitting_extensions


def _find_misfit(groups: Mapping[str, typer.Typer], extension: Extension) -> str | None:
    for command in extension.commands:
        group, _, word = command.words.rpartition(" ")
        if group not in groups:
            return f"there is no group of commands {group!r} for its command {command.words!r}"
        if word in _list_words(groups[group]):
            return f"noted-time has a command {command.words!r} already"
    return None


def _list_words(group: typer.Typer) -> set[str]:
    return set(typer.main.get_group(group).commands)


def _add_command(group: typer.Typer, word: str, command: Command, extension: str) -> None:
    class Plugged(PluggedCommand):
        declared = command
        owner = extension

    def call_nothing() -> None:
        """Stand for the command until it is called."""

    add = group.command(word, cls=Plugged, short_help=command.help, rich_help_panel=command.panel)
    add(call_nothing)


class PluggedCommand(TyperCommand):
    """Stands for a command of an extension, which a call imports."""

    declared: ClassVar[Command]
    owner: ClassVar[str]

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: Any = None,  # noqa: ANN401 - as typer's
        **extra: Any,  # noqa: ANN401 - likewise
    ) -> Any:  # noqa: ANN401 - likewise
        command = self.load()
        hide_flag_types(command.get_params(parent))
        return command.make_context(info_name, args, parent=parent, **extra)

    def load(self) -> Any:  # noqa: ANN401 - a command or a group
        """Return the command or group of the extension. Ends the program if there is none."""
        word = self.name or ""
        module, _, name = self.declared.function.partition(":")
        try:
            function = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            fail(f"the extension {self.owner} cannot be loaded: {error}", status=2)
        group = typer.Typer(rich_markup_mode="markdown")
        if isinstance(function, typer.Typer):
            group.add_typer(function, name=word, cls=CommandGroup)
        else:
            group.command(word)(function)
        return typer.main.get_group(group).commands[word]
