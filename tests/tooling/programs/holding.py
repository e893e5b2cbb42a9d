"""A test that holds one of each kind of process that tests start, until it is killed."""

import signal
from pathlib import Path

from pyspark.sql import SparkSession

from examples.trials.kafka import Broker
from tests.support.postgres import Server
from tests.support.processes import ServeProcess


def test_of_all_kinds(broker: Broker, server: Server, spark: SparkSession, tmp_path: Path) -> None:
    """It never ends."""
    with ServeProcess(tmp_path, "--database", server.make_database()) as controller:
        controller.ready()
        spark.sparkContext.parallelize([1, 2]).map(str).collect()
        (tmp_path / "held").write_text(f"{broker.address} {controller.url}")
        signal.pause()
