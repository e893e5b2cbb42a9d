from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from examples.flights.surroundings import SurroundingsError, controller, require_java


def test_a_controller_is_gone_when_its_block_ends(tmp_path: Path) -> None:
    """Also if the block ends in an error."""

    def fail() -> None:
        with controller(tmp_path / "noted-time.db", tmp_path) as url:
            urls.append(url)
            raise LookupError

    urls: list[str] = []
    with pytest.raises(LookupError):
        fail()

    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{urls[0]}/readyz", trust_env=False)


def test_a_controller_that_cannot_start_is_quoted(tmp_path: Path) -> None:
    """Here a directory stands in place of its database."""
    (tmp_path / "noted-time.db").mkdir()

    with (
        pytest.raises(SurroundingsError, match=r"did not start:\n.*database"),
        controller(tmp_path / "noted-time.db", tmp_path),
    ):
        pass


def test_without_java_the_demo_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own words would be a page of Python."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(SurroundingsError, match=r"Java 17 or newer: install one .* `./run demo`"):
        require_java()
