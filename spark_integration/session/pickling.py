"""Pickles our objects for the Python processes that Spark starts.

A Python without this package cannot load a class, which is pickled by its name. So an object is
sent with a function that loads it or names the remedy, and is nested, to be pickled by value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource


class Picklable:
    """Base class of objects that Spark pickles; `__getstate__` selects their state."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return _make_unpickler(), (_pickle(type(self), self.__getstate__()),)


def make_source_class(source: type[DataSource], source_name: str) -> type[DataSource]:
    """Return a class that Spark registers under a name, and that creates a `source`."""
    unpack = _make_unpickler()
    pickled_source = _pickle(source, {})

    class Source(DataSource):
        def __new__(cls, options: MutableMapping[str, str]) -> DataSource:  # type: ignore[misc]
            data_source: DataSource = type(unpack(pickled_source))(options)
            return data_source

        @classmethod
        def name(cls) -> str:
            return source_name

    return Source


def _pickle(kind: type, state: object) -> bytes:
    pickled_bytes: bytes = cloudpickle.dumps((kind, state))  # type: ignore[no-untyped-call]
    return pickled_bytes


def _make_unpickler() -> Callable[[bytes], Any]:
    """Return a function that needs only the standard library."""
    driver = sys.executable

    def unpack(pickled_bytes: bytes) -> Any:  # noqa: ANN401 - any object
        import pickle  # noqa: PLC0415
        import socket  # noqa: PLC0415

        try:
            kind, state = pickle.loads(pickled_bytes)  # noqa: S301 - our own
        except ImportError as error:  # a `ModuleNotFoundError`, or what `needs_extra` returns
            if error.name is None or error.name in sys.modules:
                raise
            raise ImportError(
                f"{sys.executable} on {socket.gethostname()} has no module {error.name!r}, which "
                "every Python that Spark starts needs, next to the driver and on the workers. The "
                f"driver's {driver} has it: set PYSPARK_PYTHON to such a Python, install "
                "noted-time with its extra spark there, or ship it by spark.archives or by "
                "spark.executorEnv.PYTHONPATH (and PYTHONPATH in the environment of a Connect "
                "server); pyFiles, addPyFile and addArtifacts do not reach the processes that plan "
                "a stream"
            ) from error
        instance = object.__new__(kind)
        instance.__dict__.update(state)
        return instance

    return unpack
