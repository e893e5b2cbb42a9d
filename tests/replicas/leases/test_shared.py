"""Sessions that a pooler has given to another client, too."""

from collections.abc import Callable
from contextlib import closing

import pytest

from controller.store.port import StoreShared
from controller.store.postgres import PostgresStore
from controller.store.records import ChangeSet
from tests.replicas.leases.sessions import ALL, MakeReplica
from tests.support.stored import build_changes, commit, mark, member, read_seqs, records
from tools.trials.postgres import Server


def acquire_bucket(store: PostgresStore) -> None:
    store.acquire([1])


def release_bucket(store: PostgresStore) -> None:
    store.release([1])


def commit_notes(store: PostgresStore) -> None:
    store.commit(ChangeSet(*records(member("late"))))


def commit_mark(store: PostgresStore) -> None:
    commit(store, mark(2))


def commit_mark_and_notes(store: PostgresStore) -> None:
    commit(store, mark(2), *records(member("late")))


ACTS: dict[str, Callable[[PostgresStore], object]] = {
    "turn": PostgresStore.heartbeat,
    "acquisition": acquire_bucket,
    "release": release_bucket,
    "ping": PostgresStore.ping,
    "commit of notes": commit_notes,
    "commit of a mark": commit_mark,
    "commit of both": commit_mark_and_notes,
    "leaving": PostgresStore.leave,
}


@pytest.fixture(params=["token", "process id"])
def shared(request: pytest.FixtureRequest, a: PostgresStore) -> PostgresStore:
    """A store with a mark, all buckets, and a session of another client."""
    a.commit(build_changes(*records(member()), upto=1))
    if request.param == "token":
        set_token(a, "of another client")
    else:
        assert a._session._holder
        a._session._holder = a._session._holder._replace(pid=1)
    return a


def set_token(store: PostgresStore, token: str) -> None:
    """Set the token of the store's session, as another client would."""
    statement = "SELECT set_config('noted_time.session', %s, false)"
    store._session.session().execute(statement, [token])


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_session_of_another_client_changes_nothing(
    shared: PostgresStore, act: Callable[[PostgresStore], object], make: MakeReplica
) -> None:
    """Neither rows nor locks: those are of the other client."""
    with pytest.raises(StoreShared, match="a pooler gives the session to others: use session mode"):
        act(shared)

    other = make("http://b")
    writer_names = [member.writer for member in other.members("id-1")]
    assert (writer_names, read_seqs(other), other.heartbeat().free) == (["UA"], [1], frozenset())


def test_new_session_with_a_token_is_refused(
    url: str, make: MakeReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pooler gave it to another controller before, which may hold leases in it."""
    first = make("http://a")
    session = first._session.session()
    with closing(PostgresStore(url)) as second:
        monkeypatch.setattr(second._session, "_connect", lambda: session)

        with pytest.raises(StoreShared):
            second.heartbeat()


def test_session_that_renews_is_not_the_one_that_commits(
    a: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler gives both connections one session."""
    monkeypatch.setattr(a._session, "_connect", a._session.session)

    with pytest.raises(StoreShared):
        a.renew()


def test_reset_session_is_given_up(a: PostgresStore, server: Server, url: str) -> None:
    """A pooler may reset a session between two clients, which takes its locks and its token."""
    a._session.session().execute("DISCARD ALL")
    free = server.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", url)

    with pytest.raises(StoreShared):
        a.acquire(ALL)
    assert free == [(0,)]
