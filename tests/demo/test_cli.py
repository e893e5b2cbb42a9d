"""The command line of the demonstration."""

from __future__ import annotations

import pytest

from demo.surroundings import require_java
from noted_time import Rejected


def test_without_java_the_demo_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own words would be a page of Python."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(Rejected, match=r"Java 17 or newer: install one .* `./run demo`"):
        require_java()
