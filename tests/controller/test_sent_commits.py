"""Commits that the loop begins and reads the answer of, without a thread."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from controller.service.batches import Drafted
from controller.store.memory import MemoryStore
from controller.store.port import StoreUnavailable
from noted_time import Accepted, Note
from tests.support.controllers import PATIENCE_S, serving, tell, until
from tests.support.loops import anyio_backend

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.store.port import Batch, Sent

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.anyio

AWAY = StoreUnavailable("the server went away")


class SentBatch:
    """A commit whose answer a test gives, over a socket as a server would."""

    def __init__(self, batch: Batch, commit: Callable[[Batch], None]) -> None:
        self.batch = batch
        self.is_flushed = False
        self._commit = commit
        self._failure: Exception | None = None
        self._here, self._there = socket.socketpair()

    def fileno(self) -> int:
        """Return the socket that has the answer."""
        return self._here.fileno()

    def go_on(self) -> bool:
        """Send the rest, and commit once the answer is there."""
        if not self.is_flushed:
            self.is_flushed = True
            return False
        if self._failure is not None:
            raise self._failure
        self._commit(self.batch)
        return bool(self._here.recv(1))

    def close(self) -> None:
        """Close both ends."""
        self._here.close()
        self._there.close()

    def answer(self, failure: Exception | None = None) -> None:
        """Have it committed, or fail."""
        self._failure = failure
        self._there.send(b"!")


class TornBatch:
    """A commit to a server that said something, and then tore the connection down."""

    is_flushed = True

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._here = socket.create_connection(server.getsockname())
            there, _ = server.accept()
        there.send(b"!")
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        there.close()

    def fileno(self) -> int:
        """Return the socket, which has an error and yet something to read."""
        return self._here.fileno()

    def go_on(self) -> bool:
        """Read what was said, which is no answer; the next time the error."""
        try:
            self._here.recv(1)
        except ConnectionResetError:
            raise AWAY from None
        return False

    def close(self) -> None:
        """Close this end."""
        self._here.close()


class SendingStore(MemoryStore):
    """A store that sends what is nothing but members, and that is never called twice at once."""

    def __init__(self) -> None:
        super().__init__()
        self.local = False
        self.sent: list[SentBatch] = []
        self.torn: list[TornBatch] = []
        self.refusals: list[Exception] = []
        self.pings = 0

    def begin(self, batch: Batch) -> Sent | None:
        """Send what can be, unless told to fail."""
        if not batch.is_of_members:
            return None
        if self.torn:
            return self.torn.pop()
        if self.refusals:
            raise self.refusals.pop(0)
        self.sent.append(SentBatch(batch, super().commit))
        return self.sent[-1]

    def reopened(self) -> SendingStore:
        """Return the store as a new process finds it."""
        self._closed = False
        return self

    def close(self) -> None:
        """Close the sockets too."""
        super().close()
        for each in self.sent:
            each.close()

    def ping(self) -> None:
        """Count the calls made from outside."""
        self.pings += 1
        super().ping()


def noted(store: SendingStore) -> dict[str, int]:
    """Return the offsets that are stored."""
    [stream] = store.streams()
    return {each.writer: each.position[0] for each in store.members(stream.id)}


async def asked(store: SendingStore, count: int = 1) -> SentBatch:
    """Wait until so many commits were sent in all; returns the last."""
    await until(lambda: len(store.sent) == count and store.sent[-1].is_flushed)
    return store.sent[-1]


def drafts() -> set[int]:
    """Return which batches are in memory, other tests' too."""
    return {id(each) for each in gc.get_objects() if isinstance(each, Drafted)}


async def test_a_note_is_answered_when_the_answer_of_the_database_is_there() -> None:
    """Not before, however long that takes; meanwhile the loop serves others."""
    store = SendingStore()
    async with serving(store, mark_interval_ms=60_000) as controller:
        answer = asyncio.create_task(tell(controller, Note("a", None, {0: 5})))
        sent = await asked(store)
        await asyncio.sleep(0.05)
        early = answer.done()
        sent.answer()

        assert (early, await answer, noted(store)) == (False, [Accepted(None)], {"a": 5})


async def test_what_comes_meanwhile_is_in_the_next_batch() -> None:
    """One commit is under way at a time, and the next holds all that waited for it."""
    store = SendingStore()
    async with serving(store, mark_interval_ms=60_000) as controller:
        first = asyncio.create_task(tell(controller, Note("a", None, {0: 5})))
        sent = await asked(store)
        others = [asyncio.create_task(tell(controller, Note(name, None, {0: 6}))) for name in "bc"]
        await asyncio.sleep(0.05)
        at_once = len(store.sent)
        sent.answer()
        await first
        (await asked(store, 2)).answer()
        await asyncio.gather(*others)

        assert (at_once, [each.batch.records for each in store.sent]) == (1, [1, 2])


async def test_a_commit_that_is_done_leaves_no_garbage() -> None:
    """Nothing of it refers to itself: to collect what it held took 8 % of the time under load."""
    store = SendingStore()
    async with serving(store, mark_interval_ms=60_000) as controller:
        gc.collect()
        before = drafts()
        gc.disable()
        try:
            answer = asyncio.create_task(tell(controller, Note("a", None, {0: 5})))
            (await asked(store)).answer()
            await answer
            await asyncio.sleep(0.05)
            after = drafts()
        finally:
            gc.enable()

        assert after <= before


async def test_no_other_call_is_made_until_it_is_done() -> None:
    """A readiness probe waits for the commit, and the batch after it for the probe."""
    store = SendingStore()
    async with serving(store, mark_interval_ms=60_000) as controller:
        answer = asyncio.create_task(tell(controller, Note("a", None, {0: 5})))
        sent = await asked(store)
        before = store.pings
        probe = asyncio.create_task(controller.check_ready())
        await asyncio.sleep(0.05)
        meanwhile = store.pings - before
        sent.answer()
        await asyncio.gather(answer, probe)

        assert (meanwhile, store.pings > before) == (0, True)


async def test_a_call_that_was_given_up_leaves_the_next_commit_to_be_sent() -> None:
    """A probe whose caller went away while it waited is not waited for ever after."""
    store = SendingStore()
    async with serving(store, mark_interval_ms=60_000) as controller:
        answer = asyncio.create_task(tell(controller, Note("a", None, {0: 5})))
        sent = await asked(store)
        probe = asyncio.create_task(controller.check_ready())
        await asyncio.sleep(0.05)
        probe.cancel()
        await asyncio.wait([probe])
        sent.answer()
        await answer
        again = asyncio.create_task(tell(controller, Note("a", None, {0: 6})))
        (await asked(store, 2)).answer()

        assert (probe.cancelled(), await again) == (True, [Accepted(None)])


async def test_a_commit_that_fails_is_told_and_the_streams_are_read_anew() -> None:
    """Nothing of it counts: a lower position is taken after it."""
    store = SendingStore()
    async with serving(store, mark_interval_ms=60_000) as controller:
        answer = asyncio.create_task(tell(controller, Note("a", None, {0: 5})))
        (await asked(store)).answer(AWAY)
        with pytest.raises(StoreUnavailable, match="went away"):
            await answer
        await until(lambda: controller._committer.ready)
        again = asyncio.create_task(tell(controller, Note("a", None, {0: 4})))
        (await asked(store, 2)).answer()

        assert (await again, noted(store)) == ([Accepted(None)], {"a": 4})


async def test_a_server_that_tears_the_connection_is_noticed() -> None:
    """What it said before is read first, at a socket that has an error by then: crashes do that."""
    store = SendingStore()
    async with serving(store, mark_interval_ms=60_000) as controller:
        with closing(TornBatch()) as torn:
            store.torn = [torn]
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(StoreUnavailable, match="went away"):
                    await tell(controller, Note("a", None, {0: 5}))


async def test_one_that_cannot_begin_is_told_at_once() -> None:
    """The session was lost before; the next one takes notes."""
    store = SendingStore()
    async with serving(store, mark_interval_ms=60_000) as controller:
        store.refusals = [AWAY]
        with pytest.raises(StoreUnavailable, match="went away"):
            await tell(controller, Note("a", None, {0: 5}))
        await until(lambda: controller._committer.ready)
        again = asyncio.create_task(tell(controller, Note("a", None, {0: 4})))
        (await asked(store)).answer()

        assert await again == [Accepted(None)]


async def test_a_controller_that_stops_waits_for_what_was_sent() -> None:
    """Its callers are answered before it ends."""
    store = SendingStore()
    async with serving(store, mark_interval_ms=60_000) as controller:
        answer = asyncio.create_task(tell(controller, Note("a", None, {0: 5})))
        sent = await asked(store)
        asyncio.get_running_loop().call_later(0.05, sent.answer)
        await controller.close()

        assert (await answer, noted(store.reopened())) == ([Accepted(None)], {"a": 5})
