"""The dashboard's files are read as they are: without a linter, these tests keep them readable."""

import re
from graphlib import TopologicalSorter

import pytest

from tests.tooling.wheels import ROOT

FOLDER = ROOT / "controller" / "api" / "dashboard"
TEXTS = {each.name: each.read_text("utf-8") for each in FOLDER.iterdir()}
MODULES = sorted(name for name in TEXTS if name.endswith(".js"))
MOST_LINES = 250
MOST_COLUMNS = 120

IMPORT = re.compile(r'^import \{([^}]*)\}\s*from "\./([\w.]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?:async )?(?:const|let|function|class) ([\w$]+)", re.MULTILINE)


def imports(module: str) -> dict[str, set[str]]:
    """Return what a module imports from which others."""
    found = IMPORT.findall(TEXTS[module])
    return {other: set(re.findall(r"[\w$]+", names)) for names, other in found}


@pytest.mark.parametrize("name", TEXTS)
def test_files_and_their_lines_are_short(name: str) -> None:
    """So that a part can be read at once; a tab would hide how long a line is."""
    lines = TEXTS[name].splitlines()

    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= MOST_COLUMNS
    assert "\t" not in TEXTS[name]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_what_others_export_and_it_uses(module: str) -> None:
    """A name that is missing stops the whole page; each import statement is of that form."""
    body = IMPORT.sub("", TEXTS[module])
    exported = {other: set(EXPORT.findall(TEXTS[other])) for other in imports(module)}
    used = set(re.findall(r"[\w$]+", body))

    assert not re.search(r"^import|\bimport\(", body, re.MULTILINE)
    assert {other: names - exported[other] for other, names in imports(module).items()} == {
        other: set() for other in exported
    }
    assert set().union(*imports(module).values()) - used == set()


def test_whatever_is_exported_is_imported() -> None:
    """By another module."""
    exported = {(module, name) for module in MODULES for name in EXPORT.findall(TEXTS[module])}
    imported = {
        (other, name)
        for module in MODULES
        for other, names in imports(module).items()
        for name in names
    }

    assert exported == imported


def test_modules_import_in_one_direction_and_are_loaded_at_once() -> None:
    """No cycle; the page names all of them, so that none is only found in another."""
    order = TopologicalSorter({module: set(imports(module)) for module in MODULES}).static_order()
    named = re.findall(r'(?:src|href)="assets/(\w+\.js)"', TEXTS["index.html"])

    assert sorted(order) == sorted(named) == MODULES
