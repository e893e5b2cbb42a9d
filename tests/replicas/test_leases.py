from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from controller.aggregation.world import load
from controller.store import leases
from controller.store.migrate import migrate
from controller.store.notices import notice_of
from controller.store.port import Batch, StoreUnavailable
from controller.store.postgres import PostgresStore
from tests.support.postgres import PASSWORD
from tests.support.stored import mark, of_one_stream, seqs, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from tests.support.postgres import Server

    MakeReplica = Callable[[str], PostgresStore]
    Lease = Callable[[int], None]

ALL = frozenset(range(64))
SHORT_MS = 300
"""A lease that a test can wait for."""

FAIR_MS = 800
"""A lease that nobody loses who says something all the time, on whatever machine."""

LONG_MS = 60_000

# Takes all buckets and appends mark 1; then appends the next one for each line that it reads.
OWNER = """
import sys
from controller.store.port import Batch
from controller.store.postgres import PostgresStore
from tests.support.stored import mark, of_one_stream

store = PostgresStore(sys.argv[1])
store.take(store.look().free)
store.commit(of_one_stream(upto=1))
print("mark 1", flush=True)
for n, _ in enumerate(sys.stdin, 2):
    try:
        store.commit(Batch({0: n}, marks=[mark(n)]))
        print("mark", n, flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


@pytest.fixture
def make(url: str) -> Iterator[MakeReplica]:
    """Makes the store of a replica at each call, called as that says, which has looked once."""
    made: list[PostgresStore] = []

    def begin(called: str) -> PostgresStore:
        store = PostgresStore(url)
        made.append(store)
        store.enter(called)
        store.look()
        return store

    yield begin
    for store in made:
        store.close()


@pytest.fixture
def a(make: MakeReplica) -> PostgresStore:
    """A replica that has all buckets."""
    store = make("http://a")
    store.take(ALL)
    return store


@pytest.fixture
def b(make: MakeReplica, a: PostgresStore) -> PostgresStore:
    """Another one, which has none."""
    assert a.look().mine == ALL
    return make("http://b")


@pytest.fixture(autouse=True)
def lease(monkeypatch: pytest.MonkeyPatch) -> Lease:
    """Says how long a lease is, in ms; so long that none ends until a test says otherwise."""

    def last(ms: int) -> None:
        monkeypatch.setattr(leases, "LEASE_MS", ms)

    last(LONG_MS)
    return last


@pytest.fixture
def other_process(url: str) -> Iterator[subprocess.Popen[str]]:
    """A replica in a process of its own that has all buckets and has appended mark 1."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "mark 1\n"
        yield process
        process.kill()


def silent(lease: Lease) -> None:
    """Let nobody say anything for longer than a lease."""
    time.sleep(1.2 * SHORT_MS / 1000)
    lease(SHORT_MS)


def while_leases_end() -> Iterator[None]:
    """Go on for longer than a fair lease."""
    deadline = time.monotonic() + 1.5 * FAIR_MS / 1000
    while time.monotonic() < deadline:
        yield


def at_work(server: Server, url: str, wait_event: str) -> None:
    """Wait until the server works for a session and waits for that meanwhile."""
    database = url.rpartition("/")[2]
    query = f"""SELECT 1 FROM pg_stat_activity WHERE datname = '{database}' AND state = 'active'
    AND wait_event = '{wait_event}'"""  # noqa: S608 - our own names
    deadline = time.monotonic() + 20
    while not server.execute(query):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def became_free(store: PostgresStore) -> None:
    """Look until all buckets are free."""
    deadline = time.monotonic() + 20
    while store.look().free != ALL:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lost(act: Callable[[], object]) -> bool:
    """Whether the store says that its session was lost."""
    with pytest.raises(StoreUnavailable):
        act()
    return True


# Who has what


def test_a_look_shows_who_has_what(a: PostgresStore, b: PostgresStore) -> None:
    """One's own, where the others are called, what is free, and how many live."""
    a.give(range(10))
    taken = b.take(range(5))

    seen_by_a, seen_by_b = a.look(), b.look()
    assert (taken, seen_by_a.free, seen_by_b.free) == (
        frozenset(range(5)),
        frozenset(range(5, 10)),
        frozenset(range(5, 10)),
    )
    assert (seen_by_a.mine, seen_by_a.others, seen_by_a.replicas) == (
        frozenset(range(10, 64)),
        dict.fromkeys(range(5), "http://b"),
        2,
    )
    assert (seen_by_b.mine, set(seen_by_b.others.values()), seen_by_b.replicas) == (
        frozenset(range(5)),
        {"http://a"},
        2,
    )


def test_what_another_has_is_not_taken(a: PostgresStore, b: PostgresStore) -> None:
    """To try is no error: it is simply not among what was taken."""
    a.give([7])

    assert (b.take(ALL), b.look().mine) == (frozenset([7]), frozenset([7]))


def test_what_one_has_already_is_given_as_a_whole(a: PostgresStore, b: PostgresStore) -> None:
    """Nobody takes what it has twice, or one unlock would not be enough."""
    a.take(a.look().free)
    a.give([7])

    assert b.take([7]) == frozenset([7])


def test_no_bucket_is_ever_had_by_two(make: MakeReplica) -> None:
    """Four replicas take and give as fast as they can, and each bucket has one owner at a time."""
    owners: dict[int, str] = {}
    broken: list[tuple[int, str, str]] = []
    taken = dict.fromkeys(("http://1", "http://2", "http://3", "http://4"), 0)

    def work(name: str, store: PostgresStore) -> None:
        for turn in range(60):
            got = store.take(range(turn % 3, 64, 3))
            taken[name] += len(got)
            broken.extend((each, name, owners[each]) for each in got if each in owners)
            owners.update(dict.fromkeys(got, name))
            for each in got:
                del owners[each]
            store.give(got)

    threads = [threading.Thread(target=work, args=(name, make(name))) for name in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert (broken, all(taken.values())) == ([], True)


def test_schemas_of_one_database_are_apart(url: str, server: Server) -> None:
    """Each may hold the tables of a controller, whose replicas know nothing of the others'."""
    server.execute("CREATE SCHEMA IF NOT EXISTS apart", url)
    elsewhere = f"{url}?options=-csearch_path%3Dapart"
    migrate(elsewhere)
    with closing(PostgresStore(url)) as one, closing(PostgresStore(elsewhere)) as other:
        taken = [each.take(each.look().free) for each in (one, other)]

        assert (taken, one.look().replicas, other.look().others) == ([ALL, ALL], 1, {})


def test_databases_of_one_server_are_apart(a: PostgresStore, server: Server) -> None:
    """A replica of another database neither takes nor hides a bucket."""
    url = server.make_database()
    migrate(url)
    with closing(PostgresStore(url)) as other:
        taken = other.take(other.look().free)

        assert (taken, a.look().replicas, other.look().others) == (ALL, 1, {})


def test_an_ordinary_user_of_the_server_can_do_all_this(
    server: Server, lease: Lease, request: pytest.FixtureRequest
) -> None:
    """Nobody but the owner of the database is needed, not even to end a silent session."""
    url = server.make_database()
    database = url.rpartition("/")[2]
    server.execute(f"CREATE ROLE plain LOGIN PASSWORD '{PASSWORD}'")
    request.addfinalizer(lambda: server.execute("ALTER ROLE plain NOLOGIN"))
    server.execute(f"ALTER DATABASE {database} OWNER TO plain")
    plain = url.replace("//noted:", "//plain:")
    migrate(plain)
    with closing(PostgresStore(plain)) as one, closing(PostgresStore(plain)) as other:
        one.enter("http://a")
        one.take(one.look().free)
        before = set(other.look().others.values())
        silent(lease)

        assert (before, other.look().free) == ({"http://a"}, ALL)


# Who is silent


def test_a_silent_session_is_ended_after_its_lease(
    a: PostgresStore, b: PostgresStore, lease: Lease
) -> None:
    """One look of another frees all its buckets; what it had was lost with the session."""
    before = b.look().free
    silent(lease)
    after = b.look()

    assert (before, after.free, after.replicas) == (frozenset(), ALL, 1)
    assert all(lost(act) for act in (a.look, a.ping, lambda: a.take([1]), lambda: a.give([1])))


def test_who_looks_often_enough_keeps_what_it_has(
    a: PostgresStore, b: PostgresStore, lease: Lease
) -> None:
    """The lease counts from the last word to the server."""
    a.look()
    lease(FAIR_MS)
    for _ in while_leases_end():
        a.look()
        b.look()

    assert (a.look().mine, b.look().replicas) == (ALL, 2)


def test_a_session_at_work_is_left_alone(
    a: PostgresStore, b: PostgresStore, lease: Lease, server: Server, url: str
) -> None:
    """However long the server takes: it is not the controller that is silent."""
    working = threading.Thread(target=a._session.session().execute, args=("SELECT pg_sleep(1.5)",))
    working.start()
    at_work(server, url, "PgSleep")
    silent(lease)
    seen = len(b.look().others)
    lease(LONG_MS)
    working.join()

    assert (seen, a.look().mine) == (64, ALL)


def test_a_session_that_waits_for_a_lock_is_left_alone(
    a: PostgresStore, b: PostgresStore, lease: Lease, server: Server, url: str
) -> None:
    """Another program's lock holds its commit up; it is not silent, and the commit goes through."""
    with server.session(url) as other, other.transaction():
        other.execute("LOCK TABLE stream")
        held_up = threading.Thread(target=a.commit, args=(of_one_stream(upto=1),))
        held_up.start()
        at_work(server, url, "relation")
        silent(lease)
        seen = len(b.look().others)
        lease(LONG_MS)
    held_up.join()

    assert (seen, seqs(a)) == (64, [1])


@pytest.mark.parametrize(
    "begins",
    [
        ["BEGIN", "UPDATE bucket SET service_ms = 9"],
        ["BEGIN", "UPDATE bucket SET service_ms = 9", "COPY scale FROM STDIN"],
    ],
    ids=["in a transaction", "in the middle of a statement"],
)
def test_one_that_falls_silent_half_way_is_ended(
    a: PostgresStore, b: PostgresStore, begins: list[str], lease: Lease
) -> None:
    """It holds its locks no longer than its lease, and nothing of its transaction is kept."""
    session = a._session.session()
    for statement in begins:
        session.pgconn.send_query(statement.encode())
        while session.pgconn.is_busy() or session.pgconn.get_result():
            session.pgconn.consume_input()
            if statement.startswith("COPY"):
                break
    silent(lease)

    assert (b.look().free, set(b.clocks().values())) == (ALL, {0})


def test_who_reads_for_long_is_not_silent(
    a: PostgresStore, b: PostgresStore, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To load many members takes other sessions; the server hears of the owner meanwhile."""
    monkeypatch.setattr(leases, "RENEW_S", 0.0)
    a.commit(of_one_stream(upto=1))
    lease(FAIR_MS)
    for _ in while_leases_end():
        assert seqs(a) == [1]
        b.look()

    assert a.look().mine == ALL


def test_who_loads_streams_without_anything_in_them_is_not_silent(
    a: PostgresStore, b: PostgresStore, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of streams that were made and never noted to are as much work as others."""
    monkeypatch.setattr(leases, "RENEW_S", FAIR_MS / 8000)
    streams = [stream(f"id-{number}", f"s{number}") for number in range(10)]
    a.commit(Batch(streams=streams))
    lease(FAIR_MS)
    for _ in while_leases_end():
        assert len(load(a, ALL, len(ALL))) == 10
        b.look()

    assert a.look().mine == ALL


def test_who_reads_after_its_session_was_ended_is_told(
    a: PostgresStore, b: PostgresStore, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading streams for buckets that are another's by now comes to nothing."""
    monkeypatch.setattr(leases, "RENEW_S", 0.0)
    a.commit(of_one_stream(upto=1))
    silent(lease)
    b.look()

    assert lost(lambda: seqs(a))


# What follows from a lost session


def test_who_lost_its_session_owns_nothing(
    a: PostgresStore, b: PostgresStore, lease: Lease
) -> None:
    """It says so until it looks again, and then begins with nothing, called as before."""
    silent(lease)
    b.take(b.look().free)
    lease(LONG_MS)
    told = [lost(act) for act in (a.ping, a.ping, lambda: a.commit(of_one_stream()))]
    leases_of_a = a.look()

    assert (told, leases_of_a.mine, set(leases_of_a.others.values())) == (
        [True] * 3,
        frozenset(),
        {"http://b"},
    )
    b.give([3])
    assert (a.take([3]), b.look().others) == (frozenset([3]), {3: "http://a"})


def test_a_commit_in_a_session_that_was_ended_appends_nothing(
    a: PostgresStore, b: PostgresStore, lease: Lease
) -> None:
    """Neither while its buckets are free nor when the next owner has gone on."""
    a.commit(of_one_stream(upto=1))
    silent(lease)
    b.look()
    lease(LONG_MS)
    told = [lost(lambda: a.commit(Batch(marks=[mark(2)])))]
    free = seqs(b)
    b.take(ALL)
    b.commit(Batch(marks=[mark(2)]))
    told.append(lost(lambda: a.commit(Batch(marks=[mark(3)]))))

    assert (told, free, seqs(b)) == ([True, True], [1], [1, 2])


def test_a_commit_that_was_under_way_is_undone(
    a: PostgresStore, b: PostgresStore, server: Server, url: str
) -> None:
    """Its session is ended between two statements: all of the batch is gone, its caller told."""
    a.commit(of_one_stream(upto=1))
    outcome: list[str] = []

    def commit() -> None:
        try:
            a.commit(Batch({0: 7}, marks=[mark(2)]))
        except StoreUnavailable as error:
            outcome.append(type(error).__name__)

    with server.session(url) as other, other.transaction():
        other.execute("SELECT * FROM bucket FOR UPDATE")  # holds the last statement up
        under_way = threading.Thread(target=commit)
        under_way.start()
        time.sleep(0.2)
        _end_session_of("http://a", server, url)
        under_way.join()

    assert (outcome, seqs(b), b.clocks()[0]) == (["StoreUnavailable"], [1], 1)


def _end_session_of(called: str, server: Server, url: str) -> None:
    server.execute(f"SELECT pg_terminate_backend(pid) FROM replica WHERE url = '{called}'", url)  # noqa: S608 - our own name


def test_an_owner_that_closes_hands_over_at_once(a: PostgresStore, b: PostgresStore) -> None:
    """Nobody waits for the end of a lease that was given back."""
    a.close()

    after = b.look()
    assert (after.free, after.replicas) == (ALL, 1)


def test_a_closed_store_begins_no_session_again(a: PostgresStore, b: PostgresStore) -> None:
    """Whoever looks by it all the same is told, and does not come to life."""
    a.close()

    assert lost(a.look)
    assert b.look().replicas == 1


def test_the_buckets_of_a_process_that_was_killed_are_free(
    b_alone: PostgresStore, other_process: subprocess.Popen[str]
) -> None:
    """The server notices the end of the process, not only that of the lease."""
    had = len(b_alone.look().others)
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
    b_alone.take(ALL)
    b_alone.commit(Batch({0: 2}, marks=[mark(2)]))

    assert (said, seqs(b_alone)) == ("StoreUnavailable\n", [1, 2])


@pytest.fixture
def b_alone(make: MakeReplica) -> PostgresStore:
    """A replica that has nothing, beside one in another process."""
    return make("http://b")


# What others are told


def test_others_are_told_of_every_change(make: MakeReplica, url: str, server: Server) -> None:
    """When a replica comes, takes, gives and goes; a look alone tells nobody."""
    with server.session(url) as listening:
        _listen(listening)
        store = make("http://a")
        told = [_heard(listening)]
        acts: list[Callable[[], Any]] = [
            store.look,
            lambda: store.take([1, 2]),
            lambda: store.take([1, 2]),
            lambda: store.give([1]),
            store.close,
        ]
        for act in acts:
            act()
            told.append(_heard(listening))

    assert told == [1, 0, 1, 1, 1, 1]


def test_what_is_told_is_that_leases_changed(
    a: PostgresStore, b: PostgresStore, url: str, server: Server
) -> None:
    """In the words that a listener understands."""
    with server.session(url) as listening:
        _listen(listening)
        a.give([1])
        b.take([1])
        heard = [notice_of(each.payload) for each in listening.notifies(timeout=5, stop_after=2)]

    assert [type(each).__name__ for each in heard] == ["LeasesChanged"] * 2


def _listen(session: psycopg.Connection[Any]) -> None:
    found = session.execute("SELECT 'noted_time_' || hashtext(current_schema())").fetchone()
    assert found
    session.execute(f'LISTEN "{found[0]}"'.encode())


def _heard(session: psycopg.Connection[Any]) -> int:
    """Return how many notices came by now."""
    session.execute("SELECT")
    return len(list(session.notifies(timeout=0.1)))
