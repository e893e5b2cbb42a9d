"""Claims in the commits of Delta and of Iceberg, written by the connectors of the session."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time_extensions.tables import NotedTable, TableClaims, history_of, standing
from noted_time_extensions.tables.table_history import NoClaim, TableClaim
from noted_time_extensions.tables.table_urls import read_iceberg_history
from tests.support.offset_log import forget_commit
from tests.support.spark_sessions import wait_for_end
from tests.support.spark_versions import RUNNING

pytestmark = [pytest.mark.spark, pytest.mark.needs_spark("3.5")]

OpenTable = Callable[[str], StaticTable]

SECOND = 1000


class Query:
    """A query of a directory under Spark's own watermark, which writes to one table."""

    def __init__(
        self, spark: SparkSession, directory: Path, table: str, open_table: OpenTable
    ) -> None:
        self.spark, self.directory, self.table, self.open_table = (
            spark,
            directory,
            table,
            open_table,
        )
        self.checkpoint = directory / "checkpoint"
        self.write: Callable[[DataFrame, int], None] | None = None
        self._number = 0

    def give(self, *seconds: int) -> None:
        """Give rows of these seconds as one file, which is one batch."""
        rows = [(datetime.fromtimestamp(second, UTC), self._number) for second in seconds]
        frame = self.spark.createDataFrame(rows, "time TIMESTAMP, number INT")
        frame.coalesce(1).write.mode("append").parquet(str(self.directory / "rows"))
        self._number += 1

    def claims(self) -> TableClaims:
        """Return the claims of a driver that has just started."""
        return TableClaims(str(self.checkpoint), "rows", "time", static_sources=1)

    def run(self) -> None:
        """Write all rows there are."""
        events = self.spark.readStream.schema("time TIMESTAMP, number INT")
        files = events.option("maxFilesPerTrigger", 1).parquet(str(self.directory / "rows"))
        writer = files.withWatermark("time", "0 seconds").writeStream
        writer = writer.foreachBatch(self.write or NotedTable(self.table, self.claims()))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        wait_for_end(writer.trigger(availableNow=True).start())


@pytest.fixture(params=["delta", "iceberg"])
def query(
    request: pytest.FixtureRequest, delta_spark: SparkSession, tmp_path: Path, open_table: OpenTable
) -> Query:
    """Return a query whose table does not exist yet."""
    name = f"lake.{tmp_path.name}.rows" if request.param == "iceberg" else str(tmp_path / "delta")
    return Query(delta_spark, tmp_path, f"{request.param}:{name}", open_table)


def sql_name(query: Query) -> str:
    """Return the table's name in SQL."""
    kind, _, name = query.table.partition(":")
    return f"delta.`{name}`" if kind == "delta" else name


def read_rows(query: Query) -> DataFrame:
    """Return the rows of the table. Iceberg's catalog is refreshed, because it caches them."""
    if query.table.startswith("iceberg"):
        query.spark.catalog.refreshTable(sql_name(query))
    return query.spark.table(sql_name(query))


def read_claim(query: Query) -> TableClaim | NoClaim:
    """Return the claim by the table's library, which Spark's history confirms."""
    kind, _, name = query.table.partition(":")
    if kind == "delta":
        rows = query.spark.sql(f"DESCRIBE HISTORY {sql_name(query)}").collect()
        claim = standing(query.table)
    else:
        query.spark.catalog.refreshTable(name)
        refs = query.spark.table(f"{name}.refs").selectExpr("name AS ref", "snapshot_id")
        snapshots = query.spark.table(f"{name}.snapshots")
        rows = snapshots.join(refs, "snapshot_id", "left").collect()
        claim = read_iceberg_history(query.open_table(name)).claim()
    assert history_of([row.asDict() for row in rows]).claim() == claim
    return claim


def complete_to(query: Query) -> int | None:
    """Return the complete time of the table, in Unix ms."""
    claim = read_claim(query)
    return claim.complete_to if isinstance(claim, TableClaim) else None


def numbers(query: Query) -> list[int]:
    """Return the numbers of the rows in the table."""
    return sorted(row["number"] for row in read_rows(query).collect())


def test_rows_and_claim_are_one_commit_and_once(query: Query) -> None:
    """The rerun of the last batch is skipped, so Spark's own watermark waits."""
    query.give(10)
    query.give(20, 15)
    query.run()
    first = complete_to(query)
    forget_commit(query.checkpoint)
    query.give(30)
    query.run()

    assert (first, complete_to(query)) == (10 * SECOND, 10 * SECOND)
    assert numbers(query) == [0, 1, 1, 2]


def test_foreign_overwrite_ends_the_claim_but_not_the_rows(query: Query) -> None:
    """The rows have no claim."""
    query.give(10)
    query.give(20)
    query.run()
    rows = read_rows(query).selectExpr("time", "9 AS number")
    rows.writeTo(sql_name(query)).overwrite(F.lit(col=True))
    overwritten = read_claim(query)
    query.give(30)
    query.run()

    assert isinstance(overwritten, NoClaim)
    assert isinstance(read_claim(query), NoClaim)
    assert numbers(query) == [2, 9, 9]


def test_compaction_keeps_the_claim(query: Query) -> None:
    query.give(10)
    query.give(20)
    query.run()
    if query.table.startswith("delta"):
        query.spark.sql(f"OPTIMIZE {sql_name(query)}")
    else:
        query.spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{sql_name(query)}', "
            "options => map('rewrite-all', 'true'))"
        )
    compacted_time = complete_to(query)
    query.give(30)
    query.run()

    assert (compacted_time, complete_to(query)) == (10 * SECOND, 20 * SECOND)


def test_roll_back_ends_the_claim_of_a_running_query(query: Query) -> None:
    """The rows are lost, and the query will not write them again."""
    query.give(10)
    query.run()
    version = read_claim(query)
    assert isinstance(version, NoClaim)
    query.give(20)
    query.give(30)
    query.run()
    before = complete_to(query)
    if query.table.startswith("delta"):
        query.spark.sql(f"RESTORE {sql_name(query)} TO VERSION AS OF 0")
    else:
        first = query.spark.table(f"{sql_name(query)}.history").first()
        assert first is not None
        query.spark.sql(
            f"CALL lake.system.rollback_to_snapshot('{sql_name(query)}', {first['snapshot_id']})"
        )
    query.give(40)
    query.run()

    assert before == 20 * SECOND
    assert isinstance(read_claim(query), NoClaim)
    assert numbers(query) == [0, 3]


@pytest.mark.parametrize("is_marked", [True, False])
def test_only_a_marked_merge_keeps_the_claim(query: Query, *, is_marked: bool) -> None:
    """Another program may merge, too."""
    claims = query.claims()
    target = sql_name(query)
    using = "delta" if query.table.startswith("delta") else "iceberg"
    if using == "iceberg" and is_marked and RUNNING < (4, 0):
        pytest.skip("Iceberg for Spark 3.5 ignores snapshot properties in MERGE")
    if using == "iceberg":
        query.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {target.rpartition('.')[0]}")
    query.spark.sql(f"CREATE TABLE {target} (time TIMESTAMP, number INT) USING {using}")

    def upsert(rows: DataFrame, batch_id: int) -> None:
        claim = claims.of(batch_id)
        spark = rows.sparkSession
        rows.createOrReplaceTempView("updates")
        merge = (
            f"MERGE INTO {target} t USING updates u ON t.time = u.time "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        if is_marked:
            with claim.writing(query.table, spark):
                spark.sql(merge)
        else:
            spark.sql(merge)
        claim.commit(query.table)

    query.write = upsert
    query.give(10)
    query.give(10, 20)
    query.give(30)
    query.run()

    assert complete_to(query) == (20 * SECOND if is_marked else None)
    assert numbers(query) == [1, 1, 2]


def test_each_part_of_a_batch_is_written_once(query: Query) -> None:
    """The last part has the claim."""
    claims = query.claims()

    def split(rows: DataFrame, batch_id: int) -> None:
        claim = claims.of(batch_id)
        for part, last in (("even", False), ("odd", True)):
            half = rows.where(f"number % 2 = {int(last)}")
            is_delta = query.table.startswith("delta")
            if not is_delta and claim.is_committed(query.table, part=part):
                continue
            options = claim.options(query.table, part=part, last=last)
            if is_delta:
                path = query.table.partition(":")[2]
                half.write.format("delta").mode("append").options(**options).save(path)
            else:
                half.writeTo(sql_name(query)).options(**options).append()

    if query.table.startswith("iceberg"):
        query.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {sql_name(query).rpartition('.')[0]}")
        query.spark.sql(
            f"CREATE TABLE {sql_name(query)} (time TIMESTAMP, number INT) USING iceberg"
        )
    query.write = split
    query.give(10)
    query.give(20)
    query.run()
    forget_commit(query.checkpoint)
    query.run()

    assert complete_to(query) == 10 * SECOND
    assert numbers(query) == [0, 1]


def test_several_names_need_to_be_expected(query: Query) -> None:
    """A second query may write other rows, and be behind."""
    query.give(10)
    query.give(20)
    query.run()
    other = Query(query.spark, query.directory / "other", query.table, query.open_table)
    claims = TableClaims(str(other.checkpoint), "other", "time", static_sources=1)
    other.write = NotedTable(query.table, claims)
    other.give(5)
    other.give(7)
    other.run()
    claim = read_claim(query)
    query.spark.sql(
        f"ALTER TABLE {sql_name(query)} SET TBLPROPERTIES ('noted-time.expects' = 'rows,other')"
    )
    kind, _, name = query.table.partition(":")
    expected = (
        standing(query.table)
        if kind == "delta"
        else read_iceberg_history(query.open_table(name)).claim()
    )

    assert isinstance(claim, NoClaim)
    assert "noted-time.expects" in claim.why
    assert isinstance(expected, TableClaim)
    assert expected.complete_to == 5 * SECOND
