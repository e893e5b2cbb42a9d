"""The folders of a package are small, and the names of its modules tell them apart."""

from collections import Counter, defaultdict
from pathlib import Path

from tests.tooling.wheels import PACKAGES

MOST = 14
ROLES = frozenset(("read", "source", "planner", "query", "files"))
"""What several rooms of a package have, each its own."""


def modules(root: Path) -> list[Path]:
    """Return the modules of the product."""
    found = (each for package in PACKAGES for each in (root / package).rglob("*.py"))
    return [each.relative_to(root) for each in found if not each.stem.startswith("__")]


def test_a_folder_has_few_modules(root: Path) -> None:
    """More than that are not seen at a glance."""
    sizes = Counter(each.parent.as_posix() for each in modules(root))

    assert {folder: size for folder, size in sizes.items() if size > MOST} == {}


def test_a_module_name_stands_once_in_a_package(root: Path) -> None:
    """Unless it is a role that several rooms have."""
    named = defaultdict(list)
    for each in modules(root):
        if each.stem not in ROLES:
            named[each.parts[0], each.stem].append(each.as_posix())

    assert [paths for paths in named.values() if len(paths) > 1] == []
