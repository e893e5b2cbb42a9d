import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.store.port import Store
from controller.store.postgres import PostgresStore
from controller.store.sqlite import SqliteStore
from tools.trials.memory_store import MemoryStore
from tools.trials.postgres import Server, find_binaries

MakeStore = Callable[[], Store]

NO_SERVER = "PostgreSQL was left out: neither the system's binaries nor the wheel are installed"
DURABLE = ["sqlite", "postgres"] if find_binaries() else ["sqlite"]

collect_ignore_glob = [] if find_binaries() else ["test_postgres*"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report that PostgreSQL was not tested."""
    if not find_binaries():
        terminalreporter.write_line(NO_SERVER, yellow=True)


@pytest.fixture
def url(server: Server, reusable_database: str) -> str:
    """An empty, migrated database."""
    server.empty(reusable_database)
    return reusable_database


@pytest.fixture(params=DURABLE)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'noted-time.db'}"
    server: Server = request.getfixturevalue("server")
    return server.make_database()


@pytest.fixture
def make_postgres(server: Server, reusable_database: str) -> MakeStore:
    """Makes an empty PostgreSQL store at each call."""

    def make() -> Store:
        server.empty(reusable_database)
        store = PostgresStore(reusable_database)
        store.acquire(store.heartbeat().free)
        return store

    return make


@pytest.fixture
def database(database_template: Path, tmp_path: Path) -> Path:
    """A new, migrated database in a file."""
    return Path(shutil.copy(database_template, tmp_path / "noted-time.db"))


@pytest.fixture
def make_sqlite(database_template: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeStore:
    """Makes a new SQLite store at each call, for tests of many examples."""

    def make() -> Store:
        directory = tmp_path_factory.mktemp("sqlite")
        return SqliteStore(shutil.copy(database_template, directory / "noted-time.db"))

    return make


@pytest.fixture(params=DURABLE)
def make_pair(request: pytest.FixtureRequest) -> Callable[[], tuple[Store, Store]]:
    """Makes two stores of one new database of each durable kind."""

    def make() -> tuple[Store, Store]:
        if request.param == "sqlite":
            file = request.getfixturevalue("tmp_path_factory").mktemp("pair") / "noted-time.db"
            shutil.copy(request.getfixturevalue("database_template"), file)
            return SqliteStore(file), SqliteStore(file)
        store = request.getfixturevalue("make_postgres")()
        other = PostgresStore(request.getfixturevalue("reusable_database"))
        other.heartbeat()
        return store, other

    return make


@pytest.fixture(params=DURABLE)
def make_durable(request: pytest.FixtureRequest) -> MakeStore:
    """Makes a new durable store of each kind at each call."""
    make: MakeStore = request.getfixturevalue(f"make_{request.param}")
    return make


@pytest.fixture
def make_durables(request: pytest.FixtureRequest) -> list[MakeStore]:
    """Returns a maker of stores for each durable kind."""
    return [request.getfixturevalue(f"make_{kind}") for kind in DURABLE]


@pytest.fixture(params=[*DURABLE, "memory"])
def make_store(request: pytest.FixtureRequest) -> MakeStore:
    """Makes a new store of each kind at each call."""
    if request.param == "memory":
        return MemoryStore
    make: MakeStore = request.getfixturevalue(f"make_{request.param}")
    return make


@pytest.fixture
def store(make_store: MakeStore) -> Iterator[Store]:
    """A new store of each kind."""
    store = make_store()
    yield store
    store.close()
