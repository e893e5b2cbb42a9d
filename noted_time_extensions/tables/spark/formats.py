"""Reads the history of a table, appends rows, and commits without rows."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from noted_time import Rejected
from noted_time_extensions.tables.delta_log import DeltaLog
from noted_time_extensions.tables.history_rows import MAIN_BRANCH, history_of, parse_delta_commit
from noted_time_extensions.tables.table_history import Commit, TableHistory
from noted_time_extensions.tables.table_urls import split_url

log = logging.getLogger("noted_time.spark")

WriteOptions = Mapping[str, str]

KEPT_VERSIONS = 10_000

FIRST_VERSIONS = 50

NO_TABLE = ("TABLE_NOT_FOUND", "MISSING_DELTA_TABLE", "PATH_DOES_NOT_EXIST", "TABLE_OR_VIEW")
STAGED_SNAPSHOTS = "spark.wap.id stages snapshots, which cannot have claims: set spark.wap.branch"
NO_CONNECTOR = (
    "the Spark session has no Iceberg connector with the catalog {!r}: start the session with "
    "iceberg-spark-runtime for Spark {}, if that exists, and configure the catalog"
)


def open_table(url: str) -> OpenTable:
    kind, location = split_url(url)
    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if kind == "delta":
        has_connector = "io.delta" in str(spark.conf.get("spark.sql.extensions", ""))
        if has_connector:
            return DeltaTable(spark, location)
        return DeltaLibrary(location)
    catalog = location.partition(".")[0]
    if "iceberg" not in str(spark.conf.get(f"spark.sql.catalog.{catalog}", "")):
        raise Rejected(NO_CONNECTOR.format(catalog, spark.version))
    return IcebergTable(spark, location)


def _read_history(log: DeltaLog) -> TableHistory:
    """Return the history of a table, without commits if there is none yet."""
    if not log.exists():
        return TableHistory(())
    return log.history()


class OpenTable(ABC):
    """A table that a query writes to."""

    @abstractmethod
    def history(self) -> TableHistory: ...

    @abstractmethod
    def append(self, rows: DataFrame, options: WriteOptions) -> None: ...

    @abstractmethod
    def commit(self, options: WriteOptions) -> None: ...


class ListedVersion(NamedTuple):
    """A version of a Delta table, and its row in the table's history."""

    row: Mapping[str, Any]
    commit: Commit


class DeltaTable(OpenTable):
    """A Delta table that the session's connector writes."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self._location = location
        self._log = DeltaLog(location)
        self._versions: dict[int, ListedVersion] = {}

    @property
    def _name(self) -> str:
        return f"delta.`{self._location.replace('`', '``')}`"

    def history(self) -> TableHistory:
        """Read with deltalake if it is there, which is 20x faster than the connector."""
        if find_spec("deltalake") and "://" not in self._location:
            return _read_history(self._log)
        return self._list_versions()

    def _list_versions(self) -> TableHistory:
        """List all versions once, then new ones; after a restore, all again."""
        rows = self._rows(FIRST_VERSIONS if self._versions else None)
        if self._versions and not self._continues(rows):
            rows = self._rows(None)
            self._versions.clear()
        for row in rows:
            if row["version"] not in self._versions:
                self._versions[row["version"]] = ListedVersion(row, parse_delta_commit(row))
        for version in sorted(self._versions)[:-KEPT_VERSIONS]:
            del self._versions[version]
        if not rows:
            return TableHistory(())
        (detail,) = self._spark.sql(f"DESCRIBE DETAIL {self._name}").collect()
        commits = [self._versions[version].commit for version in sorted(self._versions)]
        return TableHistory(commits, detail["properties"], detail["id"], is_numbered=True)

    def _continues(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether rows follow the listed versions without a gap, and repeat them alike."""
        if min((row["version"] for row in rows), default=0) > max(self._versions):
            return False
        for row in rows:
            listed_version = self._versions.get(row["version"])
            if listed_version is not None and listed_version.row != row:
                return False
        return True

    def append(self, rows: DataFrame, options: WriteOptions) -> None:
        """Delta ignores a batch that the table already contains."""
        rows.write.format("delta").mode("append").options(**options).save(self._location)

    def commit(self, options: WriteOptions) -> None:
        """Delta commits without rows because of the transaction."""
        self.append(self._spark.read.format("delta").load(self._location).limit(0), options)

    def _rows(self, limit: int | None) -> list[Mapping[str, Any]]:
        statement = f"DESCRIBE HISTORY {self._name}"
        if limit is not None:
            statement += f" LIMIT {limit}"
        try:
            rows = self._spark.sql(statement).collect()
        except (PySparkException, Py4JError) as error:
            if any(reason in str(error) for reason in NO_TABLE):
                return []
            raise
        return [row.asDict() for row in rows]


class DeltaLibrary(OpenTable):
    """A Delta table that deltalake writes in the driver, in Arrow batches."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._log = DeltaLog(location)

    def history(self) -> TableHistory:
        return _read_history(self._log)

    def append(self, rows: DataFrame, options: WriteOptions) -> None:
        schema = rows.limit(0).toArrow().schema
        self._write(pa.RecordBatchReader.from_batches(schema, collect_batches(rows)), options)

    def commit(self, options: WriteOptions) -> None:
        import deltalake

        schema = pa.schema(deltalake.DeltaTable(self._location).schema())
        self._write(schema.empty_table(), options)

    def _write(self, rows: Any, options: WriteOptions) -> None:  # noqa: ANN401 - an Arrow reader or table
        import deltalake

        transaction = deltalake.Transaction(options["txnAppId"], int(options["txnVersion"]))
        deltalake.write_deltalake(
            self._location,
            rows,
            mode="append",
            commit_properties=deltalake.CommitProperties(
                custom_metadata={"userMetadata": options["userMetadata"]},
                app_transactions=[transaction],
            ),
        )


class IcebergTable(OpenTable):
    """An Iceberg table that the session's connector writes."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._name = name
        table, _, branch = name.rpartition(".branch_")
        self._table = table or name
        self._branch = branch if table else ""

    def history(self) -> TableHistory:
        try:
            self._spark.catalog.refreshTable(self._table)  # sessions cache tables
            snapshots = self._spark.table(f"{self._table}.snapshots")
            refs = self._spark.table(f"{self._table}.refs").selectExpr("name AS ref", "snapshot_id")
            rows = snapshots.join(refs, "snapshot_id", "left").collect()
            properties = self._spark.sql(f"SHOW TBLPROPERTIES {self._table}").collect()
        except (PySparkException, Py4JError) as error:
            if any(reason in str(error) for reason in NO_TABLE):
                return TableHistory(())
            raise
        if self._spark.conf.get("spark.wap.id", None) is not None:
            raise Rejected(STAGED_SNAPSHOTS)
        branch = self._branch or self._spark.conf.get("spark.wap.branch", None) or MAIN_BRANCH
        snapshot_rows = [row.asDict() for row in rows]
        property_values = {row["key"]: row["value"] for row in properties}
        present_refs = {row["ref"] for row in snapshot_rows}
        present_branch = branch if branch in present_refs else None
        return history_of(snapshot_rows, property_values, at=present_branch)

    def append(self, rows: DataFrame, options: WriteOptions) -> None:
        writer = rows.writeTo(self._name).options(**options)
        if self._spark.catalog.tableExists(self._table):
            writer.append()
        else:
            writer.create()

    def commit(self, options: WriteOptions) -> None:
        self._spark.table(self._name).limit(0).writeTo(self._name).options(**options).append()


def collect_batches(rows: DataFrame) -> Iterator[pa.RecordBatch]:

    def pack_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()])], ["ipc"])

    for row in rows.mapInArrow(pack_batches, "ipc BINARY").toLocalIterator():
        with pa.ipc.open_stream(row["ipc"]) as stream:
            yield from stream
