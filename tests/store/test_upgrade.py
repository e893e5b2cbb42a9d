"""What a database of an earlier version becomes when it is migrated."""

from __future__ import annotations

from contextlib import closing
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from alembic import command
from alembic.config import Config

from controller.store.migrate import check_models, engine_to_migrate, migrate
from controller.store.open import open_store
from controller.store.port import StreamRecord
from controller.store.postgres import is_postgres
from noted_time import MemberRecord, StreamSettings
from tests.store.conftest import DURABLE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import Server


@pytest.fixture(params=DURABLE)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind, without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'noted-time.db'}"
    server: Server = request.getfixturevalue("server")
    return server.make_database()


def at(url: str, revision: str, *statements: str) -> None:
    """Make the database as that revision left it, then run the statements."""
    engine = engine_to_migrate(url)
    with engine.connect() as connection, connection.begin():
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(files("migrations")))
        command.upgrade(config, revision)
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_streams_of_before_the_bounds_take_the_defaults(url: str) -> None:
    """Any time may be noted as before, and writers that are gone go after a day."""
    row = """INSERT INTO stream VALUES ('id-1', 'flights', 1, 2, 'hold', '{"default":0}', 3)"""
    at(url, "0002", row)
    migrate(url)
    check_models(url)

    with closing(open_store(url)) as store:
        assert store.streams() == [
            StreamRecord("id-1", "flights", StreamSettings(1, 2, "hold", ("default",), 3))
        ]


def test_every_bucket_goes_on_at_the_service_clock_of_all(url: str) -> None:
    """No writer is left out, or waited for longer, because streams are shared out."""
    at(url, "0003", "UPDATE service_clock SET service_ms = 86400123")
    migrate(url)
    check_models(url)

    with closing(open_store(url)) as store:
        buckets = 64 if is_postgres(url) else 1
        assert store.clocks() == dict.fromkeys(range(buckets), 86_400_123)


def test_a_writer_of_before_the_order_has_made_no_request_with_a_number(url: str) -> None:
    """It goes on as it was, and its first number, whatever it is, is none too low."""
    stream = """INSERT INTO stream VALUES ('id-1', 'flights', 1, 2, 'hold', '{}', 3, null, 4)"""
    member = """INSERT INTO member VALUES
        ('id-1', 'UA', 'idle', true, '{"0":1}', '{"default":5}', '{"default":9}', 7, 6)"""
    at(url, "0004", stream, member)
    migrate(url)
    check_models(url)

    with closing(open_store(url)) as store:
        assert list(store.members("id-1")) == [
            MemberRecord("UA", "idle", True, {0: 1}, {"default": 5}, {"default": 9}, 7, 6, 0)  # noqa: FBT003 - a row
        ]


def test_a_database_that_is_made_today_has_the_same_buckets(url: str) -> None:
    """Which begin at 0; a shared one has 64, one in a file has one."""
    migrate(url)

    with closing(open_store(url)) as store:
        buckets = 64 if is_postgres(url) else 1
        assert (store.clocks(), store.look().buckets) == (
            dict.fromkeys(range(buckets), 0),
            buckets,
        )
