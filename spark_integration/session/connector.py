"""The Maven package of Spark's Kafka connector, and a check that a session has it."""

from __future__ import annotations

import re

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from noted_time import Rejected
from spark_integration.session.settings import read_setting
from spark_integration.session.versions import OLDEST, parse_release

PACKAGE_VERSIONS = {
    (3, 5): "2.12:3.5.7",
    (4, 0): "2.13:4.0.0",
    (4, 1): "2.13:4.1.1",
    (4, 2): "2.13:4.2.0",
}

NOT_FOUND = re.compile("Failed to find data source|NoClassDefFoundError")
CONNECTOR_NAME = re.compile(r"spark-sql-kafka-0-10_[\d.]+[-:](\d[\w.-]*)")


def kafka_package(spark: str = pyspark.__version__) -> str:
    """Return the Maven coordinate of the Kafka connector, for `spark.jars.packages`.

    >>> kafka_package("4.3.0")
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'
    """
    spark_release = max(parse_release(spark), OLDEST)
    package_release = max(release for release in PACKAGE_VERSIONS if release <= spark_release)
    return f"org.apache.spark:spark-sql-kafka-0-10_{PACKAGE_VERSIONS[package_release]}"


def find_unfit_connectors(text: str, spark: str) -> list[str]:
    """Return the connectors in a text that do not fit a Spark version.

    >>> find_unfit_connectors("spark-sql-kafka-0-10_2.13-4.1.1.jar,my.jar", "4.2.0")
    ['spark-sql-kafka-0-10_2.13-4.1.1.jar']
    """
    package_version = kafka_package(spark).rpartition(":")[2]
    fitting_releases = {parse_release(spark), parse_release(package_version)}
    connectors = CONNECTOR_NAME.finditer(text)
    return [match[0] for match in connectors if parse_release(match[1]) not in fitting_releases]


def check_connector(spark: SparkSession) -> None:
    """Raise `Rejected` if the session cannot load a Kafka source.

    A connector for another Spark may load and fail later, so its version is checked, too.
    """
    remedy = (
        f"start it with `spark.jars.packages` = `{kafka_package(spark.version)}`, which "
        "`kafka_package()` returns, or, without internet, with four jars in `spark.jars`: page "
        "'Versions'"
    )
    settings = [read_setting(spark, f"spark.jars{suffix}", "") for suffix in ("", ".packages")]
    for unfit_connector in find_unfit_connectors(f"{settings}", spark.version):
        raise Rejected(
            f"{unfit_connector} does not fit Spark {spark.version} of this session: {remedy}"
        )
    reader = spark.read.format("kafka").option("subscribe", "any")
    try:
        reader.option("kafka.bootstrap.servers", "127.0.0.1:1").load().schema  # noqa: B018 - asks
    except (PySparkException, Py4JError) as error:  # Py4JError if `kafka-clients` is missing
        if not NOT_FOUND.search(str(error)):
            raise
        raise Rejected(f"this Spark session cannot load a Kafka source: {remedy}") from error
