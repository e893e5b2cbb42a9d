"""Build the reference of the Python interface from the docstrings: `./run docs [DIRECTORY]`.

Every warning is an error, and so is a page that would load anything from the network.
"""

from __future__ import annotations

import importlib
import re
import sys
import typing
import warnings
from pathlib import Path

import pdoc

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "build" / "reference"
PACKAGES = ("noted_time", "writer_client", "reader_client", "spark_integration")
INTERNAL = rf"!({'|'.join(PACKAGES)})\."
"""The modules inside the packages: what is public is named in the packages themselves."""

NOT_OURS = (
    r".*'array\.array' is not subscriptable",  # before Python 3.12
    r".*name 'SparkSession' is not defined",  # in a method inherited from PySpark
)
"""Warnings of annotations that a library or an old Python cannot resolve."""

LOADS = re.compile(
    r"""<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)\s*=\s*["']?((?:https?:)?//[^"'\s>]+)
    | url\(\s*["']?((?:https?:)?//[^"')]+) | @import\s+["']?((?:https?:)?//[^"';]+)
    | \b(?:fetch|import|importScripts)\(\s*["'`]((?:https?:)?//[^"'`]+)""",
    re.VERBOSE,
)


def build(target: Path) -> None:
    """Write the pages into a directory; raises the first warning."""
    import_with_types()
    pdoc.render.configure(docformat="google", footer_text="noted-time")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for message in NOT_OURS:
            warnings.filterwarnings("ignore", message=message)
        pdoc.pdoc(*PACKAGES, INTERNAL, output_directory=target)


def import_with_types() -> None:
    """Import the packages together with what only their annotations name.

    Libraries come first: theirs may import each other in circles, ours never do.
    """
    for library in ("httpx", "msgspec", "pyarrow.parquet", "pyspark.sql.datasource"):
        importlib.import_module(library)
    typing.TYPE_CHECKING = True  # type: ignore[misc]
    packages = [importlib.import_module(package) for package in PACKAGES]
    typing.TYPE_CHECKING = False  # type: ignore[misc]
    for public in (getattr(package, name) for package in packages for name in package.__all__):
        if isinstance(public, type) and issubclass(public, tuple):
            # the constructor of a named tuple does not know the module that its annotations are of
            public.__new__.__annotations__ = typing.get_type_hints(public)


def loaded_from_elsewhere(page: str) -> list[str]:
    """Return the addresses that a browser would fetch to show the page; links are none."""
    return ["".join(found) for found in LOADS.findall(page)]


def main(arguments: list[str]) -> int:
    """Build into the directory that is given, or `build/reference`; returns an exit code."""
    target = Path(arguments[0]) if arguments else TARGET
    build(target)
    pages = sorted(path for path in target.rglob("*") if path.is_file())
    loads = {page.name: loaded_from_elsewhere(page.read_text("utf-8")) for page in pages}
    for name, addresses in loads.items():
        for address in addresses:
            print(f"{name} loads {address}", file=sys.stderr)
    print(target / "index.html")
    return 1 if any(loads.values()) else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
