"""Imports names on first use, and reports missing packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from typing import Any

from noted_time.values import Rejected


@contextmanager
def require_extra(part: str, extra: str) -> Iterator[None]:
    """If a package is missing, raise `ImportError` with the command that installs the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        from noted_time.installation import install_command  # noqa: PLC0415 - only for the error

        missing_package, _, _ = (error.name or str(error)).partition(".")
        sentence = f"{part} needs {missing_package}: {install_command(extra)}"
        raise ImportError(sentence, name=missing_package) from None


def import_lazily(package: str, names: Mapping[str, tuple[str, str]], name: str) -> object:
    """Return a name that a package imports on first use.

    `names` maps each name to its module and extra, or "".
    """
    if name not in names:
        _refuse_moved(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module, extra = names[name]
    with require_extra(f"{package}.{name}", extra):
        return getattr(import_module(module), name)


def _refuse_moved(name: str) -> None:
    from noted_time.own_extensions import MOVED_NAMES  # noqa: PLC0415 - only for the error

    if name in MOVED_NAMES:
        raise ImportError(f"{name} is {MOVED_NAMES[name]} now", name=name)


def load_function(name: str) -> Callable[..., Any]:
    """Return the function for ``module:function``, which may be in the current directory.

    >>> load_function("posixpath:join")("a", "b")
    'a/b'
    """
    module, _, function = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        loaded_function: Callable[..., Any] = attrgetter(function)(import_module(module))
    except Exception as error:
        raise Rejected(
            f"the function {name!r} cannot be imported: {error}. Write it as module:function, and "
            f"put the module on the PYTHONPATH of {sys.executable}"
        ) from error
    return loaded_function
