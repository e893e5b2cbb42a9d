"""Migrations of databases, also by several processes at once."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, Text, inspect

from controller.store import migrate as migrating
from controller.store.migrate import (
    MIGRATIONS_DIRECTORY,
    WrongSchema,
    check,
    create_if_new,
    engine_to_migrate,
    migrate,
    read_revision,
)
from controller.store.open import open_store, open_tokens
from controller.store.port import StoreUnavailable
from controller.store.postgres import is_postgres
from controller.store.schema import SCHEMA_REVISION, VERSION_TABLE, metadata
from controller.store.sqlite import check_references, parse_file
from noted_time import Rejected
from tests.support.stored import build_changes, read_seqs


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of an absent database."""
    return f"sqlite:///{tmp_path / 'noted-time.db'}"


def set_revision(url: str, number: str) -> str:
    """Set the migrated database at `url` to another revision."""
    migrate(url)
    with closing(sqlite3.connect(parse_file(url))) as connection, connection:
        connection.execute("UPDATE noted_time_version SET version_num = ?", (number,))
    return url


@contextmanager
def connect(url: str) -> Iterator[Connection]:
    """Connect as a migration does."""
    engine = engine_to_migrate(url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_new_database_has_buckets_at_0(empty: str) -> None:
    """A shared database has 64 buckets, and a file has one."""
    migrate(empty)

    with closing(open_store(empty)) as store:
        buckets = 64 if is_postgres(empty) else 1
        assert store.clocks() == dict.fromkeys(range(buckets), 0)
        assert store.heartbeat().buckets == buckets


def test_databases_have_different_secrets(tmp_path: Path) -> None:
    """So controllers of different databases do not trust each other."""
    secrets = set()
    for name in ("a", "b"):
        migrate(url := f"sqlite:///{tmp_path / name}")
        with closing(open_store(url)) as store:
            secrets.add(store.replicas_secret())

    assert (len(secrets), {len(secret) for secret in secrets}) == (2, {43})


def test_second_migration_changes_nothing(url: str) -> None:
    """A migrated database is not even locked."""
    migrate(url)
    with closing(open_store(url)) as store:
        store.commit(build_changes(upto=2))
    with closing(sqlite3.connect(parse_file(url), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        migrate(url)

    with closing(open_store(url)) as store:
        assert read_seqs(store) == [1, 2]


def test_processes_migrate_at_once(empty: str, tmp_path: Path) -> None:
    """One migrates, and the others wait."""
    go = tmp_path / "go"
    code = (
        "import sys, time; from pathlib import Path; from controller.store.migrate import migrate\n"
        "print(flush=True)\n"
        "while not Path(sys.argv[2]).exists(): time.sleep(0.001)\n"
        "migrate(sys.argv[1])"
    )
    command = [sys.executable, "-c", code, empty, str(go)]
    with ExitStack() as stack:
        migrating = (subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3))
        processes = [stack.enter_context(process) for process in migrating]
        for process in processes:
            assert process.stdout
            process.stdout.readline()
        go.touch()
        codes = [process.wait(60) for process in processes]

    assert (codes, read_revision(empty)) == ([0] * 3, SCHEMA_REVISION)


@pytest.mark.parametrize("use", [check, migrate], ids=["check", "migrate"])
def test_database_before_the_first_revision_is_refused(
    empty: str, use: Callable[[str], None]
) -> None:
    """Its tables have other columns, and no migration knows them."""
    migrate(empty)
    with connect(empty) as connection:
        connection.exec_driver_sql("UPDATE noted_time_version SET version_num = '0001'")
        connection.commit()
    with pytest.raises(WrongSchema) as wrong:
        use(empty)

    assert (wrong.value.found, read_revision(empty)) == ("0001", "0001")
    assert str(wrong.value).endswith(
        " is at 0001, of a version before the first release, and cannot be migrated: start the "
        "noted-time that created it, or name an empty database"
    )


def test_older_schema_names_migrate(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a person should run it."""
    migrate(empty)
    monkeypatch.setattr(migrating, "SCHEMA_REVISION", "9000")
    with pytest.raises(
        WrongSchema, match=f"is at {SCHEMA_REVISION}, older than 9000: run `"
    ) as wrong:
        check(empty)

    assert "noted-time migrate --database" in str(wrong.value)


def test_check_of_absent_database_names_migrate(url: str) -> None:
    """The check does not create the file."""
    with pytest.raises(WrongSchema) as wrong:
        check(url)

    remedy = f"correct --database, or run `noted-time migrate --database {url}`"
    assert str(wrong.value) == f"the database {parse_file(url)} does not exist: {remedy}"
    assert not parse_file(url).exists()


@pytest.mark.parametrize("act", [check, open_store, migrate])
def test_newer_schema_is_refused(url: str, act: Callable[[str], object]) -> None:
    """The error asks for a newer version."""
    set_revision(url, "9999")

    with pytest.raises(WrongSchema, match=r"at 9999, newer than .*: install the noted-time that"):
        act(url)


def test_failed_migration_leaves_file_unchanged(url: str) -> None:
    with closing(sqlite3.connect(parse_file(url))) as connection, connection:
        connection.execute("CREATE VIEW noted_time_mark AS SELECT 1")

    with pytest.raises(StoreUnavailable, match="noted_time_mark"):
        migrate(url)

    with closing(sqlite3.connect(parse_file(url))) as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema").fetchall()
    assert tables == [("noted_time_mark",)]


def run_statements(url: str, statements: str) -> None:
    """Change a database behind the back of its label."""
    with connect(url) as connection:
        for statement in statements.split(";"):
            connection.exec_driver_sql(statement)
        connection.commit()


@pytest.mark.parametrize("use", [check, migrate, open_store, open_tokens])
@pytest.mark.parametrize(
    ("statements", "says"),
    [
        ("DROP TABLE noted_time_late", "noted_time_late is missing"),
        (
            "ALTER TABLE noted_time_ledger RENAME COLUMN appended_served_ms TO appended_at",
            "noted_time_ledger has no column appended_served_ms",
        ),
        (
            "ALTER TABLE noted_time_late RENAME record TO note",
            "noted_time_late has no column record, noted_time_late.note needs a value",
        ),
        (
            """
            ALTER TABLE noted_time_replica DROP COLUMN zone_data;
            ALTER TABLE noted_time_replica ADD COLUMN zone_data BIGINT
            """,
            "noted_time_replica.zone_data is BIGINT, not TEXT",
        ),
        (
            """
            DROP TABLE noted_time_bucket;
            CREATE TABLE noted_time_bucket
                (number BIGINT, served_ms BIGINT, PRIMARY KEY (served_ms, number))
            """,
            "noted_time_bucket has the primary key (served_ms, number), not (number)",
        ),
        (
            """
            CREATE TABLE copied AS SELECT * FROM noted_time_secret;
            DROP TABLE noted_time_secret;
            ALTER TABLE copied RENAME TO noted_time_secret
            """,
            "noted_time_secret has no primary key, not (name)",
        ),
    ],
)
def test_tables_of_another_commit_are_refused(
    empty: str, use: Callable[[str], object], statements: str, says: str
) -> None:
    """The label is of this version. The error has what differs, and the remedy."""
    migrate(empty)
    run_statements(empty, statements)

    with pytest.raises(WrongSchema) as wrong:
        use(empty)
    assert f" differ from its revision {SCHEMA_REVISION}: {says}" in str(wrong.value)
    assert str(wrong.value).endswith(
        "; start the noted-time that created it, restore a whole backup, or name an empty database"
    )


def test_many_differences_are_counted(url: str) -> None:
    migrate(url)
    run_statements(url, "; ".join(f"DROP TABLE {name}" for name in metadata.tables))

    with pytest.raises(WrongSchema, match=rf", and {len(metadata.tables) - 5} more; start the"):
        check(url)


def test_more_tables_and_columns_are_allowed(empty: str) -> None:
    """Even a column that needs a value, if it has a default."""
    migrate(empty)
    run_statements(
        empty,
        "CREATE TABLE noted_time_colour (name TEXT);"
        "ALTER TABLE noted_time_mark ADD COLUMN colour TEXT;"
        "ALTER TABLE noted_time_mark ADD COLUMN shade TEXT NOT NULL DEFAULT 'grey'",
    )
    migrate(empty)

    with closing(open_store(empty)) as store:
        assert store.streams() == []


EARLIER_TABLES = """
CREATE TABLE alembic_version (version_num TEXT);
CREATE TABLE stream (id TEXT PRIMARY KEY, name TEXT, record TEXT);
CREATE TABLE mark (stream_id TEXT, domain TEXT, seq BIGINT, lower BIGINT, upper BIGINT)
"""


def start(url: str) -> None:
    """Use a database as a controller does at its start."""
    create_if_new(url)
    open_store(url)


@pytest.mark.parametrize("use", [check, migrate, start])
@pytest.mark.parametrize("is_migrated", [True, False])
def test_tables_of_before_the_first_release_are_refused(
    empty: str, use: Callable[[str], object], *, is_migrated: bool
) -> None:
    """A controller on additional new tables would have none of their streams and tokens."""
    if is_migrated:
        migrate(empty)
    run_statements(empty, EARLIER_TABLES)

    with pytest.raises(WrongSchema, match="has tables of a version before the first release"):
        use(empty)
    with connect(empty) as connection:
        tables = inspect(connection).get_table_names()
    assert ("noted_time_stream" in tables) == is_migrated


@pytest.mark.parametrize("use", [check, migrate])
def test_tables_without_a_revision_are_refused(empty: str, use: Callable[[str], object]) -> None:
    """As after a restore of some tables."""
    migrate(empty)
    run_statements(empty, f"DROP TABLE {VERSION_TABLE}; DROP TABLE noted_time_backlog")

    with pytest.raises(WrongSchema, match="has noted_time_bucket, but no revision in noted_time_v"):
        use(empty)


def test_migration_of_tables_of_another_commit_is_refused(empty: str) -> None:
    """The label is of an older version, which had a table that is missing here."""
    migrate(empty)
    run_statements(empty, "UPDATE noted_time_version SET version_num = '0001b'")
    with pytest.raises(WrongSchema, match=r"differ from its revision 0001b: .*_membership"):
        migrate(empty)

    assert read_revision(empty) == "0001b"


def test_database_with_tables_of_other_programs_is_shared(empty: str) -> None:
    """Other tables may have common names, or be Alembic's."""
    other_tables = ("alembic_version", "stream", "token", "secret", "change")
    with connect(empty) as connection, connection.begin():
        for name in other_tables:
            connection.exec_driver_sql(f"CREATE TABLE {name} (colour TEXT)")
    migrate(empty)

    with connect(empty) as connection:
        tables = inspect(connection).get_table_names()
    assert set(tables) == {*other_tables, *metadata.tables, VERSION_TABLE}


def test_unknown_revision_is_not_migrated(url: str) -> None:
    """The error names the revision."""
    set_revision(url, "0000")

    with pytest.raises(StoreUnavailable, match="0000"):
        migrate(url)


def test_referenced_table_can_be_altered(url: str) -> None:
    """SQLite recreates the table, and rows that refer to it stay."""
    migrate(url)
    with closing(open_store(url)) as store:
        store.commit(build_changes(upto=2))
    with connect(url) as connection, connection.begin():
        operations = Operations(MigrationContext.configure(connection))
        with operations.batch_alter_table("noted_time_stream", recreate="always") as batch:
            batch.add_column(Column("colour", Text))
        check_references(connection)

    with closing(open_store(url)) as store:
        assert read_seqs(store) == [1, 2]


def test_migration_finds_rows_without_stream(url: str) -> None:
    """Foreign keys are off during a migration, so they are checked at its end."""
    migrate(url)
    with connect(url) as connection:
        connection.exec_driver_sql("INSERT INTO noted_time_scale VALUES ('nobody', 1, '{}', NULL)")

        with pytest.raises(StoreUnavailable, match=r"rows without a stream.*scale"):
            check_references(connection)


def test_migrations_make_tables_of_schema(empty: str) -> None:
    """Alembic finds no difference."""
    migrate(empty)

    with connect(empty) as connection:
        opts = {"compare_server_default": True, "version_table": VERSION_TABLE}
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, metadata) == []


def test_schema_names_last_revision() -> None:
    """`check` compares with a constant, so it does not need the migrations."""
    directory = str(MIGRATIONS_DIRECTORY)

    assert ScriptDirectory(directory).get_heads() == [SCHEMA_REVISION]


def test_every_constraint_has_name() -> None:
    """SQLite could not alter a constraint without a name."""
    constraints = [
        constraint for table in metadata.tables.values() for constraint in table.constraints
    ]

    assert [constraint for constraint in constraints if not constraint.name] == []


def test_database_is_created_only_if_there_is_none(url: str) -> None:
    """A new file gets its tables, and an older database is not migrated."""
    first = create_if_new(url)
    set_revision(url, "0000")
    second = create_if_new(url)

    assert (first, second, read_revision(url)) == (True, False, "0000")


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql://db/noted", "nonsense:x"]
)
def test_url_without_store_is_rejected(url: str) -> None:
    """The error shows a valid URL."""
    with pytest.raises(Rejected, match=r"use sqlite:///path/to/file\.db"):
        open_store(url)
