"""Every session of a Spark can read our sources."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_integration.session.sources import count_cores, register_source

pytestmark = pytest.mark.spark


class One(DataSource):
    """A source with one row."""

    @classmethod
    def name(cls) -> str:
        """Return a name that no other test uses."""
        return "one_row"

    def schema(self) -> str:
        """Return the schema of the row."""
        return "number int"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark passes it
        """Return what reads it."""
        return ReaderOfOne()


class ReaderOfOne(DataSourceReader):
    """The reader of this row."""

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:  # noqa: ARG002
        """Yield it."""
        yield (1,)


def test_later_session_reads_sources_of_its_parent(spark: SparkSession) -> None:
    """Spark itself lets the later session neither register the source nor find it."""
    sessions = [spark, spark.newSession()]

    rows = [
        session.read.format(register_source(session, One)).load().first()
        for session in [*sessions, *sessions]
    ]

    assert rows == [(1,)] * 4


def test_cores_of_a_session_come_from_spark_or_its_settings(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cores of the caller's machine do not count."""
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    cores = [count_cores(spark)]
    settings = {"spark.executor.instances": "3", "spark.executor.cores": "4"}
    monkeypatch.setattr(spark.conf, "get", settings.get)
    cores.append(count_cores(spark))

    assert cores == [2, 12]
