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


class Scheme(NamedTuple):
    """The names of datasets that an extension opens: they begin with the scheme and a colon.

    - `kind`: the kind of such a dataset in the answers of `why`, such as ``table``.
    - `opener`: ``module:function``. The function gets a `noted_time.extending.Dataset`, `names` and
      `asking`, and returns a `reader_client.extending.FeatureDataset`.
    """

    kind: str
    opener: str


class Plug(Protocol):
    """The declarations of a module `plug`. It may leave out any of them."""

    COMMANDS: Sequence[Command]
    DATASETS: Mapping[str, Scheme]
    CHECKS: Mapping[str, str]
    """Checks of `noted-time doctor`, by the option whose value they check, such as ``log``.

    Each is ``module:function``. The function gets the value and the stream, and returns
    `noted_time_cli.extending.Finding`s.
    """


class Extension(NamedTuple):
    """An extension, and what its plug declares."""

    name: str
    commands: tuple[Command, ...] = ()
    datasets: Mapping[str, Scheme] = {}
    checks: Mapping[str, str] = {}

    def list_declared(self) -> Iterator[str]:
        """Yield the names that no other extension may declare, too."""
        for command in self.commands:
            yield f"the command {command.words!r}"
        for scheme in self.datasets:
            yield f"the scheme {scheme!r}"
        for option in self.checks:
            yield f"the check {name_check(option)!r}"


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
    command, scheme or check.
    """
    used_extensions: list[Extension] = []
    unused_reasons: dict[str, str] = {}
    for name in sorted(_list_names()):
        try:
            used_extensions.append(_read_plug(name))
        except Exception as error:  # noqa: BLE001 - a broken extension must not stop the others
            unused_reasons[name] = f"its plug cannot be read: {type(error).__name__}: {error}"
    extensions = FoundExtensions(tuple(used_extensions), unused_reasons)
    return extensions.refuse(find_rivals(extensions.used))


def find_scheme(name: str) -> Scheme | None:
    """Return the scheme of a dataset's name, `None` if no extension opens it.

    >>> find_scheme("orders"), find_scheme("s3://lake/state")
    (None, None)
    """
    scheme_name, colon, _ = name.partition(":")
    if not colon:
        return None
    for extension in find_extensions().used:
        if scheme_name in extension.datasets:
            return extension.datasets[scheme_name]
    return None


def find_check(option: str) -> str | None:
    """Return the function that checks an option of `noted-time doctor`, `None` without one."""
    for extension in find_extensions().used:
        if option in extension.checks:
            return extension.checks[option]
    return None


def name_check(option: str) -> str:
    """Return the words that call a check.

    >>> name_check("log")
    'doctor --log'
    """
    return f"doctor --{option}"


def describe_absence(name: str) -> str | None:
    """Return why a name of noted-time's extensions is unknown here, `None` for other names.

    `name` is the words of a command or check, or a scheme with its colon.
    """
    from noted_time.installation import install_command  # noqa: PLC0415 - only for the error
    from noted_time.own_extensions import OWN_NAMES  # noqa: PLC0415 - likewise

    extension = OWN_NAMES.get(name)
    if extension is None:
        return None
    reason = find_extensions().unused.get(extension)
    if reason is None:
        reason = f"it is not installed: {install_command('')}"
    return f"{name!r} is of the extension {extension}, and {reason}"


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
    datasets: Mapping[str, Scheme] = getattr(plug, "DATASETS", {})
    schemes = {each: Scheme(*datasets[each]) for each in datasets}
    return Extension(name, commands, schemes, getattr(plug, "CHECKS", {}))


def find_rivals(extensions: Iterable[Extension]) -> dict[str, str]:
    """Return the extensions that declare the same as another one, with the reason.

    >>> copy = Command("copy", "Read a stream", "Copy a stream.", "copying:copy")
    >>> extensions = Extension("a", (copy,)), Extension("b", (copy,)), Extension("c")
    >>> find_rivals(extensions)["a"]
    "the extensions a and b both have the command 'copy': remove one of them"
    """
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for extension in extensions:
        for declaration in extension.list_declared():
            owners[declaration].append(extension.name)
    reasons: dict[str, str] = {}
    for declaration, names in owners.items():
        if len(names) > 1:
            reason = f"the extensions {' and '.join(names)} both have {declaration}"
            reasons |= dict.fromkeys(names, f"{reason}: remove one of them")
    return reasons
