"""The thread of a replica that renews its leases, and leases that are lost."""

import asyncio
from collections.abc import Callable
from threading import Event
from unittest.mock import Mock

import pytest
from structlog.testing import CapturedCall, CapturingLogger

from controller.service import committer, lease_keeper
from controller.service.lease_keeper import LIFE_LASTS_MS
from controller.store.port import LEASE_MS, StoreShared, StoreUnavailable
from tests.replicas.one_replica import HERE, Replica, is_never_due
from tests.support.controllers import wait_until_async
from tests.support.http import problem
from tools.trials.waiting import PATIENCE_S


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renew often."""
    monkeypatch.setattr(lease_keeper, "RENEW_EVERY_S", 0.01)


def pass_time(replica: Replica, ms: int) -> None:
    """Advance the monotonic clock of the replica."""
    clocks = replica.controller._clocks
    steady_ms: Callable[[], int] = clocks.steady_ms
    clocks.steady_ms = lambda: steady_ms() + ms


async def test_lease_is_renewed_during_long_commit(this: Replica) -> None:
    """Reads are answered meanwhile."""
    changing = this.controller.put_stream(HERE, {"mark_interval_ms": 1})
    async with this.store.watch.hold(changing):
        pass_time(this, LEASE_MS)
        await this.wait_until_sure()
        answer = await this.client.get(f"/v1/streams/{HERE}")

    assert answer.status_code == 200


async def test_long_commit_does_not_extend_lease(
    this: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a renewal does. The log has the first failure of each series."""
    monkeypatch.setattr(lease_keeper, "log", logger := CapturingLogger())
    this.store.renewal = StoreUnavailable("away")
    await wait_until_async(lambda: logger.calls != [])
    changing = this.controller.put_stream(HERE, {"mark_interval_ms": 1})
    async with this.store.watch.hold(changing) as held_up:
        pass_time(this, LEASE_MS)
    await held_up
    before = this.controller.ownership.is_sure
    this.store.renewal = True
    await this.wait_until_sure()

    assert not before
    assert logger.calls == [CapturedCall("warning", ("leases_not_renewed",), {"error": "away"})]


async def test_late_answer_extends_no_lease_beyond_its_request(
    this: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease begins when its renewal is sent, not when that is answered."""
    asked_event = Event()
    answered_event = Event()

    def renew() -> bool:
        asked_event.set()
        answered_event.wait(PATIENCE_S)
        return True

    monkeypatch.setattr(this.controller.ownership, "is_due", is_never_due)
    monkeypatch.setattr(this.store, "renew", renew)
    await wait_until_async(asked_event.is_set)
    pass_time(this, LEASE_MS)
    extended_event = asyncio.Event()
    extend = this.controller.ownership.extend_leases
    loop = asyncio.get_running_loop()

    def extend_once(steady_ms: int) -> None:
        extend(steady_ms)
        monkeypatch.setattr(this.store, "renew", Mock(return_value=False))
        loop.call_soon_threadsafe(extended_event.set)

    monkeypatch.setattr(this.controller.ownership._keeper, "_extend", extend_once)
    answered_event.set()
    await extended_event.wait()

    assert not this.controller.ownership.is_sure


async def test_lost_lease_ends_reads_during_commit(this: Replica) -> None:
    """The next turn comes only after the commit."""
    changing = this.controller.put_stream(HERE, {"mark_interval_ms": 1})
    async with this.store.watch.hold(changing):
        this.store.renewal = False
        await this.wait_until_unsure()
        request = asyncio.create_task(this.client.get(f"/v1/streams/{HERE}"))
        await asyncio.wait([request], timeout=0.05)
        answered_early = request.done()
        this.store.renewal = True

    assert (answered_early, (await request).status_code) == (False, 200)


async def test_loop_without_sign_of_life_renews_nothing(
    this: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of a loop that hangs does not keep its leases."""
    keeper = this.controller.ownership._keeper
    assert keeper._timer is not None
    keeper._timer.cancel()
    monkeypatch.setattr(this.controller.ownership, "is_due", is_never_due)
    pass_time(this, LIFE_LASTS_MS - 1000)
    await this.wait_until_sure()
    pass_time(this, LEASE_MS)
    await asyncio.sleep(0.1)

    assert not this.controller.ownership.is_sure


@pytest.mark.parametrize("where", ["renewal", "commit"])
async def test_shared_session_ends_the_controller(
    this: Replica, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is given up at once, and nothing is acquired again."""
    monkeypatch.setattr(committer, "log", logger := CapturingLogger())
    if where == "renewal":
        this.store.renewal = StoreShared()
    else:
        this.store.watch.failures = [StoreShared()]
        assert problem(await this.note(HERE))[0] == 503
    await wait_until_async(lambda: this.controller.shared is not None)
    answers = [await this.note(HERE), await this.client.get("/healthz")]

    says = "a pooler gives the session to others: use session mode, or connect to PostgreSQL itself"
    assert [problem(answer) for answer in answers] == [(503, "unavailable", says)] * 2
    assert not this.controller.ownership.is_sure
    assert logger.calls[-1] == CapturedCall("critical", ("session_shared",), {"error": says})
