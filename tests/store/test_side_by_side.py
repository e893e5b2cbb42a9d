"""Two versions of the code on one database."""

import ast
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.script import Script, ScriptDirectory
from sqlalchemy import inspect

from controller.store.migrate import (
    MIGRATIONS_DIRECTORY,
    WrongSchema,
    check,
    migrate,
    read_revision,
)
from controller.store.open import open_store
from controller.store.port import StoreUnavailable
from controller.store.records import ChangeSet
from controller.store.schema import SCHEMA_REVISION
from tests.store.conftest import DURABLE
from tests.store.test_migrate import connect
from tests.store.test_moved import make_moving_marks
from tests.support.next_version import NEXT, NextVersion
from tests.support.processes import run_command
from tests.support.stored import build_changes, commit, mark, read_seqs
from tools.trials.postgres import Server


@pytest.fixture(params=DURABLE)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database of each kind that this version has migrated."""
    url = f"sqlite:///{tmp_path / 'noted-time.db'}"
    if request.param == "postgres":
        server: Server = request.getfixturevalue("server")
        url = server.make_database()
    migrate(url)
    return url


@pytest.fixture
def later(tmp_path: Path) -> NextVersion:
    """The next version; this version works with its tables."""
    return NextVersion(tmp_path / "later")


def test_store_works_after_expansion(url: str, later: NextVersion) -> None:
    """An open store commits and is ready, and so is a store that is opened later."""
    with closing(open_store(url)) as store:
        store.heartbeat()
        store.commit(build_changes(upto=1))
        later.migrate(url)
        store.ping()
        commit(store, mark(2))
    with closing(open_store(url)) as next_store:
        next_store.heartbeat()
        next_store.ping()

        assert (read_revision(url), read_seqs(next_store)) == (NEXT, [1, 2])


def test_marks_last_if_others_are_deleted_after_expansion(url: str, later: NextVersion) -> None:
    """The first of them is written again with its whole cut."""
    later.migrate(url)
    first, *left = make_moving_marks(20, 3)
    with closing(open_store(url)) as store:
        store.heartbeat()
        store.commit(build_changes(first, *left))
        batch = ChangeSet()
        batch.drop_marks("id-1", "default", 1)
        store.commit(batch)
    with closing(open_store(url)) as next_store:
        assert list(next_store.marks("id-1", "default")) == left


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_migrate_leaves_later_database_unchanged(
    url: str, later: NextVersion, tmp_path: Path
) -> None:
    """The command reports it, because no migration is undone."""
    later.migrate(url)

    process = run_command("migrate", "--database", url, cwd=tmp_path)
    assert (process.returncode, read_revision(url)) == (0, NEXT)
    says = f"is at {NEXT}, later than {SCHEMA_REVISION}, the revision of this version"
    assert says in process.stdout


def test_database_that_needs_later_code_is_refused(url: str, tmp_path: Path) -> None:
    """It is refused at the start and by an open store; the errors name both revisions."""
    with closing(open_store(url)) as store:
        store.heartbeat()
        NextVersion(tmp_path / "later", oldest=NEXT).migrate(url)
        says = f"at {NEXT}, not at {SCHEMA_REVISION}, .*: start the"
        with pytest.raises(StoreUnavailable, match=says):
            store.ping()

    says = f"is at {NEXT}, newer than {SCHEMA_REVISION}: install the noted-time that"
    with pytest.raises(WrongSchema, match=says):
        check(url)


# The oldest code that each migration allows


def read_oldest_codes(migrations: Path) -> dict[str, str]:
    """Return the `oldest_code` of each migration, in order."""

    def find_oldest(script: Script) -> Iterator[str]:
        for node in ast.parse(Path(script.path).read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "oldest_code":
                yield ast.literal_eval(node.value)

    scripts = reversed([*ScriptDirectory(str(migrations)).walk_revisions()])
    return {script.revision: "".join(find_oldest(script)) for script in scripts}


def test_migrations_name_oldest_code_that_works() -> None:
    """An expansion keeps the oldest code; any other migration needs code of its revision."""
    former = ""
    for number, oldest in read_oldest_codes(MIGRATIONS_DIRECTORY).items():
        assert oldest in {former, number}, f"{number} needs oldest_code: {former!r} or {number!r}"
        former = oldest

    assert former


def read_columns(url: str) -> dict[tuple[str, str], bool]:
    """Return whether a row may omit each column of each table."""
    with connect(url) as connection:
        inspector = inspect(connection)
        return {
            (table, column["name"]): bool(column["nullable"] or column["default"])
            for table in inspector.get_table_names()
            for column in inspector.get_columns(table)
        }


def test_expansion_keeps_columns_and_fills_new_ones(later: NextVersion, tmp_path: Path) -> None:
    """Older code omits the new columns."""
    url = f"sqlite:///{tmp_path / 'stepwise.db'}"
    known_columns: dict[tuple[str, str], bool] = {}
    for number, oldest in read_oldest_codes(later.migrations).items():
        process = later.run("-m", "alembic", "-x", f"database={url}", "upgrade", number)
        assert process.returncode == 0, process.stderr
        columns = read_columns(url)
        tables = {table for table, _ in known_columns}
        needed_columns = [
            column for column in columns.keys() - known_columns.keys() if not columns[column]
        ]
        if oldest != number:
            assert known_columns.keys() - columns.keys() == set()
            assert [column for column in needed_columns if column[0] in tables] == []
        known_columns = columns

    assert ("colour", "name") in known_columns
