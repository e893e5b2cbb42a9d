"""Checks that a database has this version's tables, and migrates it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.exc import SQLAlchemyError

from controller.store.port import StoreUnavailable
from controller.store.postgres import (
    create_postgres_engine,
    hide_password,
    is_postgres,
    lock_migration,
)
from controller.store.reading import build_unavailable
from controller.store.schema import FIRST_REVISION, SCHEMA_REVISION, VERSION_TABLE
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
    each
    for each in (PACKAGE_DIRECTORY / "migrations", PACKAGE_DIRECTORY.with_name("migrations"))
    if each.is_dir()
)

LOCK_MS = 1000  # controllers wait behind a migration that waits for a table


class WrongSchema(StoreUnavailable):
    """The database has no tables, or another version's."""

    def __init__(self, url: str, revision: str | None, oldest: str | None) -> None:
        url = hide_password(url) if is_postgres(url) else url
        remedy = f"run `{name_program()} migrate --database {quote(url)}`"
        if revision is None:
            sentence = f"the database {url} has no tables of noted-time: {remedy}"
        elif revision < FIRST_REVISION:
            sentence = (
                f"the schema of {url} is at {revision}, of a version before the first release, "
                "and cannot be migrated: start the noted-time that created it, or name an empty "
                "database"
            )
        elif revision < SCHEMA_REVISION:
            sentence = (
                f"the schema of {url} is at {revision}, older than {SCHEMA_REVISION}: {remedy}"
            )
        else:
            sentence = (
                f"the schema of {url} is at {revision}, newer than {SCHEMA_REVISION}: install the "
                f"noted-time that created it, or any version from revision {oldest or revision} on"
            )
        super().__init__(sentence)
        self.url = url
        self.found = revision


def check(url: str) -> None:
    """Raise `WrongSchema` if this code does not work with the schema.

    A newer schema must be marked as compatible.
    """
    revision, oldest = _read_state(url)
    if revision != SCHEMA_REVISION and not (
        revision and revision > SCHEMA_REVISION and is_compatible(oldest)
    ):
        raise WrongSchema(url, revision, oldest)


def read_revision(url: str) -> str | None:
    return _read_state(url)[0]


def _read_state(url: str) -> tuple[str | None, str | None]:
    """Return the revision, and for a newer one the oldest compatible revision."""
    if not is_postgres(url) and not parse_file(url).exists():
        return None, None
    with _connect(_engine(url)) as connection:
        revision = _revision(connection)
        if revision is None or revision <= SCHEMA_REVISION:
            return revision, None
        return revision, connection.exec_driver_sql(SELECT_OLDEST_REVISION).scalar()


def create_if_new(url: str) -> bool:
    is_new = _is_new(url)
    if is_new:
        migrate(url)
    return is_new


def migrate(url: str) -> None:
    """Migrate the database, or create a missing file, with this version's tables.

    Several processes may call it. Raises `WrongSchema` for an incompatible newer schema, and for
    one of before `FIRST_REVISION`.
    """
    revision = read_revision(url)
    if revision is not None and not FIRST_REVISION <= revision < SCHEMA_REVISION:
        check(url)
        return
    with _migrating(url) as connection:
        if _revision(connection) != SCHEMA_REVISION:  # another process may have migrated
            _upgrade(connection)


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


def _is_new(url: str) -> bool:
    if not is_postgres(url) and not (parse_file(url).exists() and parse_file(url).stat().st_size):
        return True
    with _connect(_engine(url)) as connection:
        return not inspect(connection).get_table_names()


@contextmanager
def _migrating(url: str) -> Iterator[Connection]:
    """Open a transaction that keeps other processes from migrating."""
    if is_postgres(url):
        engine = create_postgres_engine(url)
        with lock_migration(url), _connect(engine) as connection, connection.begin():
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_MS}")
            yield connection
        return
    with _connect(create_migration_engine(parse_file(url))) as connection, connection.begin():
        yield connection
        check_references(connection)


@contextmanager
def _connect(engine: Engine) -> Iterator[Connection]:
    try:
        with engine.connect() as connection:
            yield connection
    except (SQLAlchemyError, UnicodeDecodeError) as error:
        url = engine.url.set(drivername=engine.url.get_backend_name()).render_as_string()
        raise build_unavailable(error, engine, f"the database {url}") from error
    finally:
        engine.dispose()


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(
        connection, opts={"version_table": VERSION_TABLE}
    ).get_current_revision()


def _upgrade(connection: Connection) -> None:
    """Run this version's migrations, even if another package has their name."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", MIGRATIONS_DIRECTORY.as_posix().replace("%", "%%"))
    try:
        command.upgrade(config, SCHEMA_REVISION)
    except CommandError as error:
        raise StoreUnavailable(f"the database cannot be migrated: {error}") from error
