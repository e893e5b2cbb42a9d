"""Packages have small folders, unique module names, and no record declared twice."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

from tests.tooling.wheels import PACKAGES

MOST = 14
FEW = 3
"""Records with fewer fields may be alike by chance."""

ROLES = frozenset(("read", "source", "planner", "query", "files"))
"""Module names that several folders of a package may have."""


def modules(root: Path) -> list[Path]:
    """Return the modules of the product."""
    found = [path.relative_to(root) for path in list_files(root)]
    return [each for each in found if not each.stem.startswith("__")]


def list_files(root: Path) -> list[Path]:
    """Return the Python files of the product."""
    found = (path for package in PACKAGES for path in (root / package).rglob("*.py"))
    return sorted(path for path in found if "tests" not in path.parts)


def find_package(module: Path) -> tuple[str, ...]:
    """Return the package of a module: each extension is one."""
    is_extension = module.parts[0] == "noted_time_extensions"
    return module.parts[: 2 if is_extension else 1]


def test_a_folder_has_few_modules(root: Path) -> None:
    sizes = Counter(each.parent.as_posix() for each in modules(root))

    assert {folder: size for folder, size in sizes.items() if size > MOST} == {}


def test_module_names_are_unique_in_a_package(root: Path) -> None:
    """Roles may repeat in several folders."""
    named = defaultdict(list)
    for each in modules(root):
        if each.stem not in ROLES:
            named[find_package(each), each.stem].append(each.as_posix())

    assert [paths for paths in named.values() if len(paths) > 1] == []


def test_no_two_classes_have_the_same_fields(root: Path) -> None:
    """A fact that is declared twice will differ one day."""
    declared = defaultdict(list)
    for path in list_files(root):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.ClassDef):
                targets = (part.target for part in each.body if isinstance(part, ast.AnnAssign))
                fields = frozenset(name.id for name in targets if isinstance(name, ast.Name))
                declared[fields].append(f"{path.relative_to(root)}::{each.name}")

    assert [
        classes for fields, classes in declared.items() if len(fields) >= FEW and len(classes) > 1
    ] == []
