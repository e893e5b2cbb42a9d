"""The claims of a table in DuckDB, as in docs/guides/tables.md, without an extension."""

import json
import subprocess
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from noted_time_extensions.tables import complete_to
from noted_time_extensions.tables.claim import Claim
from noted_time_extensions.tables.committing import RememberedBatch, prepare_commit
from noted_time_extensions.tables.table_history import TableHistory
from noted_time_extensions.tables.table_urls import open_history, read_iceberg_history
from tests.support.page import BLOCK, read_page
from tests.support.suites import find_programs

ROWS = pa.table({"departure": [1, 2]})
PROGRAM = """
import duckdb, json, sys
found = duckdb.sql(sys.stdin.read())
print(json.dumps([dict(zip(found.columns, row)) for row in found.fetchall()]))
"""


def record_claim(
    history: TableHistory, complete_to: int, last: list[RememberedBatch]
) -> dict[str, str]:
    """Return the metadata of a query's next commit, which remembers the last ones."""
    batch = len(last)
    claim = Claim("flights", complete_to, "departure", "query", batch, id=f"r{batch}")
    record = prepare_commit(history, claim, last)
    last.append(RememberedBatch(batch, {"": record}))
    return {record.key: record.to_json()}


def run_query_of_page(example: str, path: str) -> list[dict[str, object]]:
    """Return the rows of the page's query with this example, over the files at a path."""
    python = find_programs("dbt") / "python"
    sql = [block for language, block in BLOCK.findall(read_page("docs/guides/tables.md"))]
    (query,) = [block for block in sql if example in block]
    query = query.replace(example, path)
    words = [str(python), "-c", PROGRAM]
    output = subprocess.run(words, input=query, capture_output=True, text=True, check=True).stdout
    rows: list[dict[str, object]] = json.loads(output)
    return rows


@pytest.mark.acceptance
def test_duckdb_lists_the_claims_of_delta(tmp_path: Path) -> None:
    """The query reads the table's log, which is JSON."""
    last: list[RememberedBatch] = []
    for time in (10, 20):
        history = open_history(f"delta:{tmp_path}") if last else TableHistory(())
        claim = json.dumps(record_claim(history, time, last))
        commit_properties = deltalake.CommitProperties(custom_metadata={"userMetadata": claim})
        deltalake.write_deltalake(
            tmp_path, ROWS, mode="append", commit_properties=commit_properties
        )

    status = complete_to(run_query_of_page("/data/flights/_delta_log", f"{tmp_path}/_delta_log"))

    assert status == complete_to(f"delta:{tmp_path}")
    assert status is not None
    assert (status.complete_to, status.version_at(10)) == (20, 0)


@pytest.mark.acceptance
def test_duckdb_lists_the_claims_of_iceberg(tmp_path: Path) -> None:
    """The query reads the metadata file, after a roll back, too."""
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}"
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.flights", schema=ROWS.schema)
    last: list[RememberedBatch] = []
    for time in (10, 20):
        claim = record_claim(read_iceberg_history(table), time, last)
        table.append(ROWS, snapshot_properties=claim)
    first = table.snapshots()[0].snapshot_id

    def read_claim() -> int | None:
        file = table.metadata_location.removeprefix("file://")
        status = complete_to(
            run_query_of_page("/lake/db/flights/metadata/00017-….metadata.json", file)
        )
        return None if status is None else status.complete_to

    before = read_claim()
    table.manage_snapshots().rollback_to_snapshot(first).commit()

    assert (before, read_claim()) == (20, 10)
