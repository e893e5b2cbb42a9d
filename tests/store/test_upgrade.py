"""What a database that an earlier version wrote becomes when it is migrated."""

import json
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import MetaData, Table

from controller.store.migrate import engine_to_migrate, migrate
from controller.store.open import open_store
from controller.store.port import Reading
from controller.store.postgres import is_postgres
from tests.store.conftest import DURABLE
from tests.store.models import check_models
from tests.support.http import as_json
from tests.support.postgres import Server

SAVED = json.loads((Path(__file__).parent / "version-0.1.0.json").read_text())
"""The rows that version 0.1.0 left when it was killed in use, and what it read back from them."""


@pytest.fixture(params=DURABLE)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind, without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'noted-time.db'}"
    server: Server = request.getfixturevalue("server")
    return server.make_database()


def restore(url: str, revision: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Create the database as that revision left it, with these rows of its tables."""
    engine = engine_to_migrate(url)
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(files("migrations")))
        command.upgrade(config, revision)
        for name, values in rows.items():
            table = Table(name, MetaData(), autoload_with=connection)
            connection.execute(table.delete())
            if values:
                connection.execute(table.insert(), values)
    engine.dispose()


def everything(store: Reading) -> dict[str, Any]:
    """Return what is kept of each stream, as plain JSON."""
    found: dict[str, Any] = {"streams": store.streams(), "alignments": store.alignments()}
    for each in store.streams():
        domains = each.settings.domains
        found[each.name] = {
            "scales": store.scales(each.id),
            "members": [member._asdict() for member in store.members(each.id)],
            "readers": store.readers(each.id),
            "backlogs": store.backlogs(each.id),
            "changes": store.changes(each.id, before=None, limit=99),
            "marks": {domain: list(store.marks(each.id, domain)) for domain in domains},
            "ledger": {
                domain: store.ledger(each.id, domain, after=0, limit=99) for domain in domains
            },
        }
    plain: dict[str, Any] = as_json(found)
    return plain


def known_to(saved: object, read: object) -> object:
    """Return of what is read what the version that saved it knew: a later one has more fields."""
    if isinstance(saved, dict) and isinstance(read, dict):
        return {key: known_to(each, read.get(key)) for key, each in saved.items()}
    if isinstance(saved, list) and isinstance(read, list) and len(saved) == len(read):
        return [known_to(*pair) for pair in zip(saved, read, strict=True)]
    return read


def test_a_database_of_version_0_1_0_is_read_back_after_its_migration(url: str) -> None:
    """Streams, members, marks, readers, the ledger and the changes are what they were."""
    restore(url, "0001", SAVED["rows"])
    migrate(url)
    check_models(url)

    with closing(open_store(url)) as store:
        read = everything(store)

    assert known_to(SAVED["read"], read) == SAVED["read"]


def test_a_database_that_is_created_today_has_buckets_at_0(url: str) -> None:
    """A shared one has 64, one in a file has one."""
    migrate(url)

    with closing(open_store(url)) as store:
        buckets = 64 if is_postgres(url) else 1
        assert (store.clocks(), store.heartbeat().buckets) == (
            dict.fromkeys(range(buckets), 0),
            buckets,
        )


def test_each_database_has_a_secret_of_its_own(tmp_path: Path) -> None:
    """Controllers of one are strangers to those of another."""
    found = set()
    for name in ("a", "b"):
        migrate(url := f"sqlite:///{tmp_path / name}")
        with closing(open_store(url)) as store:
            found.add(store.replicas_secret())

    assert (len(found), {len(each) for each in found}) == (2, {43})
