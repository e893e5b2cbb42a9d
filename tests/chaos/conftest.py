from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.postgres import Server, binaries

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_SERVER = "Chaos was left out: neither PostgreSQL's binaries nor the wheel are installed"

collect_ignore_glob = [] if binaries() else ["test_faults*", "test_late_requests*"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report what could not be tested here."""
    if not binaries():
        terminalreporter.write_line(NO_SERVER, yellow=True)


@pytest.fixture
def anyio_backend() -> str:
    """Run coroutines on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server of these tests' own, to be killed and started again."""
    directory = binaries()
    assert directory
    with Server(directory) as running:
        yield running
