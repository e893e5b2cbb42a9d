"""References of the architecture pages exist, and modules depend on each other as drawn."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest

from tests.support.core_tests import WITH_EXTENSIONS
from tests.tooling.wheels import EXTENSIONS, PACKAGES

REFERENCE = re.compile(r"`([\w.-]+/[\w./-]*)(?:::([\w.]+))?`")

CODE = re.compile(r"`([^`\n]*(?:\.py|::)[^`\n]*)`")

DRAWING = re.compile(r"^```\n(controller/.*?)^```$", re.MULTILINE | re.DOTALL)

ROW = re.compile(r"^controller/([\w/]+)/ |\b(\w+\.py)\b", re.MULTILINE)

STEP = re.compile(r"^\d+\. \*\*(\w+)\.\*\*", re.MULTILINE)


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """Return the page."""
    return (root / "docs" / "explain" / "architecture.md").read_text(encoding="utf-8")


@cache
def definitions(file: Path) -> frozenset[str]:
    """Return the definitions of a module, methods and class attributes as `Class.name`."""
    return frozenset(_list_definitions(ast.parse(file.read_text(encoding="utf-8")).body))


def _list_definitions(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name
            yield from _list_definitions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))


def modules(root: Path) -> dict[str, set[str]]:
    """Return the modules of each folder of the controller."""
    controller = root / "controller"
    modules_by_folder: dict[str, set[str]] = {}
    for file in controller.rglob("*.py"):
        if file.stem != "__init__" and file.parent != controller:
            modules_by_folder.setdefault(file.parent.relative_to(controller).as_posix(), set()).add(
                file.name
            )
    return modules_by_folder


def drawn(page: str) -> dict[str, set[str]]:
    """Return the modules that the drawing of the layers has under each folder."""
    drawing = DRAWING.search(page)
    assert drawing is not None
    layers: dict[str, set[str]] = {}
    folder = ""
    for folder_name, module in ROW.findall(drawing[1]):
        folder = folder_name or folder
        layers.setdefault(folder, set()).update([module] if module else [])
    return layers


@pytest.mark.parametrize(
    ("walk", "most"), [("One note", 8), ("One removal", 6), ("One mark into a micro-batch", 8)]
)
def test_a_walk_is_short(page: str, walk: str, most: int) -> None:
    """A longer walk is hard to follow."""
    section = page.partition(f"\n## {walk}\n")[2].partition("\n## ")[0]

    assert 0 < len(STEP.findall(section)) <= most


@pytest.mark.parametrize("name", ["architecture", "theory"])
def test_every_reference_leads_to_a_definition(root: Path, name: str) -> None:
    """A function that is renamed or moved is renamed on the page too."""
    page = (root / "docs" / "explain" / f"{name}.md").read_text(encoding="utf-8")
    for path, definition in REFERENCE.findall(page):
        assert (root / path).exists()
        assert not definition or definition in definitions(root / path)


def test_module_names_the_invariant_that_it_keeps(root: Path) -> None:
    page = (root / "docs" / "explain" / "theory.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| (.*?) \|", page, re.MULTILINE)

    assert [number for number, _ in rows] == list("1234567")
    for number, keepers in rows:
        for path, _ in REFERENCE.findall(keepers):
            assert f"invariant {number} of docs/explain/theory.md" in (root / path).read_text()


def test_references_have_one_form(page: str) -> None:
    """One that the pattern does not know would not be checked."""
    other = [code for code in CODE.findall(page) if not REFERENCE.fullmatch(f"`{code}`")]

    assert other == ["path.py::Name"]  # which explains the form


def test_the_drawing_has_every_module_under_its_folder(root: Path, page: str) -> None:
    """A new module or folder of the controller gets its place in it."""
    assert drawn(page) == modules(root)


# How the modules of the project depend on each other


def test_modules_have_no_import_cycle() -> None:
    """Types count, too, so that each module can be read with the modules below it alone."""
    extensions = [f"noted_time_extensions.{name}" for name in EXTENSIONS]
    graph = grimp.build_graph(*PACKAGES[:-1], *extensions, cache_dir=None)
    circles = []
    for importer in graph.modules:
        for imported_module in graph.find_modules_directly_imported_by(importer):
            if graph.chain_exists(importer=imported_module, imported=importer):
                circles.append((importer, imported_module))

    assert circles == []


PLANNED = (
    "spark_integration.marks_source.source",
    "spark_integration.marks_source.topics",
    "noted_time_extensions.files.spark.log_source",
    "noted_time_extensions.files.spark.segments",
    "noted_time_extensions.files.spark.window_source",
)

UNUSED = ("asyncio", "noted_time.rules", "reader_client.client", "writer_client.client")


def test_planner_imports_neither_rules_nor_clients() -> None:
    """Spark starts up to five of them for a query, and each pays for all that it imports."""
    program = "; ".join(f"import {module}" for module in PLANNED)
    program += f"; import sys; print([each for each in {UNUSED} if each in sys.modules])"

    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


FACES = (
    "noted_time",
    "noted_time.answers",
    "noted_time.client",
    "noted_time.kafka",
    "noted_time.lineage",
    "noted_time.observing",
    "noted_time.verdict",
    "reader_client",
    "reader_client.protocol.datasets",
    "reader_client.protocol.hops",
    "writer_client",
    "spark_integration",
)

FEATURES = ("noted_time_extensions", "writer_client.kafka")


def test_faces_import_no_feature() -> None:
    """A name of a feature is imported on its first use."""
    program = "; ".join(f"import {module}" for module in FACES)
    program += f"; import sys; print([each for each in {FEATURES} if each in sys.modules])"

    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


def test_tests_of_the_core_import_no_extension() -> None:
    """They run in a copy without the folder of extensions."""
    prefixes = tuple(f"{folder.replace('/', '.')}." for folder in WITH_EXTENSIONS)
    roots = ("tests", "tools", "demo", "benchmarks")
    graph = grimp.build_graph(*roots, include_external_packages=True, cache_dir=None)
    importers = [
        module
        for module in graph.find_downstream_modules("noted_time_extensions")
        if module.startswith("tests.") and not module.startswith(prefixes)
    ]

    assert importers == []
