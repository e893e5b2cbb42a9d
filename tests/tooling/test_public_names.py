"""The public names of the packages: a new or missing one is a decision, so a file lists all."""

import importlib
from collections.abc import Iterator
from pathlib import Path

from docs.reference import PACKAGES

LISTED = Path(__file__).with_name("public_names.txt")


def list_public_names() -> Iterator[str]:
    """Yield each public name of the packages, with the public members of a class."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in sorted(module.__all__):
            members = " ".join(list_members(getattr(module, name)))
            yield f"{package} {name} {members}".rstrip()


def list_members(public: object) -> list[str]:
    """List what a class has from classes of this project, sorted."""
    if not isinstance(public, type):
        return []
    folders = tuple(package.partition(".")[0] for package in PACKAGES)
    members: set[str] = set()
    for base in public.__mro__:
        if base.__module__.startswith(folders):
            members.update(name for name in vars(base) if not name.startswith("_"))
    return sorted(members)


def test_public_names_are_those_listed() -> None:
    """To renew the list: `./run python -m tests.tooling.test_public_names`."""
    assert list(list_public_names()) == LISTED.read_text("utf-8").splitlines()


if __name__ == "__main__":
    LISTED.write_text("".join(f"{line}\n" for line in list_public_names()), "utf-8")
