"""A pytest plugin that finds a mutant in less time: examples first, then fewer of each property.

It counts no mutant that the whole suite would not find, too.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tools.trials import waiting

FEW = 20
HISTORIES = "150"
UNTIL_FOUND = (Phase.explicit, Phase.reuse, Phase.generate)

PATIENCE_S = 20.0
"""A wait that a mutant never ends fails before mutmut's limit."""


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Stop a property at the first example that fails, without a search for a smaller one.

    The patience is set here and not on import, because doctests import this module in every run.
    """
    waiting.PATIENCE_S = PATIENCE_S
    settings.register_profile("mutants", settings.default, max_examples=FEW, phases=UNTIL_FOUND)
    settings.load_profile("mutants")
    os.environ.setdefault("NOTED_TIME_CLAIMS", HISTORIES)
    mutmut = find_spec("mutmut")
    assert mutmut is not None
    assert mutmut.origin is not None
    os.environ["PYTHONPATH"] = str(Path(mutmut.origin).parents[1])  # for Spark's workers


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that try one example each."""
    items.sort(key=lambda item: item.get_closest_marker("hypothesis") is not None)
