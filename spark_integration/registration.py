"""How a session gets to know our sources."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


def registered(spark: SparkSession, source: type[DataSource]) -> str:
    """Register a source in a session and return the name to read it by.

    A session made by `newSession()` can neither register nor find a source that its parent had
    registered before (Spark 4.3: DATA_SOURCE_ALREADY_EXISTS, then DATA_SOURCE_NOT_FOUND). There it
    gets a name of its own. No checkpoint holds the name.
    """
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        source = _renamed(source, f"{source.name()}_{uuid4().hex}")
        spark.dataSource.register(source)
    return source.name()


def _renamed(source: type[DataSource], name: str) -> type[DataSource]:
    return type(source.__name__, (source,), {"name": classmethod(lambda _: name)})
