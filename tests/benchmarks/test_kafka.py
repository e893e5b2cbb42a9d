"""The benchmarks of Kafka, as small as can be."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.figures import Run
from benchmarks.kafka import Cluster, Size, measured
from examples.trials import java
from examples.trials.kafka import Broker
from tests.support.served import Served

TINY = Size(1000, 3, 1000)


@pytest.mark.spark
@pytest.mark.acceptance
def test_reading_lag_and_producing_are_measured(
    broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    """Each in turn with its floor, and all rows are counted by both."""
    run = Run(quick=True, directory=tmp_path, say=lambda _: None)
    with Served() as served:
        cluster = Cluster(broker, served.url, spark, tmp_path)
        *rates, python, lag, of_topic, event = (found := measured(cluster, run, TINY))[:6]
        others = found[6:]

    assert all(each > 0 for figure in (*rates, lag, of_topic) for each in figure.ours.values)
    assert len(python.ours.values) == 1
    assert len(event.ours.values) == 3
    assert all(value > 0 for figure in others[-3:] for value in figure.ours.values)
    assert len(others) == (java.compiler() is not None) + 3
