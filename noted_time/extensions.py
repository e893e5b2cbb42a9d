"""Finds extensions: packages in the namespace `noted_time_extensions`, each with a module `plug`.

A plug declares what its extension adds, as text. Nothing else of an extension is imported until it
is used, and the core knows no extension by its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple, Protocol

EXTENSION_NAMESPACE = "noted_time_extensions"


class Command(NamedTuple):
    """A command that an extension adds.

    - `words`: what to type after `noted-time`, such as ``observe log``. All words but the last name
      a group of commands that exists.
    - `panel`: the panel of `noted-time --help` that shows it.
    - `help`: its line there.
    - `function`: ``module:name`` of the function, or of the `typer.Typer` of a group of commands.
    """

    words: str
    panel: str
    help: str
    function: str


class Plug(Protocol):
    """The declarations of a module `plug`. It may leave out any of them."""

    COMMANDS: Sequence[Command]


class Extension(NamedTuple):
    """An extension, and what its plug declares."""

    name: str
    commands: tuple[Command, ...] = ()


class FoundExtensions(NamedTuple):
    """The extensions on Python's path, and why others of them are not used, by name."""

    used: tuple[Extension, ...] = ()
    unused: Mapping[str, str] = {}

    def refuse(self, reasons: Mapping[str, str]) -> FoundExtensions:
        """Return them without these extensions, for these reasons."""
        used = tuple(each for each in self.used if each.name not in reasons)
        return FoundExtensions(used, {**self.unused, **reasons})


def find_extensions() -> FoundExtensions:
    """Read the plugs of all extensions.

    An extension is not used if its plug cannot be read, or if another one declares the same
    command.
    """
    used: list[Extension] = []
    unused: dict[str, str] = {}
    for name in sorted(_list_names()):
        try:
            used.append(_read_plug(name))
        except Exception as error:  # noqa: BLE001 - a broken extension must not stop the others
            unused[name] = f"its plug cannot be read: {type(error).__name__}: {error}"
    found = FoundExtensions(tuple(used), unused)
    return found.refuse(find_shared_commands(found.used))


def _list_names() -> Iterator[str]:
    try:
        namespace = import_module(EXTENSION_NAMESPACE)
    except ModuleNotFoundError:
        return
    for module in iter_modules(namespace.__path__):
        yield module.name


def _read_plug(name: str) -> Extension:
    plug = import_module(f"{EXTENSION_NAMESPACE}.{name}.plug")
    commands = tuple(Command(*declared) for declared in getattr(plug, "COMMANDS", ()))
    return Extension(name, commands)


def find_shared_commands(extensions: Iterable[Extension]) -> dict[str, str]:
    """Return the extensions that declare a command which another one declares, with the reason.

    >>> copy = Command("copy", "Read a stream", "Copy a stream.", "copying:copy")
    >>> extensions = Extension("a", (copy,)), Extension("b", (copy,)), Extension("c")
    >>> find_shared_commands(extensions)["a"]
    "the extensions a and b both have the command 'copy': remove one of them"
    """
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for extension in extensions:
        for command in extension.commands:
            owners[command.words].append(extension.name)
    reasons: dict[str, str] = {}
    for words, names in owners.items():
        if len(names) > 1:
            reason = f"the extensions {' and '.join(names)} both have the command {words!r}"
            reasons |= dict.fromkeys(names, f"{reason}: remove one of them")
    return reasons
