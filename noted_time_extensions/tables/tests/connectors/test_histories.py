"""No claim of a real table is too high: Delta by deltalake, Iceberg by pyiceberg."""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.memory import InMemoryCatalog

from noted_time.values import Conflict, Rejected
from noted_time_extensions.tables import accept, inherit, pin, standing
from noted_time_extensions.tables.claim import Claim
from noted_time_extensions.tables.delta_log import DeltaLog
from noted_time_extensions.tables.table_history import Change, ClaimStatus, NoClaim, TableHistory
from noted_time_extensions.tables.table_urls import read_iceberg_history
from noted_time_extensions.tables.tests.support.claimed import TEN, Orders
from noted_time_extensions.tables.tests.support.pipeline_model import JobTable, Pipeline, Table
from noted_time_extensions.tables.tests.support.table_model import Query, Row, State, World

HISTORIES = int(os.environ.get("NOTED_TIME_HISTORIES", "40"))
"""For each format; with 2,500 they are deep enough for a night."""

PIPELINES = HISTORIES // 4

STEPS = 12
ROWS = pa.table({"id": [1]})


def build_metadata(claims: Iterable[Claim]) -> dict[str, str]:
    """Return the records as the metadata of a commit."""
    return {
        claim.key: claim.to_json() if not claim.unreadable else "[" * 20_000 for claim in claims
    }


class DeltaWorld(World):
    """A Delta table on a disk. It is put back from copies, and its log is cleaned."""

    def open_in(self, directory: Path, name: str) -> None:
        """Keep the table and its copies in a directory."""
        self.path = directory / name / "table"
        self.copies = directory / name / "copies"
        self.log = DeltaLog(str(self.path))
        self.copied = dict[int, State]()

    def history(self) -> TableHistory:
        """Return the history of a reader that caches commits."""
        return self.log.history() if self.log.exists() else TableHistory((), is_numbered=True)

    def commit(self, change: Change, rows: Iterable[Row], *claims: Claim) -> None:
        """Commit to the model and the table."""
        super().commit(change, rows, *claims)
        if change == "none":
            deltalake.DeltaTable(self.path).alter.set_table_description("rows")
            return
        mode: Any = "overwrite" if change == "other" else "append"
        metadata = {"userMetadata": json.dumps(build_metadata(claims))}
        properties = deltalake.CommitProperties(custom_metadata=metadata)
        deltalake.write_deltalake(self.path, ROWS, mode=mode, commit_properties=properties)

    def save(self) -> None:
        """Copy the table."""
        super().save()
        if self.path.exists():
            shutil.copytree(self.path, self.copies / str(len(self.saved)))

    def put_back(self) -> None:
        """Replace the table by a copy."""
        if not self.saved:
            return
        place = self.chance.randrange(len(self.saved))
        self.state = self.saved[place]
        copy = self.copies / str(place + 1)
        shutil.rmtree(self.path, ignore_errors=True)
        if copy.exists():
            shutil.copytree(copy, self.path)

    def drop(self) -> None:
        """Delete the table."""
        shutil.rmtree(self.path, ignore_errors=True)
        super().drop()

    def expire(self) -> None:
        """Clean the log."""
        super().expire()
        for commit in self.state.commits[: self.state.kept_from]:
            self._remove(commit.id)

    def leave_gap(self) -> None:
        """Lose the file of a commit."""
        super().leave_gap()
        for number in self.state.hidden:
            self._remove(number)

    def _remove(self, number: int) -> None:
        deltalake.DeltaTable(self.path).create_checkpoint()
        (self.path / "_delta_log" / f"{number:020}.json").unlink(missing_ok=True)


class IcebergWorld(World):
    """A table of Iceberg, whose catalog is put back, and whose snapshots expire."""

    def open_in(self, catalog: Catalog, name: str) -> None:
        """Make the table in a catalog."""
        self.catalog = catalog
        self.identifier = f"db.{name}"
        self.places = dict[int, str]()
        self.table = catalog.create_table(self.identifier, ROWS.schema)

    def history(self) -> TableHistory:
        """Return the history as a reader finds it."""
        return read_iceberg_history(self.table.refresh())

    def commit(self, change: Change, rows: Iterable[Row], *claims: Claim) -> None:
        """Commit to both. The model numbers the snapshots."""
        super().commit(change, rows, *claims)
        write = self.table.overwrite if change == "other" else self.table.append
        write(ROWS, snapshot_properties=build_metadata(claims))
        self.places[self.state.commits[-1].id] = str(self.table.metadata.current_snapshot_id)

    def save(self) -> None:
        """Remember the current metadata file."""
        super().save()
        self.locations = [*getattr(self, "locations", []), self.table.metadata_location]

    def put_back(self) -> None:
        """Let the catalog name an earlier metadata file."""
        if self.saved:
            place = self.chance.randrange(len(self.saved))
            self.state = self.saved[place]
            self.catalog.drop_table(self.identifier)
            self.table = self.catalog.register_table(self.identifier, self.locations[place])

    def roll_back(self) -> None:
        """Go back to a snapshot."""
        super().roll_back()
        snapshot = int(self.places[self.state.commits[-1].id])
        self.table.manage_snapshots().rollback_to_snapshot(snapshot).commit()

    def drop(self) -> None:
        """Drop the table, and make another."""
        self.catalog.drop_table(self.identifier)
        self.table = self.catalog.create_table(self.identifier, ROWS.schema)
        super().drop()

    def expire(self) -> None:
        """Expire the oldest snapshots."""
        before = self.state.kept_from
        super().expire()
        old_snapshots = [
            int(self.places[c.id]) for c in self.state.commits[before : self.state.kept_from]
        ]
        if old_snapshots:
            self.table.maintenance.expire_snapshots().by_ids(old_snapshots).commit()


class DeltaTable(Table, DeltaWorld):
    """A table of Delta in a pipeline."""


class DeltaJobTable(JobTable, DeltaWorld):
    """A table of Delta that a job writes."""


class IcebergTable(Table, IcebergWorld):
    """A table of Iceberg in a pipeline."""

    def number(self, commit: int) -> int:
        return int(self.places[commit])


class IcebergJobTable(JobTable, IcebergTable):
    """A table of Iceberg that a job writes."""


OpenWorld = Callable[..., Any]
KINDS: dict[str, dict[type[World], type[DeltaWorld | IcebergWorld]]] = {
    "delta": {World: DeltaWorld, Table: DeltaTable, JobTable: DeltaJobTable},
    "iceberg": {World: IcebergWorld, Table: IcebergTable, JobTable: IcebergJobTable},
}


@pytest.fixture(params=KINDS)
def open_world(request: pytest.FixtureRequest, tmp_path: Path) -> OpenWorld:
    """Return what makes a table. The catalog of Iceberg is in memory, and waits for no disk."""
    place: Any = tmp_path
    if request.param == "iceberg":
        place = InMemoryCatalog("c", warehouse=f"file://{tmp_path}")
        place.create_namespace("db")

    def build(name: str, kind: type[World], seed: int, *queries: str) -> World:
        chance = Random(seed)
        is_numbered = request.param == "delta"
        named_queries = [Query(query, chance) for query in queries]
        world = KINDS[request.param][kind](chance, is_numbered=is_numbered, queries=named_queries)
        world.open_in(place, name)
        return world

    return build


def find_false_claims(world: World) -> list[str]:
    """Play a history, and return the claims that are not true."""
    false_claims = []
    for _ in range(STEPS):
        world.act(is_benign=False)
        statuses = world.history().statuses()
        for query in world.queries:
            status = statuses.get(query.name, ClaimStatus())
            holder = status.claim.query if status.claim is not None else ""
            if status.complete_to is not None and world.lacks(query, holder, status.complete_to):
                false_claims.append(f"{query.name}: {status}")
    return false_claims


def test_no_claim_of_a_real_table_is_too_high(open_world: OpenWorld) -> None:
    """Directories and catalogs are put back, tables roll back, and their history expires."""
    for seed in range(HISTORIES):
        world = open_world(f"t{seed}", World, seed, "a", "b")

        assert find_false_claims(world) == [], seed


def test_commit_without_information_ends_the_claim(tmp_path: Path) -> None:
    """Delta allows such a commit, and its own list of the history skips it."""
    claim = Claim("orders", 50, "time", "q", 0, id="a")
    properties = deltalake.CommitProperties(
        custom_metadata={"userMetadata": json.dumps({claim.key: claim.to_json()})}
    )
    deltalake.write_deltalake(tmp_path, ROWS, commit_properties=properties)
    before = standing(f"delta:{tmp_path}")
    log = tmp_path / "_delta_log"
    (file,) = deltalake.DeltaTable(tmp_path).get_add_actions(flatten=True)["path"].to_pylist()
    remove = {"remove": {"path": file, "deletionTimestamp": 1, "dataChange": True}}
    (log / f"{1:020}.json").write_text(json.dumps(remove) + "\n")

    found = standing(f"delta:{tmp_path}")
    assert getattr(before, "complete_to", None) == 50
    assert isinstance(found, NoClaim)
    assert "a commit that does not say what it does in version 1" in found.why


def test_unknown_table_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="there is no Delta table at"):
        standing(f"delta:{tmp_path / 'nowhere'}")


def test_table_with_commits_in_its_catalog_is_refused_by_name(tmp_path: Path) -> None:
    """Waiting does not help, and deltalake names its own method instead."""
    features = ["catalogManaged", "vacuumProtocolCheck"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": [*features, "inCommitTimestamp"],
    }
    metadata = {
        "id": "orders",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": '{"type": "struct", "fields": []}',
        "partitionColumns": [],
        "configuration": {"delta.enableInCommitTimestamps": "true"},
    }
    about = {"inCommitTimestamp": 1, "timestamp": 1, "operation": "CREATE TABLE"}
    actions = [{"commitInfo": about}, {"protocol": protocol}, {"metaData": metadata}]
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))

    with pytest.raises(Rejected) as caught:
        standing(f"delta:{tmp_path}")
    assert str(caught.value) == (
        f"the commits of the Delta table at '{tmp_path}' are kept by its catalog: reading or "
        "writing claims there is not possible yet"
    )


def test_table_changed_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepting and inheriting a claim are refused, too."""
    orders = Orders(tmp_path / "orders")
    days = Orders(tmp_path / "days")
    orders.claim(TEN, 0)
    days.claim(TEN, 0)
    days.overwrite()
    (pin_of_orders,) = pin(orders.url)

    def change_first(_: int) -> str:
        days.overwrite()
        return "id"

    monkeypatch.setattr("noted_time_extensions.tables.checks.token_hex", change_first)
    monkeypatch.setattr("noted_time_extensions.tables.inheriting.token_hex", change_first)
    with pytest.raises(Conflict, match="was changed while the claim was committed"):
        accept(days.url, "looked: Ada", at=1)
    with pytest.raises(Conflict, match="was changed while the claim was committed"):
        inherit(days.url, [pin_of_orders], name="days", time_of="id")


def find_false_inherited_claims(seed: int, open_world: OpenWorld) -> list[str]:
    """Play a history of a pipeline up to the first claims that are not true, and return them."""
    pipeline = Pipeline(
        Random(seed), lambda name, kind: open_world(f"{name}{seed}", kind, seed, name)
    )
    pipeline.begin()
    for _ in range(STEPS):
        pipeline.act()
        if false_claims := pipeline.find_false_claims():
            return false_claims
    return []


def test_no_inherited_claim_of_a_real_table_is_too_high(open_world: OpenWorld) -> None:
    """Tables of three hops change while jobs read them, and old snapshots become current again."""
    for seed in range(PIPELINES):
        assert find_false_inherited_claims(seed, open_world) == [], seed
