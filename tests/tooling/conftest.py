"""The run script as a module, for tests of its parts."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the directory of this clone."""
    return ROOT


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load ./run anew, without leaving bytecode in its directory."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("run", str(ROOT / "run"))
    spec = spec_from_loader("run", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
