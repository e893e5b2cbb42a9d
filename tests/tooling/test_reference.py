"""The reference of the Python interface, built from the docstrings."""

import importlib
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def reference(root: Path) -> ModuleType:
    """Load the script that builds it."""
    spec = spec_from_file_location("reference", root / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Build it as `./run docs` does, in a process of its own; return its files by name."""
    target = tmp_path_factory.mktemp("reference")
    done = subprocess.run(
        [sys.executable, root / "docs" / "reference.py", target],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {page.name: page.read_text("utf-8") for page in target.iterdir()}


def test_every_public_name_is_in_the_reference(
    reference: ModuleType, pages: dict[str, str]
) -> None:
    """On the page of its package."""
    missing = [
        f"{package}.{name}"
        for package in reference.PACKAGES
        for name in importlib.import_module(package).__all__
        if f'id="{name}"' not in pages[f"{package}.html"]
    ]

    assert missing == []


def test_the_pages_load_nothing_from_the_network(
    reference: ModuleType, pages: dict[str, str]
) -> None:
    """They can be read on a machine without any."""
    loads = [load for page in pages.values() for load in reference.loaded_from_elsewhere(page)]

    assert loads == []


@pytest.mark.parametrize(
    "loading",
    [
        '<script async src="https://cdn.example/a"></script>',
        "<link rel=stylesheet href=//cdn.example/a>",
        "@font-face { src: url('https://cdn.example/a') }",
        '@import "https://cdn.example/a";',
        'import("https://cdn.example/a")',
    ],
)
def test_what_a_page_loads_is_found(reference: ModuleType, loading: str) -> None:
    """A script, a style sheet, a font or a module of another host."""
    (address,) = reference.loaded_from_elsewhere(f"<p>{loading}</p>")

    assert address.removeprefix("https:") == "//cdn.example/a"


def test_a_link_is_not_loaded(reference: ModuleType) -> None:
    """The reader decides to follow it."""
    assert reference.loaded_from_elsewhere('<a href="https://pdoc.dev">pdoc</a>') == []
