from pyspark.sql import SparkSession

from tests.support.cluster import Cluster
from tests.support.waiting import eventually


def test_a_connect_server_has_an_executor_on_each_worker(
    cluster: Cluster, remote: SparkSession
) -> None:
    """They are the children of the workers, one each."""
    assert remote.range(4).count() == 4
    assert eventually(lambda: len(cluster.executors()), 2)
