"""Checks that a database has this version's tables, and migrates it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from controller.store.port import StoreUnavailable
from controller.store.postgres import (
    create_postgres_engine,
    hide_password,
    is_postgres,
    lock_migration,
)
from controller.store.reading import build_unavailable, is_schema_error
from controller.store.schema import FIRST_REVISION, SCHEMA_REVISION, VERSION_TABLE, ReflectedTables
from controller.store.sql import SELECT_OLDEST_REVISION, is_compatible
from controller.store.sqlite import (
    check_references,
    create_migration_engine,
    create_sqlite_engine,
    parse_file,
)
from noted_time.installation import name_program

PACKAGE_DIRECTORY = Path(__file__).parents[1]
# in a wheel inside the package, in a clone next to it
MIGRATIONS_DIRECTORY = next(
    directory
    for directory in (PACKAGE_DIRECTORY / "migrations", PACKAGE_DIRECTORY.with_name("migrations"))
    if directory.is_dir()
)

LOCK_MS = 1000  # controllers wait behind a migration that waits for a table

DIFFERENCES_SHOWN = 5

NO_MIGRATION = "start the noted-time that created it, or name an empty database"
OTHER_DATABASE = (
    "start the noted-time that created it, restore a whole backup, or name an empty database"
)


class WrongSchema(StoreUnavailable):
    """The database has no tables, or other ones than this version's."""

    def __init__(self, sentence: str, revision: str | None = None) -> None:
        super().__init__(sentence)
        self.found = revision


def check(url: str) -> None:
    """Raise `WrongSchema` if this code does not work with the tables.

    A newer schema must be marked as compatible.
    """
    if _is_absent(url):
        raise WrongSchema(
            f"the database {parse_file(url)} does not exist: correct --database, or "
            f"{_name_migrate(url)}"
        )
    with _connect(url, _engine(url)) as connection:
        _check_tables(url, connection)


def read_revision(url: str) -> str | None:
    if _is_absent(url):
        return None
    with _connect(url, _engine(url)) as connection:
        return _revision(connection)


def is_new(url: str) -> bool:
    """Return whether the database is missing, or has no table at all."""
    if _is_absent(url):
        return True
    with _connect(url, _engine(url)) as connection:
        return not inspect(connection).get_table_names()


def create_if_new(url: str) -> bool:
    is_created = is_new(url)
    if is_created:
        migrate(url)
    return is_created


def migrate(url: str) -> None:
    """Migrate the database, or create a missing file, with this version's tables.

    Several processes may call it. Raises `WrongSchema` for an incompatible newer schema, for one of
    before `FIRST_REVISION`, and if the tables differ from their revision.
    """
    revision = read_revision(url)
    if revision is not None and not FIRST_REVISION <= revision < SCHEMA_REVISION:
        check(url)
        return
    with _migrating(url) as connection:
        revision = _revision(connection)
        if revision is None:
            _check_unlabelled_tables(url, ReflectedTables(connection))
        if revision != SCHEMA_REVISION:  # another process may have migrated
            _upgrade(url, revision, connection)
        _check_tables(url, connection)


def _check_tables(url: str, connection: Connection) -> None:
    """Raise `WrongSchema` unless the revision and the tables are right."""
    revision = _revision(connection)
    tables = ReflectedTables(connection)
    shown_url = _hide_password(url)
    if revision is None:
        _check_unlabelled_tables(url, tables)
        raise WrongSchema(
            f"the database {shown_url} has no tables of noted-time: {_name_migrate(url)}"
        )
    if revision != SCHEMA_REVISION:
        _check_other_revision(url, revision, connection)
    if tables.has_earlier_tables:
        raise WrongSchema(
            f"the database {shown_url} also has tables of a version before the first release, such "
            f"as mark, with other streams: {NO_MIGRATION}",
            revision,
        )
    if differences := tables.find_differences():
        raise WrongSchema(_describe_differences(shown_url, revision, differences), revision)


def _check_other_revision(url: str, revision: str, connection: Connection) -> None:
    """Raise `WrongSchema` unless this code works with the revision of another version."""
    fact = f"the schema of {_hide_password(url)} is at {revision}"
    if revision < FIRST_REVISION:
        raise WrongSchema(
            f"{fact}, of a version before the first release, and cannot be migrated: "
            f"{NO_MIGRATION}",
            revision,
        )
    if revision < SCHEMA_REVISION:
        raise WrongSchema(f"{fact}, older than {SCHEMA_REVISION}: {_name_migrate(url)}", revision)
    oldest_revision = connection.exec_driver_sql(SELECT_OLDEST_REVISION).scalar()
    if not is_compatible(oldest_revision):
        raise WrongSchema(
            f"{fact}, newer than {SCHEMA_REVISION}: install the noted-time that created it, or any "
            f"version from revision {oldest_revision or revision} on",
            revision,
        )


def _check_unlabelled_tables(url: str, tables: ReflectedTables) -> None:
    """Raise `WrongSchema` if a database without a revision has tables of noted-time."""
    shown_url = _hide_password(url)
    if tables.has_earlier_tables:
        raise WrongSchema(
            f"the database {shown_url} has tables of a version before the first release, such as "
            f"mark, and cannot be migrated: {NO_MIGRATION}"
        )
    if tables.names:
        raise WrongSchema(
            f"the database {shown_url} has {tables.names[0]}, but no revision in {VERSION_TABLE}: "
            f"{OTHER_DATABASE}"
        )


def _describe_differences(shown_url: str, revision: str, differences: Sequence[str]) -> str:
    shown_differences = [*differences[:DIFFERENCES_SHOWN]]
    if len(differences) > DIFFERENCES_SHOWN:
        shown_differences.append(f"and {len(differences) - DIFFERENCES_SHOWN} more")
    return (
        f"the tables of {shown_url} differ from its revision {revision}: "
        f"{', '.join(shown_differences)}; {OTHER_DATABASE}"
    )


def _name_migrate(url: str) -> str:
    return f"run `{name_program()} migrate --database {quote(_hide_password(url))}`"


def _hide_password(url: str) -> str:
    return hide_password(url) if is_postgres(url) else url


def _is_absent(url: str) -> bool:
    """Return whether the file is missing or empty."""
    if is_postgres(url):
        return False
    file = parse_file(url)
    return not file.exists() or not file.stat().st_size


def engine_to_migrate(url: str) -> Engine:
    return (
        create_postgres_engine(url)
        if is_postgres(url)
        else create_migration_engine(parse_file(url))
    )


def _engine(url: str) -> Engine:
    return (
        create_postgres_engine(url) if is_postgres(url) else create_sqlite_engine(parse_file(url))
    )


@contextmanager
def _migrating(url: str) -> Iterator[Connection]:
    """Open a transaction that keeps other processes from migrating."""
    if is_postgres(url):
        engine = create_postgres_engine(url)
        with lock_migration(url), _connect(url, engine) as connection, connection.begin():
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_MS}")
            yield connection
        return
    with _connect(url, create_migration_engine(parse_file(url))) as connection, connection.begin():
        yield connection
        check_references(connection)


@contextmanager
def _connect(url: str, engine: Engine) -> Iterator[Connection]:
    try:
        with engine.connect() as connection:
            yield connection
    except (SQLAlchemyError, UnicodeDecodeError) as error:
        raise build_unavailable(error, engine, f"the database {_hide_password(url)}") from error
    finally:
        engine.dispose()


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(
        connection, opts={"version_table": VERSION_TABLE}
    ).get_current_revision()


def _upgrade(url: str, revision: str | None, connection: Connection) -> None:
    """Run this version's migrations, even if another package has their name."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", MIGRATIONS_DIRECTORY.as_posix().replace("%", "%%"))
    try:
        command.upgrade(config, SCHEMA_REVISION)
    except CommandError as error:
        raise StoreUnavailable(f"the database cannot be migrated: {error}") from error
    except DBAPIError as error:
        if revision is None or not is_schema_error(error.orig):
            raise
        difference = " ".join(str(error.orig).split())
        shown_url = _hide_password(url)
        raise WrongSchema(
            _describe_differences(shown_url, revision, [difference]), revision
        ) from error
