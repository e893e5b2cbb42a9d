"""How our sources are registered in a session, and how a query is passed to them."""

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

QUERY_OPTION = "query"
"""The option with the query, pickled and in base64, since Spark's options are strings."""

TOKEN_OPTION = "token"  # noqa: S105 - its name
"""The option with the token: Spark redacts options of that name.

It reaches the planning process, but neither the offset log nor the workers.
"""

CLIENT_OPTION = "client_secret"
"""The option with the configuration of a Kafka client, as JSON; likewise."""


class QuerySource(Picklable, DataSource):
    """Spark's entry to one of our sources: the options hold one query."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))
        self.query: Any = cloudpickle.loads(base64.b64decode(options[QUERY_OPTION]))

    def take_secret(self, secret: str) -> str | None:
        """Return a secret for the reader, and forget it: Spark sends workers this source too."""
        return self.options.pop(secret, None)


def build_options(query: object, token: str | None = None) -> dict[str, str]:
    """Return the options that carry a query to its source, including its lambdas."""
    pickled: bytes = cloudpickle.dumps(query)  # type: ignore[no-untyped-call]
    return {QUERY_OPTION: base64.b64encode(pickled).decode(), **build_secrets(token)}


def build_secrets(token: str | None, client: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return the options that Spark redacts."""
    options = {} if token is None else {TOKEN_OPTION: token}
    return options if client is None else {**options, CLIENT_OPTION: json.dumps(dict(client))}


def create_reader(
    spark: SparkSession,
    reader: Reader,
    source: type[DataSource],
    query: object,
    token: str | None = None,
) -> Reader:
    """Return a reader of the session that reads a query from one of our sources."""
    return reader.format(register_source(spark, source)).options(**build_options(query, token))


def register_source(spark: SparkSession, source: type[DataSource]) -> str:
    """Register a source in a session and return the name to read it by.

    A session made by `newSession()` can neither register nor find a source that its parent had
    registered before (Spark 4.3: DATA_SOURCE_ALREADY_EXISTS, then DATA_SOURCE_NOT_FOUND). There it
    gets a name of its own. No checkpoint holds the name.
    """
    require("a source in Python", spark.version)  # with Spark Connect the server's
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
    """Return how many tasks the session's cluster runs at once, as far as it is known now.

    These are the cores of the executors that have registered or that the settings ask for.
    """
    executors = int(spark.conf.get("spark.executor.instances", "0") or 0)
    asked = executors * int(spark.conf.get("spark.executor.cores", "1") or 1)
    if isinstance(spark, SparkSession):
        return max(asked, spark.sparkContext.defaultParallelism)
    parts = spark.range(100_000).select(F.spark_partition_id().alias("part"))
    return max(asked, parts.distinct().count())  # a remote client has no other way
