"""A database that Debezium reads, and a worker of Kafka Connect."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.trials import debezium, kafka
from tools.trials.kafka import Broker
from tools.trials.postgres import UNSYNCED, Server, find_binaries
from tools.trials.served import Served
from tools.trials.shop import Shop


@pytest.fixture(scope="session")
def logical() -> Iterator[Server]:
    """Return a PostgreSQL server that Debezium can read."""
    directory = find_binaries()
    if directory is None:
        pytest.skip("neither PostgreSQL's binaries nor the wheel are installed")
    with Server(directory, *UNSYNCED, *debezium.LOGICAL) as server:
        yield server


@pytest.fixture(scope="session")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[debezium.Worker]:
    """Return a worker of Kafka Connect that the tests share."""
    if not debezium.find_class_path():
        pytest.skip(debezium.MISSING if kafka.is_installed() else kafka.MISSING)
    with debezium.Worker(broker, tmp_path_factory.mktemp("connect")) as worker:
        worker.wait()
        yield worker


@pytest.fixture
def exact_worker(broker: Broker, tmp_path: Path) -> Iterator[debezium.Worker]:
    """Return a worker that writes records and their source offsets in one transaction."""
    if not debezium.find_class_path():
        pytest.skip(debezium.MISSING if kafka.is_installed() else kafka.MISSING)
    settings = {"exactly.once.source.support": "enabled", "group.id": "exact-connect"}
    for kind in ("offset", "config", "status"):
        settings[f"{kind}.storage.topic"] = f"exact-{kind}s"
    with debezium.Worker(broker, tmp_path / "connect", settings) as worker:
        worker.wait()
        yield worker


@pytest.fixture
def shop(
    logical: Server, broker: Broker, served: Served, request: pytest.FixtureRequest, tmp_path: Path
) -> Shop:
    """Return a database with two tables, named like the test."""
    name = request.node.name.removeprefix("test_").split("[")[0][:40]
    return Shop(logical, broker, served, name, tmp_path)
