"""The settings of a session, as far as its platform lets them be read."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def setting(spark: SparkSession, name: str, default: str) -> str:
    """Return a setting; the default where a platform refuses to read it, as it refuses to set it.

    Databricks does so on serverless compute, by the error CONFIG_NOT_AVAILABLE.
    """
    try:
        return str(spark.conf.get(name, default))
    except PySparkException:
        return default
