"""Renewed leases, silent replicas, and lost sessions."""

import threading
import time
from collections.abc import Callable

import pytest

from controller.aggregation.owned_streams import load
from controller.store import leases
from controller.store.port import StoreUnavailable
from controller.store.postgres import PostgresStore
from tests.replicas.leases.sessions import (
    ALL,
    FAIR_MS,
    LONG_MS,
    Lease,
    end_session,
    is_lost,
    make_older,
    outlast_lease,
    repeat_over_lease,
    wait_for_query,
)
from tests.support.stored import build_changes, commit, mark, read_seqs, stream
from tools.trials.postgres import Server
from tools.trials.waiting import wait_until


@pytest.fixture(params=["renewing", "older"])
def keep_lease(
    request: pytest.FixtureRequest, a: PostgresStore, server: Server, url: str
) -> Callable[[], object]:
    """Keeps the lease of `a` as its version does: an older one keeps it by its statements."""
    if request.param == "renewing":
        return a.renew
    make_older("http://a", server, url)
    return do_nothing


def do_nothing() -> None:
    """Stand in for the renewal of a version that has none."""


@pytest.mark.parametrize("is_older", [False, True], ids=["renewing", "older"])
def test_silent_session_is_ended_after_its_lease(  # noqa: PLR0913 - fixtures
    a: PostgresStore, b: PostgresStore, lease: Lease, server: Server, url: str, *, is_older: bool
) -> None:
    """The heartbeat of another replica frees all its buckets."""
    if is_older:
        make_older("http://a", server, url)
    before = b.heartbeat().free
    outlast_lease(lease)
    after = b.heartbeat()

    assert (before, after.free, after.replicas) == (frozenset(), ALL, 1)
    assert is_lost(a.heartbeat)
    assert is_lost(a.ping)
    assert is_lost(a.acquire, [1])
    assert is_lost(a.release, [1])


def test_silent_session_of_another_program_is_not_ended(
    b: PostgresStore, server: Server, url: str, lease: Lease
) -> None:
    """It is not ended even if it holds the lock of controllers."""
    with server.session(url) as other:
        other.execute(leases._LOCK_LIVE, leases._LOCK_NUMBERS)
        outlast_lease(lease)
        b.heartbeat()

        assert other.execute("SELECT 1").fetchone() == (1,)


def load_all(store: PostgresStore) -> None:
    load(store, ALL, len(ALL))


WORK: dict[str, Callable[[PostgresStore], object]] = {
    "looks": PostgresStore.heartbeat,
    "reads": read_seqs,
    "loads": load_all,
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_working_older_store_is_not_silent(  # noqa: PLR0913 - fixtures
    a: PostgresStore,
    b: PostgresStore,
    lease: Lease,
    *,
    server: Server,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[PostgresStore], object],
) -> None:
    """The lease counts from the last word to the server, which loading has of each stream.

    It uses other sessions, and most streams have no mark. This store does the same, because an
    older controller judges it so.
    """
    monkeypatch.setattr(leases, "TOUCH_S", FAIR_MS / 8000)
    more = [stream(f"id-{number}", f"s{number}") for number in range(2, 10)]
    a.commit(build_changes(upto=1))
    commit(a, *more)
    a.heartbeat()
    make_older("http://a", server, url)
    lease(FAIR_MS)
    for _ in repeat_over_lease():
        work(a)
        b.renew()
        b.heartbeat()

    assert (a.heartbeat().mine, b.heartbeat().replicas) == (ALL, 2)


def test_idle_store_that_renews_is_not_silent(
    a: PostgresStore, b: PostgresStore, lease: Lease
) -> None:
    """The session that commits may be silent: its controller is busy."""
    lease(FAIR_MS)
    renewals = set()
    for _ in repeat_over_lease():
        is_renewed = a.renew()
        renewals.add((is_renewed, len(b.heartbeat().others)))
    lease(LONG_MS)

    assert (renewals, a.heartbeat().mine) == ({(True, 64)}, ALL)


def test_former_session_of_process_id_renews_nothing(
    a: PostgresStore, b: PostgresStore, lease: Lease, server: Server, url: str
) -> None:
    """An older controller leaves the `renewed_at` of the session before in its row."""
    server.execute("UPDATE noted_time_replica SET connected_at = renewed_at + 1", url)
    outlast_lease(lease)
    a.ping()
    owner_urls = set(b.heartbeat().others.values())

    assert (owner_urls, a.renew()) == ({"http://a"}, False)


def test_session_in_long_query_keeps_its_lease(  # noqa: PLR0913 - fixtures
    a: PostgresStore,
    b: PostgresStore,
    keep_lease: Callable[[], object],
    lease: Lease,
    *,
    server: Server,
    url: str,
) -> None:
    """The time of a query is no silence."""
    working = threading.Thread(target=a._session.session().execute, args=("SELECT pg_sleep(1.5)",))
    working.start()
    wait_for_query(server, url, "PgSleep")
    outlast_lease(lease)
    keep_lease()
    seen_count = len(b.heartbeat().others)
    lease(LONG_MS)
    working.join()

    assert (seen_count, a.heartbeat().mine) == (64, ALL)


def test_session_that_waits_for_lock_keeps_its_lease(  # noqa: PLR0913 - fixtures
    a: PostgresStore,
    b: PostgresStore,
    keep_lease: Callable[[], object],
    lease: Lease,
    *,
    server: Server,
    url: str,
) -> None:
    """The commit succeeds once another program releases its lock."""
    with server.session(url) as other, other.transaction():
        other.execute("LOCK TABLE noted_time_stream")
        held_up = threading.Thread(target=a.commit, args=(build_changes(upto=1),))
        held_up.start()
        wait_for_query(server, url, "relation")
        outlast_lease(lease)
        keep_lease()
        seen_count = len(b.heartbeat().others)
        lease(LONG_MS)
    held_up.join()

    assert (seen_count, read_seqs(a)) == (64, [1])


@pytest.mark.parametrize(
    "unfinished",
    [[], ["COPY noted_time_scale FROM STDIN"]],
    ids=["in a transaction", "in the middle of a statement"],
)
def test_session_silent_in_transaction_is_ended(
    a: PostgresStore, b: PostgresStore, unfinished: list[str], lease: Lease
) -> None:
    """It holds its locks no longer than its lease, and nothing of its transaction is kept."""
    session = a._session.session()
    for statement in ("BEGIN", "UPDATE noted_time_bucket SET served_ms = 9", *unfinished):
        session.pgconn.send_query(statement.encode())
        while session.pgconn.is_busy() or session.pgconn.get_result():
            session.pgconn.consume_input()
            if statement.startswith("COPY"):
                break
    outlast_lease(lease)

    assert (b.heartbeat().free, set(b.clocks().values())) == (ALL, {0})


def test_used_session_is_not_touched(
    a: PostgresStore, server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last statement of the session stays its heartbeat."""
    monkeypatch.setattr(leases, "TOUCH_S", 60.0)
    a.heartbeat()
    a._session.touch()

    query = "SELECT query FROM pg_stat_activity JOIN noted_time_replica USING (pid)"
    assert "SELECT" not in [last for (last,) in server.execute(query, url)]


def test_read_after_lost_session_fails(
    a: PostgresStore, b: PostgresStore, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading streams for buckets that are another's by now comes to nothing."""
    monkeypatch.setattr(leases, "TOUCH_S", 0.0)
    a.commit(build_changes(upto=1))
    outlast_lease(lease)
    b.heartbeat()

    assert is_lost(read_seqs, a)


# Lost sessions


def test_session_without_its_locks_is_lost(a: PostgresStore, b: PostgresStore) -> None:
    """The renewal finds out, and the next heartbeat starts another session without buckets."""
    has_lease = a.renew()
    a._session.session().execute("SELECT pg_advisory_unlock_all()")
    is_renewed = a.renew()

    assert (has_lease, is_renewed) == (True, False)
    assert is_lost(a.ping)
    assert is_lost(a.commit, build_changes())
    assert (a.heartbeat().mine, a.renew(), b.heartbeat().replicas) == (frozenset(), True, 2)


def test_heartbeat_without_locks_reports_the_loss(a: PostgresStore) -> None:
    """It may come before the renewal."""
    a._session.session().execute("SELECT pg_advisory_unlock_all()")

    assert is_lost(a.heartbeat)
    assert a.heartbeat().mine == frozenset()


def test_ended_session_renews_nothing(a: PostgresStore, server: Server, url: str) -> None:
    """The session that renews is not ended."""
    a.renew()
    end_session("http://a", server, url)
    wait_until(lambda: not a.renew())

    assert is_lost(a.ping)


def test_renewal_continues_after_its_own_session_is_lost(
    a: PostgresStore, server: Server, url: str
) -> None:
    """The next renewal connects again, and no bucket is lost."""
    a.renew()
    renewing = a._session._renewing
    assert renewing is not None
    server.execute(f"SELECT pg_terminate_backend({renewing.info.backend_pid}, 5000)", url)
    is_refused = is_lost(a.renew)

    assert (is_refused, a.renew(), a.heartbeat().mine) == (True, True, ALL)


def test_replica_that_left_has_no_lease_to_lose(a: PostgresStore) -> None:
    a.leave()

    assert (a.renew(), a.heartbeat().replicas) == (True, 0)


def test_store_without_session_owns_nothing(
    a: PostgresStore, b: PostgresStore, lease: Lease
) -> None:
    """It reports the loss until its next heartbeat, and then starts without buckets."""
    outlast_lease(lease)
    b.acquire(b.heartbeat().free)
    lease(LONG_MS)
    losses = [is_lost(a.ping), is_lost(a.ping), is_lost(a.commit, build_changes())]
    with pytest.raises(StoreUnavailable, match=r"^the session with the database was lost; read"):
        a.ping()
    leases_of_a = a.heartbeat()

    assert losses == [True] * 3
    assert (leases_of_a.mine, set(leases_of_a.others.values())) == (frozenset(), {"http://b"})
    b.release([3])
    assert (a.acquire([3]), b.heartbeat().others) == (frozenset([3]), {3: "http://a"})


def test_commit_after_lost_session_appends_nothing(
    a: PostgresStore, b: PostgresStore, lease: Lease
) -> None:
    """This holds while its buckets are free, and after the next owner has continued."""
    a.commit(build_changes(upto=1))
    outlast_lease(lease)
    b.heartbeat()
    lease(LONG_MS)
    losses = [is_lost(commit, a, mark(2))]
    free = read_seqs(b)
    b.acquire(ALL)
    commit(b, mark(2))
    losses.append(is_lost(commit, a, mark(3)))

    assert (losses, free, read_seqs(b)) == ([True, True], [1], [1, 2])


def test_running_commit_of_lost_session_is_undone(
    a: PostgresStore, b: PostgresStore, server: Server, url: str
) -> None:
    """If the session ends between two statements, the whole batch is rolled back."""
    a.commit(build_changes(upto=1))
    outcome: list[str] = []

    def commit_mark() -> None:
        try:
            commit(a, mark(2), at=7)
        except StoreUnavailable as error:
            outcome.append(type(error).__name__)

    with server.session(url) as other, other.transaction():
        other.execute("SELECT * FROM noted_time_bucket FOR UPDATE")  # holds the last statement up
        under_way = threading.Thread(target=commit_mark)
        under_way.start()
        time.sleep(0.2)
        end_session("http://a", server, url)
        under_way.join()

    assert (outcome, read_seqs(b), b.clocks()[0]) == (["StoreUnavailable"], [1], 1)
