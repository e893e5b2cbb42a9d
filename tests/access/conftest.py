from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import structlog

from controller.store.migrate import migrate
from controller.store.open import open_tokens
from controller.store.tokens import MemoryTokens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from controller.store.tokens import Tokens


@pytest.fixture(autouse=True)
def whole_log() -> Iterator[None]:
    """Log every level here, whatever other tests have set."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(0))
    yield
    structlog.configure(**before)


@pytest.fixture
def anyio_backend() -> str:
    """Run coroutines on asyncio, as the server does."""
    return "asyncio"


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The URL of a migrated database."""
    url = f"sqlite:///{tmp_path / 'noted-time.db'}"
    migrate(url)
    return url


@pytest.fixture(params=["memory", "sqlite"])
def tokens(request: pytest.FixtureRequest) -> Iterator[Tokens]:
    """No tokens yet, of each kind."""
    if request.param == "memory":
        yield MemoryTokens()
        return
    opened = open_tokens(request.getfixturevalue("database"))
    yield opened
    opened.close()
