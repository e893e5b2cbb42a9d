"""The Spark cluster of the tests here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.kafka import connector

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this directory: it needs Java."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return the cluster of a process, which reads Kafka if the connector is installed.

    It is shared: a test that kills a worker starts it again.
    """
    with Cluster(tmp_path_factory.mktemp("cluster"), jars=connector()) as running:
        yield running
