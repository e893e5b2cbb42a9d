import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.store.open import open_tokens
from controller.store.token_table import Tokens
from tools.trials.memory_store import MemoryTokens
from tools.trials.postgres import Server, find_binaries

KINDS = ["memory", "sqlite", "postgres"] if find_binaries() else ["memory", "sqlite"]


@pytest.fixture(autouse=True)
def log_calls(whole_log: None) -> None:
    """Log the calls of each test here."""


@pytest.fixture
def database(database_template: Path, tmp_path: Path) -> str:
    """The URL of a migrated database."""
    return f"sqlite:///{shutil.copy(database_template, tmp_path / 'noted-time.db')}"


@pytest.fixture
def postgres_url(server: Server, reusable_database: str) -> str:
    """The URL of an empty database in PostgreSQL."""
    server.empty(reusable_database)
    return reusable_database


@pytest.fixture(params=KINDS)
def tokens(request: pytest.FixtureRequest) -> Iterator[Tokens]:
    """An empty table of tokens in each kind of store."""
    if request.param == "memory":
        yield MemoryTokens()
        return
    url = request.getfixturevalue("database" if request.param == "sqlite" else "postgres_url")
    opened_tokens = open_tokens(url)
    yield opened_tokens
    opened_tokens.close()
