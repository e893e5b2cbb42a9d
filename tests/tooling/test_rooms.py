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
    paths = [path.relative_to(root) for path in list_files(root)]
    return [path for path in paths if not path.stem.startswith("__")]


def list_files(root: Path) -> list[Path]:
    """Return the Python files of the product."""
    paths: list[Path] = []
    for package in PACKAGES:
        paths += (root / package).rglob("*.py")
    return sorted(path for path in paths if "tests" not in path.parts)


def find_package(module: Path) -> tuple[str, ...]:
    """Return the package of a module: each extension is one."""
    is_extension = module.parts[0] == "noted_time_extensions"
    return module.parts[: 2 if is_extension else 1]


def test_a_folder_has_few_modules(root: Path) -> None:
    sizes = Counter(path.parent.as_posix() for path in modules(root))

    assert {folder: size for folder, size in sizes.items() if size > MOST} == {}


def test_module_names_are_unique_in_a_package(root: Path) -> None:
    """Roles may repeat in several folders."""
    paths_by_name = defaultdict(list)
    for path in modules(root):
        if path.stem not in ROLES:
            paths_by_name[find_package(path), path.stem].append(path.as_posix())

    assert [paths for paths in paths_by_name.values() if len(paths) > 1] == []


def test_no_two_classes_have_the_same_fields(root: Path) -> None:
    """A fact that is declared twice will differ one day."""
    classes_by_fields = defaultdict(list)
    for path in list_files(root):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                targets = (part.target for part in node.body if isinstance(part, ast.AnnAssign))
                fields = frozenset(name.id for name in targets if isinstance(name, ast.Name))
                classes_by_fields[fields].append(f"{path.relative_to(root)}::{node.name}")

    for fields, classes in classes_by_fields.items():
        assert len(fields) < FEW or len(classes) == 1
