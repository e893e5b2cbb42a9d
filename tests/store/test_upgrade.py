"""What a database of an earlier version becomes when it is migrated."""

from __future__ import annotations

import json
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import MetaData, Table

from controller.store.migrate import engine_to_migrate, migrate
from controller.store.open import open_store
from controller.store.port import AppendedMark, Batch, StreamRecord
from controller.store.postgres import is_postgres
from noted_time import Mark, MemberRecord, StreamCut, StreamSettings
from tests.store.conftest import DURABLE
from tests.support.models import check_models
from tests.support.stored import member

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.postgres import Server

JOURNAL = Path(__file__).parent / "journal-0006.json"
"""Made by version 0006 under load and killed, with the members that it read back itself."""

STREAM = ["id-1", "flights", 1, 2, "hold", '{"default":0}', 3, None, 4]


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
            StreamRecord("id-1", "flights", StreamSettings(1, 2, "hold", ("default",), 3, None))
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
            MemberRecord("UA", "idle", "timed_out", {0: 1}, {"default": 5}, {"default": 9}, 7, 6, 0)
        ]


def journaled(url: str, **rows: Sequence[Sequence[Any]]) -> None:
    """Make the database as revision 0006 left it, with these rows of its tables."""
    at(url, "0006")
    engine = engine_to_migrate(url)
    with engine.begin() as connection:
        for name, values in rows.items():
            table = Table(name, MetaData(), autoload_with=connection)
            named = [dict(zip(table.columns.keys(), row, strict=True)) for row in values]
            connection.execute(table.insert(), named)
    engine.dispose()


def entry(
    seq: int, *records: MemberRecord, forgotten: Sequence[str] = (), stream_id: str = "id-1"
) -> list[Any]:
    """Return the row of an entry of the journal."""
    writers = [each.writer for each in records]
    return [
        stream_id,
        seq,
        json.dumps([forgotten, writers, [as_of_0006(each) for each in records]]),
    ]


def as_of_0006(record: MemberRecord) -> list[Any]:
    """Return what revision 0006 knew of a member, in its words."""
    writer, state, excluded, *others = record[:9]
    return [writer, "left" if state == "finished" else state, excluded is not None, *others]


def row(record: MemberRecord) -> list[Any]:
    """Return the row of a member of the stream `id-1`."""
    known = as_of_0006(record)
    return ["id-1", *(json.dumps(each) if isinstance(each, dict) else each for each in known)]


def members_after_migration(url: str, stream_id: str = "id-1") -> list[MemberRecord]:
    """Migrate the database, in which no journal is left, and return the members of a stream."""
    migrate(url)
    check_models(url)
    with closing(open_store(url)) as store:
        return list(store.members(stream_id))


def test_a_journal_that_was_written_under_load_is_folded_into_the_members(url: str) -> None:
    """They are what the version that wrote it read back after it was killed."""
    saved = json.loads(JOURNAL.read_text())
    expected = saved.pop("members")
    journaled(url, **saved)

    found = {
        stream_id: [as_of_0006(each) for each in members_after_migration(url, stream_id)]
        for stream_id in expected
    }

    assert json.loads(json.dumps(found)) == expected


def test_of_the_entries_of_a_writer_the_last_one_counts(url: str) -> None:
    """Also where more entries lie between them than are read at a time; others stay."""
    entries = [entry(seq, member("UA", time=seq)) for seq in range(2, 130)]
    journaled(url, stream=[STREAM], member=[row(member("DL")), row(member("UA"))], journal=entries)

    assert members_after_migration(url) == [member("DL"), member("UA", time=129)]


def test_what_was_said_of_a_writer_before_it_was_forgotten_counts_no_more(url: str) -> None:
    """Unless it came back; its row was deleted when it was forgotten."""
    entries = [
        entry(7, member("gone", 1), member("back", 1), member("later", 1)),
        entry(8, forgotten=["gone", "back", "never"]),
        entry(9, member("back", 2)),
        *(entry(seq, member("UA", seq)) for seq in range(10, 100)),
        entry(100, forgotten=["later"]),
    ]
    journaled(url, stream=[STREAM], journal=entries)

    assert members_after_migration(url) == [member("UA", 99), member("back", 2)]


def test_an_entry_of_a_stream_that_was_removed_is_ignored(url: str) -> None:
    """It belongs to nobody, and hinders no migration."""
    entries = [entry(1, member("DL"), stream_id="id-0"), entry(1, member("UA"))]
    journaled(url, stream=[STREAM], journal=entries)

    assert members_after_migration(url) == [member("UA")]


def test_an_empty_journal_leaves_the_members_as_they_are(url: str) -> None:
    """The database was made or came from an older version, and took no notes since."""
    journaled(url, stream=[STREAM], member=[row(member("UA"))])

    assert members_after_migration(url) == [member("UA")]


def test_the_words_of_the_contract_take_the_place_of_the_old_ones(url: str) -> None:
    """Who was left out had timed out, who left is finished, and keys are domains."""
    members = [member("DL")._replace(state="finished"), member("UA")._replace(excluded="timed_out")]
    chain = ["id-1", "ship_time", 1, 5, 9, '{"0":7}', 1000, '["UA"]', 17]
    stream = [*STREAM[:5], '{"default":0,"ship_time":4}', *STREAM[6:]]
    journaled(url, stream=[stream], member=list(map(row, members)), mark=[chain])

    kept_members = members_after_migration(url)

    with closing(open_store(url)) as store:
        (kept_stream,), (mark,) = store.streams(), store.marks("id-1", "ship_time")
        assert (kept_members, kept_stream.settings.domains) == (members, ("default", "ship_time"))
        assert (mark.mark, mark.appended_at) == (
            Mark(1, 5, 9, StreamCut({0: 7}), 1000, ("UA",)),
            17,
        )
        assert store.ledger("id-1", "ship_time", after=0, limit=9) == []


def test_the_marks_of_before_have_whole_cuts(url: str) -> None:
    """Each row has its own, also beside one that has only what moved."""
    cuts = [dict.fromkeys(range(40), offset) for offset in (7, 8)]
    chain = [
        ["id-1", "default", seq, seq, 9, json.dumps(cut), 1000, "[]", 17]
        for seq, cut in enumerate(cuts, 1)
    ]
    journaled(url, stream=[STREAM], mark=chain)
    migrate(url)
    cuts += [{**cuts[-1], 0: offset} for offset in (9, 10)]
    followers = [Mark(seq, seq, 9, StreamCut(cuts[seq - 1])) for seq in (3, 4)]

    with closing(open_store(url)) as store:
        store.acquire(store.heartbeat().free)
        store.commit(Batch(marks=[AppendedMark("id-1", "default", each, 0) for each in followers]))

        assert [dict(each.mark.cut.offsets) for each in store.marks("id-1", "default")] == cuts


def test_a_database_that_is_made_today_has_the_same_buckets(url: str) -> None:
    """Which begin at 0; a shared one has 64, one in a file has one."""
    migrate(url)

    with closing(open_store(url)) as store:
        buckets = 64 if is_postgres(url) else 1
        assert (store.clocks(), store.heartbeat().buckets) == (
            dict.fromkeys(range(buckets), 0),
            buckets,
        )
