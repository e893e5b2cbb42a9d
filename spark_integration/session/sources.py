"""Registers our sources in a session, and passes a query to them."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, MutableMapping
from typing import Any, TypeVar
from uuid import uuid4

from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.datasource import DataSource
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from spark_integration.session.pickling import Picklable, make_source_class
from spark_integration.session.versions import require

Reader = TypeVar("Reader", "DataFrameReader", "DataStreamReader")

QUERY_OPTION = "query"  # pickled and in base64
# Spark redacts options with these names
TOKEN_OPTION = "token"  # noqa: S105 - its name
CLIENT_OPTION = "client_secret"  # a Kafka client's configuration as JSON


class QuerySource(Picklable, DataSource):
    """Base class of our data sources, whose options contain one query."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))
        self.query: Any = cloudpickle.loads(base64.b64decode(options[QUERY_OPTION]))

    def take_secret(self, secret: str) -> str | None:
        """Return a secret, and delete it, because Spark also sends this source to workers."""
        return self.options.pop(secret, None)


def build_options(
    query: object, token: str | None = None, client: Mapping[str, Any] | None = None
) -> dict[str, str]:
    pickled_query: bytes = cloudpickle.dumps(query)  # type: ignore[no-untyped-call]
    options = {QUERY_OPTION: base64.b64encode(pickled_query).decode()}
    if token is not None:
        options[TOKEN_OPTION] = token
    if client is not None:
        options[CLIENT_OPTION] = json.dumps(dict(client))
    return options


def create_reader(
    spark: SparkSession, reader: Reader, source: type[DataSource], options: Mapping[str, str]
) -> Reader:
    return reader.format(register_source(spark, source)).options(**options)


def register_source(spark: SparkSession, source: type[DataSource]) -> str:
    """Register a source in a session, and return its name.

    A session from `newSession()` can neither register nor find its parent's source, so it uses a
    unique name.
    """
    require("a source in Python", spark.version)  # with Spark Connect, the version of the server
    name = source.name()
    try:
        spark.dataSource.register(make_source_class(source, name))
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        name = f"{name}_{uuid4().hex}"
        spark.dataSource.register(make_source_class(source, name))
    return name


def count_cores(spark: SparkSession) -> int:
    executors = int(spark.conf.get("spark.executor.instances", "0") or 0)
    configured_cores = executors * int(spark.conf.get("spark.executor.cores", "1") or 1)
    if isinstance(spark, SparkSession):
        return max(configured_cores, spark.sparkContext.defaultParallelism)
    parts = spark.range(100_000).select(F.spark_partition_id().alias("part"))
    # a Connect client can only count partitions
    return max(configured_cores, parts.distinct().count())
