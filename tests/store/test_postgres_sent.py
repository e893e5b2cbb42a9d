"""Commits that are sent and not waited for, as an event loop makes them."""

from __future__ import annotations

import os
import select
import signal
from contextlib import closing
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from controller.store import journal
from controller.store.port import Batch, StoreUnavailable
from controller.store.postgres import PostgresStore
from noted_time import Conflict
from noted_time.note import SEGMENTS_PER_POSITION
from tests.support.stored import mark, member, of_one_stream, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.store.port import Sent
    from tests.support.postgres import Server

PATIENCE_S = 20.0


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    """A store that has all buckets of its database, in which there is one stream."""
    with closing(PostgresStore(url)) as made:
        made.take(made.look().free)
        made.commit(of_one_stream())
        list(made.members("id-1"))  # as whoever takes the stream does
        yield made


def begun(store: PostgresStore, batch: Batch) -> Sent:
    """Return what was sent of the batch."""
    sent = store.begin(batch)
    assert sent is not None
    return sent


def finish(sent: Sent) -> None:
    """Do what a loop does until the commit is done."""
    end = monotonic() + PATIENCE_S
    while monotonic() < end:
        writing = [] if sent.is_flushed else [sent]
        select.select([sent], writing, [], PATIENCE_S)
        if sent.go_on():
            return
    pytest.fail("the commit was not answered")


def test_what_was_sent_is_stored_when_it_is_done(store: PostgresStore) -> None:
    """As by `commit`: new members are added, known ones replaced."""
    store.commit(Batch(told=told(member("a", 1))))

    finish(begun(store, Batch(told=told(member("b", 2), member("a", 3)))))

    assert list(store.members("id-1")) == [member("a", 3), member("b", 2)]


@pytest.mark.parametrize(
    "batch",
    [
        Batch(told=told(member()), marks=[mark(1)]),
        Batch(told=told(member()), clocks={0: 1}),
    ],
    ids=["a mark", "a clock"],
)
def test_what_takes_turns_with_the_server_is_not_sent(store: PostgresStore, batch: Batch) -> None:
    """Nothing was begun: the caller commits it on a thread."""
    assert store.begin(batch) is None
    store.commit(batch)

    assert len(list(store.members("id-1"))) == batch.records


def test_nor_is_what_tells_of_a_stream_whose_journal_is_not_known(
    store: PostgresStore, url: str
) -> None:
    """That takes turns; afterwards it is sent."""
    store.commit(Batch(told=told(member())))
    store.give(range(64))
    with closing(PostgresStore(url)) as other:
        other.take(other.look().free)
        unknown = other.begin(Batch(told=told(member())))
        other.commit(Batch(told=told(member("b"))))
        finish(begun(other, Batch(told=told(member("c")))))

        assert unknown is None
        assert [each.writer for each in other.members("id-1")] == ["UA", "b", "c"]


def test_nor_is_anything_while_entries_are_to_be_dropped(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes turns too; afterwards it is sent again."""
    monkeypatch.setattr(journal, "SPARE_BYTES", 0)
    store.commit(Batch(told=told(member("a", 1))))
    for time in (2, 3, 4):
        finish(begun(store, Batch(told=told(member("a", time)))))
    overdue = store.begin(Batch(told=told(member("a", 5))))
    store.commit(Batch(told=told(member("a", 6))))
    finish(begun(store, Batch(told=told(member("a", 7)))))

    assert (overdue, list(store.members("id-1"))) == (None, [member("a", 7)])


def test_a_batch_beyond_the_sockets_buffers_is_sent_in_parts(store: PostgresStore) -> None:
    """A loop is told to wait until there is room, as where the server reads nothing for a while."""
    large = dict.fromkeys(range(SEGMENTS_PER_POSITION), 2**62)
    members = [member(f"w{n:03}")._replace(position=large) for n in range(500)]
    own = store._session.session().info.backend_pid
    os.kill(own, signal.SIGSTOP)
    try:
        sent = begun(store, Batch(told=told(*members)))
        was_flushed = sent.is_flushed
    finally:
        os.kill(own, signal.SIGCONT)

    finish(sent)

    assert not was_flushed
    assert [each.position == large for each in store.members("id-1")] == [True] * len(members)


def test_a_batch_that_contradicts_what_is_stored_is_undone_as_a_whole(store: PostgresStore) -> None:
    """A conflict as by `commit`, and the session goes on."""
    list(store.members("id-9"))
    with pytest.raises(Conflict):
        finish(begun(store, Batch(told=[*told(member()), *told(member(), of="id-9")])))
    store.commit(Batch(told=told(member("a"))))

    finish(begun(store, Batch(told=told(member("b")))))

    assert list(store.members("id-1")) == [member("a"), member("b")]


def test_a_session_that_ends_meanwhile_takes_nothing(
    store: PostgresStore, server: Server, url: str
) -> None:
    """The commit waits for a table that another holds; its session is ended."""
    finish(begun(store, Batch(told=told(member("a", 1)))))
    own = store._session.session().info.backend_pid
    with closing(server.session(url)) as other, other.transaction():
        other.execute("LOCK TABLE journal IN SHARE MODE")
        sent = begun(store, Batch(told=told(member("a", 2))))
        server.execute(f"SELECT pg_terminate_backend({own})")
        with pytest.raises(StoreUnavailable):
            finish(sent)

    with pytest.raises(StoreUnavailable, match="read again"):
        store.commit(Batch(told=told(member("a", 3))))
    store.look()
    assert list(store.members("id-1")) == [member("a", 1)]


def test_after_a_lost_session_the_next_one_sends_too(
    store: PostgresStore, server: Server, url: str
) -> None:
    """What was prepared in the session that is gone is prepared anew."""
    server.cut(url)
    with pytest.raises(StoreUnavailable):
        finish(begun(store, Batch(told=told(member()))))
    store.look()
    list(store.members("id-1"))

    finish(begun(store, Batch(told=told(member()))))

    assert list(store.members("id-1")) == [member()]
