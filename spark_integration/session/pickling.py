"""How our objects reach the Pythons that Spark starts, and the error where one cannot load them.

A class is pickled by its name, which a Python without the package cannot load: the error then names
a module and no remedy. So a function is sent that loads them, and a function within another one
is pickled by value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource


class Picklable:
    """An object that Spark pickles, by `cloudpickle`: its class and what `__getstate__` returns."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        """Return a function that restores it, or raises an `ImportError` that names the remedy."""
        return _make_unpickler(), (_pickle(type(self), self.__getstate__()),)


def make_source_class(source: type[DataSource], source_name: str) -> type[DataSource]:
    """Return a class for Spark to register under a name, whose instances are those of `source`."""
    unpacked, packed = _make_unpickler(), _pickle(source, {})

    class Source(DataSource):
        def __new__(cls, options: MutableMapping[str, str]) -> DataSource:  # type: ignore[misc]
            made: DataSource = type(unpacked(packed))(options)
            return made

        @classmethod
        def name(cls) -> str:
            return source_name

    return Source


def _pickle(kind: type, state: object) -> bytes:
    packed: bytes = cloudpickle.dumps((kind, state))  # type: ignore[no-untyped-call]
    return packed


def _make_unpickler() -> Callable[[bytes], Any]:
    """Return a function that needs nothing but Python."""
    driver = sys.executable

    def unpacked(packed: bytes) -> Any:  # noqa: ANN401 - whatever was packed
        import pickle  # noqa: PLC0415
        import socket  # noqa: PLC0415

        try:
            kind, state = pickle.loads(packed)  # noqa: S301 - our own
        except ImportError as error:  # a `ModuleNotFoundError`, or what `needs_extra` returns
            if error.name is None or error.name in sys.modules:
                raise
            raise ImportError(
                f"{sys.executable} on {socket.gethostname()} has no module {error.name!r}, which "
                "each Python that Spark starts needs, beside the driver as on the workers, and "
                f"which {driver} of the driver has: set PYSPARK_PYTHON to such a Python, install "
                "noted-time with its extra spark there, or ship it by spark.archives or by "
                "spark.executorEnv.PYTHONPATH (and PYTHONPATH in the environment of a Connect "
                "server); pyFiles, addPyFile and addArtifacts do not reach the processes that plan "
                "a stream"
            ) from error
        made = object.__new__(kind)
        made.__dict__.update(state)
        return made

    return unpacked
