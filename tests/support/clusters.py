"""The Spark cluster of a process, and a client of its Connect server, for tests of all folders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from tools.trials.cluster import Cluster
    from tools.trials.served import Served


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of each folder `cluster`, because they need Java."""
    for item in items:
        if item.path.parent.name == "cluster":
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return the cluster of a process, which reads Kafka if the connector is installed.

    A test that kills a worker starts it again.
    """
    from tools.trials.cluster import Cluster  # noqa: PLC0415 - half a second, for few tests
    from tools.trials.kafka import connector  # noqa: PLC0415 - likewise

    with Cluster(tmp_path_factory.mktemp("cluster"), jars=connector()) as running:
        yield running


@pytest.fixture(scope="session")
def token_controller() -> Iterator[Served]:
    """Return a controller that asks for a token. The Connect server has it in its environment."""
    from tests.support.gates import Guarded  # noqa: PLC0415 - a second, for few tests
    from tools.trials.served import Served  # noqa: PLC0415 - likewise

    tokens = Guarded()
    with Served(gate=tokens.gate) as server:
        server.token = tokens.token("admin")
        yield server


@pytest.fixture(scope="session")
def connect(cluster: Cluster, token_controller: Served) -> str:
    """Return the address of the cluster's Connect server, which has a token."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOTED_TIME_TOKEN", str(token_controller.token))
        return cluster.remote


@pytest.fixture(scope="module")
def remote(connect: str) -> Iterator[SparkSession]:
    """Return a session with the cluster's Connect server; the tests of a module share it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # so that it is undone: Spark sets it too
        session = SparkSession.builder.remote(connect).create()
        yield session
        session.stop()
