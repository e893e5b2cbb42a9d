"""What Delta and Iceberg keep of a commit, for Spark and for those who read without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.needs_spark("3.5")]


def test_delta_appends_a_transaction_once_and_keeps_its_metadata(
    delta_spark: SparkSession, delta_path: str
) -> None:
    """The second write of the same transaction makes no commit."""
    once = {"txnAppId": "query", "txnVersion": "7", "userMetadata": '{"x": 1}'}
    for _ in range(2):
        rows = delta_spark.range(3).write.format("delta").mode("append")
        rows.options(**once).save(delta_path)

    described = delta_spark.sql(f"DESCRIBE HISTORY delta.`{delta_path}`").collect()
    table = DeltaTable(delta_path)
    assert delta_spark.read.format("delta").load(delta_path).count() == 3
    assert [row["userMetadata"] for row in described] == ['{"x": 1}']
    assert [commit["userMetadata"] for commit in table.history()] == ['{"x": 1}']
    assert table.transaction_version("query") == 7


def test_iceberg_keeps_the_properties_of_a_snapshot(
    delta_spark: SparkSession, opened: Callable[[str], StaticTable], iceberg_table: str
) -> None:
    """In its summary, which is the same with and without Spark."""
    key, rows = "noted-time.x", delta_spark.range(3)
    rows.writeTo(iceberg_table).create()
    rows.writeTo(iceberg_table).option(f"snapshot-property.{key}", "1").append()

    in_spark = delta_spark.table(f"{iceberg_table}.snapshots").orderBy("committed_at")
    without = opened(iceberg_table).snapshots()
    assert [row["summary"].get(key) for row in in_spark.collect()] == [None, "1"]
    assert [of.summary and of.summary.additional_properties.get(key) for of in without] == [
        None,
        "1",
    ]
