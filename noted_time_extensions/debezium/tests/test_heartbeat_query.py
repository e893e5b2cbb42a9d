"""The heartbeat query on a real PostgreSQL, without Debezium: it emits, fails or stays silent."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from noted_time_extensions.debezium.heartbeat_query import build_query
from tools.trials.postgres import UNSYNCED, Server, find_binaries
from tools.trials.waiting import wait_until

EMITTING = "pg_logical_emit_message(true, 'noted-time', json_build_object"
SHOWN = (
    build_query()
    .replace(EMITTING, "(json_build_object")
    .replace("::text)::text END", "::text) END")
)
"""The query, which returns the message instead of emitting it."""

SLOW_VACUUM = """
autovacuum_vacuum_threshold=1, autovacuum_vacuum_scale_factor=0,
autovacuum_vacuum_cost_delay=100, autovacuum_vacuum_cost_limit=1
"""
VACUUM_START = """
SELECT floor(extract(epoch FROM xact_start) * 1000000) FROM pg_stat_activity
WHERE backend_type = 'autovacuum worker' AND datname = current_database()
AND query LIKE '%dead_rows%'
"""


@pytest.fixture(scope="module")
def database() -> Iterator[tuple[Server, str]]:
    """Return a server that allows prepared transactions, and a database with a table."""
    directory = find_binaries()
    if directory is None:
        pytest.skip("neither PostgreSQL's binaries nor the wheel are installed")
    settings = ("max_prepared_transactions=2", "autovacuum_naptime=1")
    with Server(directory, *UNSYNCED, *settings) as server:
        url = server.make_database()
        server.execute("CREATE TABLE orders (id int)", url)
        yield server, url


def ask(database: tuple[Server, str]) -> dict[str, Any] | None:
    """Return the message of the query, `None` if it would emit none."""
    server, url = database
    ((message,),) = server.execute(SHOWN, url)
    return None if message is None else json.loads(message)


def test_query_is_one_line_for_a_configuration() -> None:
    query = build_query()

    assert ("\n" in query, '"' in query, query.split()) == (False, False, query.split(" "))
    assert "NOT IN ('autovacuum worker', 'walsender')" in query


def test_own_start_is_emitted_alone(database: tuple[Server, str]) -> None:
    server, url = database
    before = server.execute("SELECT extract(epoch FROM now()) * 1000000", url)[0][0]
    message = ask(database)

    assert message is not None
    assert message["pid"] is None
    assert message["start"] >= int(before)


def test_oldest_transaction_is_emitted(database: tuple[Server, str]) -> None:
    """Sessions of other databases do not count."""
    server, url = database
    with psycopg.connect(server.url()) as other, psycopg.connect(url) as oldest:
        other.execute("SELECT 1")
        start = oldest.execute("SELECT floor(extract(epoch FROM now()) * 1000000)").fetchone()
        with psycopg.connect(url) as younger:
            younger.execute("SELECT 1")
            message = ask(database)
        pid = oldest.info.backend_pid

    assert message is not None
    assert start is not None
    assert (message["start"], message["pid"]) == (int(start[0]), pid)


def test_vacuum_that_runs_by_itself_does_not_count(database: tuple[Server, str]) -> None:
    server, url = database
    server.execute(f"CREATE TABLE dead_rows (id int) WITH ({SLOW_VACUUM})", url)
    server.execute("INSERT INTO dead_rows SELECT generate_series(1, 50000)", url)
    server.execute("DELETE FROM dead_rows", url)
    wait_until(lambda: server.execute(VACUUM_START, url))
    before = ask(database)
    ((vacuum_start,),) = server.execute(VACUUM_START, url)
    server.execute("DROP TABLE dead_rows", url)

    assert before is not None
    assert before["start"] > int(vacuum_start)


def test_query_is_silent_while_a_transaction_is_prepared(database: tuple[Server, str]) -> None:
    server, url = database
    with server.session(url) as session:
        session.execute("BEGIN")
        session.execute("INSERT INTO orders VALUES (1)")
        session.execute("PREPARE TRANSACTION 'one'")
        during = ask(database)
        session.execute("COMMIT PREPARED 'one'")

    assert during is None
    assert ask(database) is not None


def test_prepared_transactions_are_read_after_the_activity(database: tuple[Server, str]) -> None:
    """One that is prepared while the activity is read is in one of both."""
    server, url = database
    view = "(SELECT *, pg_sleep(1) FROM pg_stat_activity)"
    slow = SHOWN.replace("FROM pg_stat_activity", f"FROM {view} AS slow")
    with server.session(url) as session, psycopg.connect(url, autocommit=True) as asking:
        session.execute("BEGIN")
        session.execute("INSERT INTO orders VALUES (2)")
        plan = asking.execute(f"EXPLAIN {slow}".encode()).fetchall()
        session.execute("PREPARE TRANSACTION 'two'")
        ((message,),) = asking.execute(slow.encode()).fetchall()
        session.execute("ROLLBACK PREPARED 'two'")

    text = "\n".join(line for (line,) in plan)
    assert message is None
    assert "SubPlan" in text.partition("pg_prepared_xact")[0].rpartition("CTE Scan on oldest")[2]


def test_query_fails_if_a_session_hides_its_activity(database: tuple[Server, str]) -> None:
    _, url = database
    with psycopg.connect(url, options="-c track_activities=off") as hidden_session:
        hidden_session.execute("SELECT 1")
        with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="track_activities"):
            ask(database)


def test_query_fails_without_the_right_to_see_all(database: tuple[Server, str]) -> None:
    server, url = database
    server.execute("CREATE ROLE blind", url)
    with server.session(url) as session:
        session.execute("SET ROLE blind")
        with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="pg_read_all_stats to"):
            session.execute(build_query().encode())
        session.execute("RESET ROLE")
        session.execute("GRANT pg_read_all_stats TO blind")
        session.execute("SET ROLE blind")

        assert session.execute(SHOWN.encode()).fetchone() is not None


def test_query_fails_on_a_standby(database: tuple[Server, str]) -> None:
    server, url = database
    server.restart_as_standby()
    try:
        with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="on the primary"):
            server.execute(build_query(), url)
    finally:
        server.promote()
