"""What follows from a lost session."""

import signal
import subprocess
import threading
import time

from controller.store.port import StoreUnavailable, Transaction
from controller.store.postgres import PostgresStore
from tests.replicas.leased import (
    ALL,
    LONG_MS,
    SHORT_MS,
    Lease,
    became_free,
    end_session_of,
    lost,
    silent,
)
from tests.support.postgres import Server
from tests.support.stored import mark, of_one_stream, seqs


def test_who_lost_its_session_owns_nothing(
    a: PostgresStore, b: PostgresStore, lease: Lease
) -> None:
    """It reports it until its next heartbeat, and then starts with nothing, under the same URL."""
    silent(lease)
    b.acquire(b.heartbeat().free)
    lease(LONG_MS)
    reported = [lost(act) for act in (a.ping, a.ping, lambda: a.commit(of_one_stream()))]
    leases_of_a = a.heartbeat()

    assert (reported, leases_of_a.mine, set(leases_of_a.others.values())) == (
        [True] * 3,
        frozenset(),
        {"http://b"},
    )
    b.release([3])
    assert (a.acquire([3]), b.heartbeat().others) == (frozenset([3]), {3: "http://a"})


def test_a_commit_in_a_session_that_was_ended_appends_nothing(
    a: PostgresStore, b: PostgresStore, lease: Lease
) -> None:
    """Neither while its buckets are free nor after the next owner has continued."""
    a.commit(of_one_stream(upto=1))
    silent(lease)
    b.heartbeat()
    lease(LONG_MS)
    reported = [lost(lambda: a.commit(Transaction(marks=[mark(2)])))]
    free = seqs(b)
    b.acquire(ALL)
    b.commit(Transaction(marks=[mark(2)]))
    reported.append(lost(lambda: a.commit(Transaction(marks=[mark(3)]))))

    assert (reported, free, seqs(b)) == ([True, True], [1], [1, 2])


def test_a_commit_that_was_under_way_is_undone(
    a: PostgresStore, b: PostgresStore, server: Server, url: str
) -> None:
    """Its session ends between two statements: the whole batch is undone, its caller notified."""
    a.commit(of_one_stream(upto=1))
    outcome: list[str] = []

    def commit() -> None:
        try:
            a.commit(Transaction({0: 7}, marks=[mark(2)]))
        except StoreUnavailable as error:
            outcome.append(type(error).__name__)

    with server.session(url) as other, other.transaction():
        other.execute("SELECT * FROM bucket FOR UPDATE")  # holds the last statement up
        under_way = threading.Thread(target=commit)
        under_way.start()
        time.sleep(0.2)
        end_session_of("http://a", server, url)
        under_way.join()

    assert (outcome, seqs(b), b.clocks()[0]) == (["StoreUnavailable"], [1], 1)


def test_the_buckets_of_a_process_that_was_killed_are_free(
    b_alone: PostgresStore, other_process: subprocess.Popen[str]
) -> None:
    """The server notices the end of the process, not only that of the lease."""
    had = len(b_alone.heartbeat().others)
    other_process.kill()
    became_free(b_alone)

    assert (had, seqs(b_alone)) == (64, [1])


def test_a_process_that_was_paused_beyond_its_lease_appends_nothing(
    b_alone: PostgresStore, other_process: subprocess.Popen[str], lease: Lease
) -> None:
    """Its buckets are free after its lease, and when it wakes up it has no session left."""
    assert other_process.stdin
    assert other_process.stdout
    other_process.send_signal(signal.SIGSTOP)
    lease(SHORT_MS)
    became_free(b_alone)
    lease(LONG_MS)
    other_process.send_signal(signal.SIGCONT)
    other_process.stdin.write("go on\n")
    said = other_process.stdout.readline()
    b_alone.acquire(ALL)
    b_alone.commit(Transaction({0: 2}, marks=[mark(2)]))

    assert (said, seqs(b_alone)) == ("StoreUnavailable\n", [1, 2])
