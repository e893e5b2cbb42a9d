"""The error for an optional part of the package that was not installed."""

from __future__ import annotations


def needs_extra(part: str, extra: str, error: ModuleNotFoundError) -> ImportError:
    """Return the error that says how to install what could not be imported.

    >>> needs_extra("spark_integration", "spark", ModuleNotFoundError(name="pyspark.sql"))
    ImportError('spark_integration needs pyspark: pip install "noted-time[spark]"')
    """
    missing, _, _ = (error.name or str(error)).partition(".")
    return ImportError(f'{part} needs {missing}: pip install "noted-time[{extra}]"', name=missing)
