"""Names that are imported when they are first used, and the error if an extra is missing."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module


def needs_extra(part: str, extra: str, error: ModuleNotFoundError) -> ImportError:
    """Return the error that says how to install what could not be imported.

    >>> needs_extra("spark_integration", "spark", ModuleNotFoundError(name="pyspark.sql"))
    ImportError('spark_integration needs pyspark: pip install "noted-time[spark]"')
    """
    missing, _, _ = (error.name or str(error)).partition(".")
    wanted = f'"noted-time[{extra}]"' if extra else "noted-time"
    return ImportError(f"{part} needs {missing}: pip install {wanted}", name=missing)


def imported(package: str, names: Mapping[str, tuple[str, str]], name: str) -> object:
    """Return what a package imports when it is first used: by name its module, and extra or "".

    Raises `AttributeError` for another name, and `ImportError` that says what to install.
    """
    if name not in names:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module, extra = names[name]
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise needs_extra(f"{package}.{name}", extra, error) from error
