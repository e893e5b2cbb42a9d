"""Faults of a PostgreSQL server: lost sessions, restarts, locks and unsafe settings."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from controller.store.migrate import check, create_if_new, migrate, read_revision
from controller.store.open import open_store, open_tokens
from controller.store.port import StoreUnavailable
from controller.store.postgres import PostgresReading, PostgresStore, create_postgres_engine
from controller.store.reading import STANDBY_REFUSAL
from controller.store.records import TokenRecord
from noted_time import Rejected
from tests.support.processes import ServeProcess, run_command
from tests.support.stored import build_changes, commit, mark, member, read_seqs, records, stream
from tests.trials.chaos.link import Link
from tools.trials.calls import HTTP
from tools.trials.postgres import PASSWORD, Server, find_binaries
from tools.trials.waiting import wait_until


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    """A store that has all buckets of its database."""
    with closing(PostgresStore(url)) as store:
        store.acquire(store.heartbeat().free)
        yield store


def test_heartbeat_starts_session_after_lost_one(
    store: PostgresStore, server: Server, url: str
) -> None:
    """The new session has no bucket, and the store works."""
    store.commit(build_changes(upto=1))
    server.cut(url)
    with pytest.raises(StoreUnavailable):
        commit(store, mark(2), at=3)

    had = store.heartbeat().mine
    commit(store, mark(2), at=3)

    assert (had, store.streams()) == (frozenset(), [stream()])
    assert (store.clocks()[0], read_seqs(store)) == (3, [1, 2])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restarted", "crashed"])
def test_commits_survive_restart_of_server(
    store: PostgresStore, server: Server, how: signal.Signals
) -> None:
    """The store is unavailable meanwhile, and works after the restart."""
    store.commit(build_changes(served_ms=4, upto=2))
    server.stop(how)
    try:
        with pytest.raises(StoreUnavailable):
            commit(store, mark(3), at=5)
        with pytest.raises(StoreUnavailable):
            store.heartbeat()
    finally:
        server.start()

    store.heartbeat()
    commit(store, mark(3), at=5)

    assert (store.clocks()[0], read_seqs(store)) == (5, [1, 2, 3])


def test_batch_gives_up_after_lock_timeout(store: PostgresStore, server: Server, url: str) -> None:
    """The store works again after the lock is released."""
    store._session.session().execute("SET lock_timeout = 50")
    with server.session(url) as other, other.transaction():
        other.execute("LOCK TABLE noted_time_stream")
        with pytest.raises(StoreUnavailable) as refusal:
            store.commit(build_changes())

    store.commit(build_changes(upto=1))

    says = "the database reports an error: canceling statement due to lock timeout"
    assert (str(refusal.value), read_seqs(store)) == (says, [1])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("postgresql://noted:wrong@127.0.0.1:{port}/postgres", "reports an error: "),
        ("postgresql://noted:wrong@127.0.0.1:1/postgres", "did not answer: "),
    ],
    ids=["error", "silence"],
)
def test_error_of_database_is_not_said_as_silence(server: Server, wrong: str, says: str) -> None:
    """A database that refuses a session has answered."""
    url = wrong.format(port=server.port)
    with closing(PostgresStore(url)) as store, pytest.raises(StoreUnavailable) as refusal:
        store.streams()

    assert str(refusal.value).startswith(f"the database {says}connection failed: ")


def test_every_commit_is_synced(store: PostgresStore) -> None:
    """The default of the server does not matter."""
    row = store._session.session().execute("SHOW synchronous_commit").fetchone()

    assert row == ("on",)


def show_synced(session: psycopg.Connection[Any], url: str) -> list[Any]:
    """Return `synchronous_commit` of a session that commits notes, and of a new one for tokens."""
    query = "SHOW synchronous_commit"
    engine = create_postgres_engine(url)
    with engine.connect() as connection:
        settings = [session.execute(query).fetchone(), tuple(connection.execute(text(query)).one())]
    engine.dispose()
    return settings


def test_each_session_syncs_whatever_the_role_says() -> None:
    """The setting of the URL is off, then those of the role and the server while it serves."""
    directory = find_binaries()
    assert directory
    with Server(directory) as server:
        careless = f"{server.url()}?options=-csynchronous_commit%3Doff"
        migrate(careless)
        with closing(PostgresStore(careless)) as store:
            store.heartbeat()
            session = store._session.session()
            settings = [show_synced(session, careless)]
            server.execute("ALTER ROLE noted SET synchronous_commit = off")
            server.execute("ALTER SYSTEM SET synchronous_commit = off")
            server.execute("SELECT pg_reload_conf()")
            settings.append(show_synced(session, server.url()))
            risk = store.reading.risk()

    assert (settings, risk) == ([[("on",)] * 2] * 2, None)


async def test_batch_takes_few_round_trips(server: Server, url: str) -> None:
    link = Link(server.port)
    await link.open()

    def count_round_trips() -> int:
        with closing(PostgresStore(url.replace(f":{server.port}/", f":{link.port}/"))) as store:
            store.acquire(store.heartbeat().free)
            store.commit(build_changes(upto=1))
            before = link.round_trips
            commit(store, mark(2), *records(member()))
            return link.round_trips - before

    took = await asyncio.to_thread(count_round_trips)
    await link.close()

    assert took in {2, 3}


def test_older_schema_is_refused_without_showing_password(server: Server) -> None:
    url = server.make_database()
    migrate(url)
    server.execute("UPDATE noted_time_version SET version_num = '0000'", url)
    with pytest.raises(StoreUnavailable) as wrong:
        check(url)

    shown_url = url.replace(PASSWORD, "***")
    assert str(wrong.value).startswith(f"the schema of {shown_url} is at 0000, of a version before")


def test_tables_are_created_only_if_there_are_none(server: Server) -> None:
    """A database of another program is left as it is."""
    url = server.make_database()
    server.execute("CREATE TABLE cats (name text)", url)
    create_if_new(url)

    assert read_revision(url) is None


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_encoding_of_database_does_not_matter(server: Server, encoding: str) -> None:
    """A cluster created without a locale has a database that would return text as bytes."""
    url = server.make_database(f"template0 ENCODING {encoding} LOCALE 'C'")
    migrate(url)
    record = TokenRecord("0123456789ab", 64 * "f", {}, "Zoë", created_at=5)
    with closing(open_tokens(url)) as tokens, closing(PostgresStore(url)) as store:
        tokens.add(record)
        store.acquire(store.heartbeat().free)
        store.commit(build_changes(*records(member("Zoë"))))

        assert (tokens.all(), list(store.members("id-1"))) == ([record], [member("Zoë")])


def read_risk(url: str) -> str | None:
    """Return the risk that a store reports."""
    with closing(PostgresReading(create_postgres_engine(url))) as reading:
        return reading.risk()


def test_unsafe_settings_of_postgres_are_named(server: Server) -> None:
    """The server was started with them."""
    directory = find_binaries()
    assert directory
    with Server(directory) as safe_server:
        risks = [read_risk(url) for url in (safe_server.url(), server.url())]

    sentence = (
        "PostgreSQL has fsync, full_page_writes off, so a power cut may lose acknowledged notes: "
        "restart the server with fsync, full_page_writes on"
    )
    assert risks == [None, sentence]


def test_setting_changed_while_serving_is_named_until_it_ends() -> None:
    """The sessions stay open."""
    directory = find_binaries()
    assert directory
    with (
        Server(directory) as server,
        closing(PostgresReading(create_postgres_engine(server.url()))) as reading,
    ):
        before = reading.risk()
        server.execute("ALTER SYSTEM SET fsync = off")
        server.execute("SELECT pg_reload_conf()")
        wait_until(reading.risk)
        risk = reading.risk()
        server.execute("ALTER SYSTEM SET fsync = on")
        server.execute("SELECT pg_reload_conf()")
        wait_until(lambda: reading.risk() is None)

    sentence = (
        "PostgreSQL has fsync off, so a power cut may lose acknowledged notes: "
        "set fsync to on and reload the server"
    )
    assert (before, risk) == (None, sentence)


@pytest.mark.parametrize(
    "wrong",
    [
        "postgresql://noted:{secret}@127.0.0.1:{port},b:90000/postgres",
        "postgresql://noted:{secret}@127.0.0.1:1,127.0.0.1:2/postgres",
        "postgresql://127.0.0.1:{port}/absent?user=noted&password={secret}",
        "postgresql://noted:{secret}@127.0.0.1:{port}/absent",
        "postgresql://noted:{secret}x@127.0.0.1:{port}/postgres",
        "postgresql://noted:{secret}@127.0.0.1:1/postgres",
        "postgresql://noted:{secret}@127.0.0.1:{port}",
        "postgresql://noted:{secret}@127.0.0.1:port/postgres",
    ],
    ids=[
        "no port",
        "no servers",
        "in the query",
        "no database",
        "wrong password",
        "no server",
        "unnamed",
        "no URL",
    ],
)
def test_no_error_shows_password(server: Server, wrong: str) -> None:
    """This includes refused connections and invalid URLs."""
    url = wrong.format(secret=PASSWORD, port=server.port)
    for act in (open_store, migrate, create_if_new):
        with pytest.raises((StoreUnavailable, Rejected)) as error:
            act(url)

        assert PASSWORD not in f"{error.value!r} {error.value.__cause__!r}"


def name_hosts(*servers: Server) -> str:
    """Return the URL of several servers, as libpq takes it."""
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://noted:{PASSWORD}@{hosts}/postgres?target_session_attrs=read-write"


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Server, Server]]:
    """A migrated primary and its standby."""
    directory = find_binaries()
    assert directory
    if not (directory / "pg_basebackup").exists():
        pytest.skip("pg_basebackup is not installed")
    with Server(directory) as primary:
        migrate(primary.url())
        with Server(directory, primary=primary) as standby:
            yield primary, standby


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("serve --port 0", "the database is a standby, which accepts no commits: name its primary"),
        ("token create --scope read", "the database is read-only: if it is a standby, name its"),
    ],
)
def test_standby_is_refused_by_that_name(
    pair: tuple[Server, Server], tmp_path: Path, words: str, says: str
) -> None:
    """The last line is a sentence with the remedy, without a traceback."""
    process = run_command(*words.split(), "--database", pair[1].url(), cwd=tmp_path)

    output = process.stdout + process.stderr
    assert (process.returncode, "Traceback" in output) == (1, False)
    assert process.stderr.splitlines()[-1].startswith(f"noted-time: {says}")


def test_migration_of_a_standby_is_refused(pair: tuple[Server, Server]) -> None:
    primary, standby = pair
    name = primary.make_database().rpartition("/")[2]
    wait_until(lambda: (name,) in standby.execute("SELECT datname FROM pg_database"))
    for act in (migrate, create_if_new):
        with pytest.raises(StoreUnavailable, match="the database is a standby"):
            act(standby.url(name))


def test_server_that_becomes_a_standby_is_named(tmp_path: Path) -> None:
    """The running controller answers 503 with the remedy, and loses nothing."""
    directory = find_binaries()
    assert directory
    with (
        Server(directory) as server,
        ServeProcess(tmp_path, NOTED_TIME_DATABASE=server.url()).ready() as controller,
    ):
        controller.create("s")
        server.restart_as_standby()
        ready = f"{controller.url}/readyz"
        wait_until(lambda: "is a standby" in HTTP.get(ready).text)
        answer = controller.ask("GET", "/streams/s")

    assert (answer.status_code, answer.json()["detail"]) == (503, STANDBY_REFUSAL)


def test_failover_is_followed_by_url_of_both_servers(
    pair: tuple[Server, Server], tmp_path: Path
) -> None:
    """The standby is first in the URL. Notes are accepted again once it is promoted."""
    primary, standby = pair
    url = name_hosts(standby, primary)
    for words in ("migrate", "token list"):
        assert run_command(*words.split(), "--database", url, cwd=tmp_path).returncode == 0
    with ServeProcess(tmp_path, NOTED_TIME_DATABASE=url).ready() as controller:
        controller.create("s")
        controller.post("s", {"writer": "a", "time": 1})
        primary.stop(signal.SIGQUIT)
        wait_until(lambda: controller.ask("GET", "/streams/s").status_code == 503)
        standby.promote()

        def is_accepted() -> bool:
            notes = {"notes": [{"writer": "a", "time": 2}]}
            return controller.ask("POST", "/streams/s/notes", notes).status_code == 200

        wait_until(is_accepted)
        assert controller.writers("s")["a"]["times"] == {"default": 2}
        assert PASSWORD not in controller.text()


def test_read_only_database_is_refused(store: PostgresStore) -> None:
    """A ping and a commit report it with the remedy."""
    store.ping()
    store._session.session().execute("SET default_transaction_read_only = on")

    says = "the database is read-only: .* turn off default_transaction_read_only"
    with pytest.raises(StoreUnavailable, match=says):
        store.ping()
    with pytest.raises(StoreUnavailable, match=says):
        store.commit(build_changes(upto=1))
