"""Names that are imported when they are first used, and the error if that cannot be done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any

from noted_time.values import Rejected


def build_import_error(part: str, extra: str, error: ModuleNotFoundError) -> ImportError:
    """Return the error that says how to install what could not be imported.

    >>> error = build_import_error("a", "spark", ModuleNotFoundError(name="pyspark.sql"))
    >>> str(error).partition(": ")[0], error.name
    ('a needs pyspark', 'pyspark')
    """
    from noted_time.installation import install_command  # noqa: PLC0415 - the error alone needs it

    missing, _, _ = (error.name or str(error)).partition(".")
    return ImportError(f"{part} needs {missing}: {install_command(extra)}", name=missing)


def import_lazily(package: str, names: Mapping[str, tuple[str, str]], name: str) -> object:
    """Return what a package imports when it is first used: by name its module, and extra or "".

    Raises `AttributeError` for another name, and `ImportError` that says what to install.
    """
    if name not in names:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module, extra = names[name]
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise build_import_error(f"{package}.{name}", extra, error) from None


def load_function(name: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` names; the present directory is searched, too.

    >>> load_function("posixpath:join")("a", "b")
    'a/b'

    Raises `Rejected` if it cannot be imported, whatever its module raises.
    """
    module, _, function = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Callable[..., Any] = attrgetter(function)(import_module(module))
    except Exception as error:
        raise Rejected(
            f"the function {name!r} cannot be imported: {error}. Write it as module:function, and "
            f"put the module on the PYTHONPATH of {sys.executable}"
        ) from error
    return found
