"""Build the reference of the Python interface from the docstrings: `./run docs [DIRECTORY]`.

Every warning is an error, and so is a page that would load anything from the network.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import typing
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pdoc

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "build" / "reference"
PACKAGES = (
    "noted_time",
    "writer_client",
    "reader_client",
    "spark_integration",
    "noted_time_extensions.files",
    "noted_time_extensions.observe",
    "noted_time_extensions.tables",
)
INTERNAL = rf"!({'|'.join(re.escape(package) for package in PACKAGES)})\."
"""The modules inside the packages: what is public is named in the packages themselves."""

NOT_OURS = (
    r".*'array\.array' is not subscriptable",  # before Python 3.12
    r".*name 'SparkSession' is not defined",  # in a method inherited from PySpark
)
"""Warnings of annotations that a library or an old Python cannot resolve."""

LOADS = re.compile(
    r"""<(?:script|link(?!\ rel="canonical")|img|iframe|source)
      \b[^>]*?\b(?:src|href)\s*=\s*["']?((?:https?:)?//[^"'\s>]+)
    | url\(\s*["']?((?:https?:)?//[^"')]+) | @import\s+["']?((?:https?:)?//[^"';]+)
    | \b(?:fetch|import|importScripts)\(\s*["'`]((?:https?:)?//[^"'`]+)""",
    re.VERBOSE,
)


ANCHOR_ID = re.compile(r'\bid="([^"]+)"')

LOCAL_LINK = re.compile(r'<a href="#([^"]+)">(.*?)</a>')


def build(target: Path, templates: Path | None = None) -> None:
    """Write the pages into a directory; raises the first warning.

    With templates they have neither pdoc's search nor sources: these are for the pages of a site.
    """
    import_with_types()
    is_alone = templates is None
    pdoc.render.configure(
        docformat="google",
        footer_text="noted-time",
        search=is_alone,
        show_source=is_alone,
        template_directory=templates,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for message in NOT_OURS:
            warnings.filterwarnings("ignore", message=message)
        pdoc.pdoc(*PACKAGES, INTERNAL, output_directory=target)
    for page in target.rglob("*.html"):
        page.write_text(drop_dead_links(page.read_text("utf-8")), "utf-8")


def drop_dead_links(page: str) -> str:
    """Replace the links to anchors that a page does not have by their texts.

    pdoc links the name of a parameter to an attribute of that name, also to one without a text.

    >>> drop_dead_links('<p id="a"><a href="#a">a</a> <a href="#b">b</a></p>')
    '<p id="a"><a href="#a">a</a> b</p>'
    """
    anchors = set(ANCHOR_ID.findall(page))
    return LOCAL_LINK.sub(lambda link: link[0] if link[1] in anchors else link[2], page)


def import_with_types() -> None:
    """Import the packages, and then what only their annotations name, in circles if need be."""
    public_objects = []
    for package_name in PACKAGES:
        package = importlib.import_module(package_name)
        public_objects += [getattr(package, name) for name in package.__all__]
    typed_modules: set[str] = set()
    while fresh := {name for name in sys.modules if is_ours(name)} - typed_modules:
        imported_modules = {name for name in fresh if import_types(sys.modules[name])}
        if not imported_modules:
            raise ImportError(f"what annotations name is not there: {sorted(fresh)}")
        typed_modules |= imported_modules
    for public in public_objects:
        if isinstance(public, type) and issubclass(public, tuple):
            # the constructor of a named tuple does not know the module that its annotations are of
            public.__new__.__annotations__ = typing.get_type_hints(public)
        if isinstance(public, type):
            adopt_inherited(public)


def is_ours(module: str) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in PACKAGES)


def adopt_inherited(public: type) -> None:
    """Give a public class what it has of classes that are internal, which have no page."""
    internal = [base for base in public.__mro__[1:] if is_ours(base.__module__)]
    for base in internal:
        for name, value in vars(base).items():
            if not name.startswith("_") and name not in vars(public):
                setattr(public, name, value)
    if internal:
        vars_of_generics = "__orig_bases__"  # where pdoc would look first
        setattr(public, vars_of_generics, ())


def import_types(module: ModuleType) -> bool:
    """Run what a module imports for its annotations alone; returns whether all of it was there.

    Another module may have it for its annotations alone, and not yet.
    """
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            imports = ast.Module(node.body, [])
            try:
                exec(compile(imports, module.__name__, "exec"), vars(module))  # noqa: S102 - our own
            except ImportError:
                return False
    return True


def loaded_from_elsewhere(page: str) -> list[str]:
    """Return the addresses that a browser would fetch to show the page; links are none."""
    return ["".join(address) for address in LOADS.findall(page)]


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
