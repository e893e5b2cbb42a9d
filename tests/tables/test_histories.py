"""Histories of real tables claim what the model's do: Delta by deltalake, Iceberg by pyiceberg."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from noted_time.reading import Standing, TableHistory, is_committed, to_commit
from noted_time.tables import standing
from noted_time.tables.listed import history_of
from noted_time.tables.opened import iceberg_history
from noted_time.values import Claim
from tests.support.table_model import ModelTable, Query

HISTORIES = int(os.environ.get("NOTED_TIME_HISTORIES", "100"))
"""For each format; with 2,500 they are deep enough for a night."""

STEPS = 6
ROWS = pa.table({"id": [1]})


class RealTable(ABC):
    """A table in which each commit of the model is made, too."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}

    @abstractmethod
    def history(self) -> TableHistory:
        """Return what is kept of its commits."""

    @abstractmethod
    def append(self, metadata: dict[str, str]) -> None:
        """Append a row."""

    @abstractmethod
    def overwrite(self) -> None:
        """Replace all rows."""

    def commit_batch(self, claim: Claim, seen: TableHistory) -> None:
        """Commit a batch, by a committer that saw the history `seen`."""
        if is_committed(self.history(), claim):
            return
        record = to_commit(seen, claim, last=self.last.get(claim.name))
        self.append({record.key: record.to_json()})
        version = self.history().version
        assert version is not None
        self.last[claim.name] = version


class Delta(RealTable):
    """A table of Delta, whose roll backs are commits."""

    def __init__(self, directory: Path, number: int) -> None:
        super().__init__()
        self.path = str(directory / str(number))

    def history(self) -> TableHistory:
        """Return its versions."""
        if not deltalake.DeltaTable.is_deltatable(self.path):
            return TableHistory(())
        return history_of(deltalake.DeltaTable(self.path).history())

    def append(self, metadata: dict[str, str]) -> None:
        """Append a row."""
        self._write("append", metadata)

    def overwrite(self) -> None:
        """Replace all rows."""
        self._write("overwrite", {})

    def compact(self) -> None:
        """Change nothing about the rows."""
        deltalake.DeltaTable(self.path).alter.set_table_description("rows")

    def restore(self) -> None:
        """Go back to the version before, in a commit."""
        table = deltalake.DeltaTable(self.path)
        table.restore(table.version() - 1)

    def _write(self, mode: Any, metadata: dict[str, str]) -> None:  # noqa: ANN401 - a literal
        properties = deltalake.CommitProperties(
            custom_metadata={"userMetadata": json.dumps(metadata)}
        )
        deltalake.write_deltalake(self.path, ROWS, mode=mode, commit_properties=properties)


class Iceberg(RealTable):
    """A table of Iceberg, whose roll backs leave no commit."""

    def __init__(self, catalog: SqlCatalog, number: int) -> None:
        super().__init__()
        self.table = catalog.create_table(f"db.t{number}", ROWS.schema)

    def history(self) -> TableHistory:
        """Return its snapshots."""
        return iceberg_history(self.table.refresh())

    def append(self, metadata: dict[str, str]) -> None:
        """Append a row."""
        self.table.append(ROWS, snapshot_properties=metadata)

    def overwrite(self) -> None:
        """Replace all rows."""
        self.table.overwrite(ROWS)

    def roll_back(self, snapshot: int) -> None:
        """Go back to a snapshot."""
        self.table.manage_snapshots().rollback_to_snapshot(snapshot).commit()

    def expire(self, snapshots: list[int]) -> None:
        """Forget snapshots."""
        self.table.maintenance.expire_snapshots().by_ids(snapshots).commit()


def times(history: TableHistory, queries: list[Query]) -> list[int | None]:
    """Return what the history claims for each query."""
    standings = history.standings()
    return [standings.get(query.name, Standing()).complete_to for query in queries]


def write_batch(model: ModelTable, real: RealTable, query: Query, random: Random) -> None:
    """Write a batch to both; at times others write after the committer has looked."""
    query.plan(random)
    seen, really_seen = model.history(), real.history()
    if model.head and random.random() < 0.2:
        change_rows(model, real, random)
    model.commit_batch(query, seen)
    real.commit_batch(query.claim(), really_seen)


def change_rows(model: ModelTable, real: RealTable, random: Random) -> None:
    """Append or overwrite both, in the name of nobody."""
    if random.random() < 0.6:
        model.commit("append", [("", 1, 1)])
        real.append({})
    else:
        model.commit("other", ())
        real.overwrite()


def run_again(model: ModelTable, real: RealTable, query: Query) -> None:
    """Start the driver again, which runs its last batch once more."""
    query.last = None
    real.last.pop(query.name, None)
    if query.times:
        model.commit_batch(query, model.history())
        real.commit_batch(query.claim(), real.history())


def test_histories_of_delta_claim_what_the_model_does(tmp_path: Path) -> None:
    """Appends of two queries and of others, overwrites, restores, and changes of properties."""
    for number in range(HISTORIES):
        random = Random(number)
        model, real = ModelTable(), Delta(tmp_path, number)
        queries = [Query("a", "q1"), Query("b", "q2")]
        for _ in range(STEPS):
            query, chance = random.choice(queries), random.random()
            if chance < 0.55 or not model.head:
                write_batch(model, real, query, random)
            elif chance < 0.65:
                run_again(model, real, query)
            elif chance < 0.8:
                change_rows(model, real, random)
            elif chance < 0.9:
                model.commit("none", ())
                real.compact()
            elif deltalake.DeltaTable(real.path).version():
                model.commit("other", ())
                real.restore()

            claimed = times(real.history(), queries)
            assert claimed == [model.claimed(query) for query in queries], number


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    """Return a catalog in a directory."""
    found = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    found.create_namespace("db")
    return found


@pytest.mark.parametrize("expires", [False, True])
def test_histories_of_iceberg_claim_what_the_model_does(
    catalog: SqlCatalog, *, expires: bool
) -> None:
    """Roll backs, too. If snapshots expire the model knows more, and only the truth counts."""
    for number in range(HISTORIES // 2):
        random = Random(number)
        model, real = ModelTable(), Iceberg(catalog, number)
        queries, snapshots = [Query("a", "q1"), Query("b", "q2")], dict[int, int]()
        for _ in range(STEPS):
            query, chance = random.choice(queries), random.random()
            if chance < 0.55 or not model.head:
                write_batch(model, real, query, random)
            elif chance < 0.65:
                run_again(model, real, query)
            elif chance < 0.8:
                change_rows(model, real, random)
            elif chance < 0.9 or not expires:
                kept = [
                    c.id for c in model.chain() if c.id not in model.expired and c.id in snapshots
                ]
                model.head = random.choice(kept)
                real.roll_back(snapshots[model.head])
            else:
                old = [c.id for c in model.chain()[:-1] if c.id not in model.expired]
                gone = [each for each in old[: len(old) // 2 + 1] if each in snapshots]
                if gone:
                    model.expired |= set(gone)
                    real.expire([snapshots[each] for each in gone])
            version = real.history().version
            assert version is not None
            snapshots[model.head] = version

            claimed = times(real.history(), queries)
            if not expires:
                assert claimed == [model.claimed(query) for query in queries], number
            for query, time in zip(queries, claimed, strict=True):
                assert time is None or model.is_true(query, time), number


def test_a_table_that_does_not_exist_is_refused_by_its_name(tmp_path: Path) -> None:
    """Not as one without a claim."""
    with pytest.raises(Exception, match="there is no Delta table at"):
        standing(f"delta:{tmp_path / 'nowhere'}")
