"""One Spark session for all fast tests of this directory, and the controller they talk to."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from tests.support.marks_server import MarksServer
from tests.support.noted_stream import NotedStream

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = str(Path(__file__).resolve().parents[2])


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return a local session of two cores; its workers find the packages of this clone."""
    os.environ["PYTHONPATH"] = ROOT
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def controller() -> Iterator[MarksServer]:
    """Return a controller that knows no stream yet."""
    server = MarksServer()
    yield server
    server.stop()


@pytest.fixture
def flights(tmp_path: Path, controller: MarksServer) -> NotedStream:
    """Return a stream without any event."""
    return NotedStream(tmp_path / "log", "flights", controller)
