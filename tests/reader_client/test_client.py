"""The reader clients for threads and for asyncio."""

import asyncio
import threading
import time
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from demo.trials.served import Served
from demo.trials.waiting import PATIENCE_S, wait_until
from noted_time import ClientFailed, InvalidName, NotCompleteYet, Rejected, TimeWindow, Unreachable
from noted_time.client import Backoff
from noted_time.values import UnknownDomain
from reader_client import AsyncReaderClient, ReaderClient
from reader_client.marks.follower import Follower
from tests.reader_client.answers import list_readers
from tests.support.faults import Faults
from tests.support.http import as_json
from tests.trials.facts import Answer
from tests.trials.judge import judge

SOON = Backoff(first_s=0.01, cap_s=0.05)

NO_WINDOW = TimeWindow(None, None)


def reader(served: Served, stream: str, **options: Any) -> ReaderClient:  # noqa: ANN401
    """Return a reader that has caught up and retries quickly."""
    client = ReaderClient(served.url, stream, backoff=SOON, **options)
    client.catch_up()
    return client


def test_reported_positions_accumulate(served: Served, stream: str) -> None:
    """Segments without a new offset keep theirs; an offset may go back."""
    with reader(served, stream) as client:
        client.advance({0: 100, 1: 7})
        client.advance({1: 5})

        assert (client.position, client.get_time_window().lower) == ({0: 100, 1: 5}, 10)


def test_cut_is_found_for_a_time(served: Served, stream: str) -> None:
    """The first mark that completes a time has the cut; until then there is an error."""
    with reader(served, stream) as client:
        mark = client.cut_at(10)
        with pytest.raises(NotCompleteYet, match="time 11 is not complete yet: the lower is 10"):
            client.cut_at(11)

    assert dict(mark.cut.offsets) == {0: 100}


def test_marks_are_yielded_up_to_the_final_one(served: Served, stream: str) -> None:
    """The iterator yields known marks, waits for new ones, and resumes from any mark."""
    with reader(served, stream) as client:
        first = list(client.marks())
        for time_ in (20, 30):
            served.note(stream, time_, {"0": time_ * 10})
        served.call("POST", f"/{stream}/seal", {"cut": {"0": 999}})
        further = list(islice(client.marks(after=1, wait=PATIENCE_S), 3))
        again = [(after, list(client.marks(after))) for after in (3, 2, 1, 0)]
    answers = [Answer(at, as_json(came)) for at, came in [(0, first), (1, further), *again]]

    assert [mark.seq for mark in first + further] == [1, 2, 3, 4]
    assert (judge(answers=answers), answers[-1].marks[-1]["final"]) == ([], True)


def test_an_iterator_ends_with_its_client(served: Served, stream: str) -> None:
    """Waiting for ever ends when the client is closed."""
    client = reader(served, stream)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.extend(m.seq for m in client.marks(wait=None)))
    thread.start()
    wait_until(lambda: seen)
    client.close()
    thread.join(PATIENCE_S)

    assert (seen, thread.is_alive()) == ([1], False)


def test_each_domain_is_followed(served: Served) -> None:
    """By default a reader follows all declared domains, each with its own windows."""
    served.create("orders", domains=["order_time", "ship_time"])
    served.note("orders", 10, {"0": 100}, domain="order_time")
    served.note("orders", 7, {"0": 120}, domain="ship_time")
    with reader(served, "orders") as client:
        client.advance({0: 100})
        lowers = [client.get_time_window(domain).lower for domain in ("order_time", "ship_time")]
        with pytest.raises(UnknownDomain, match="no domain 'default'"):
            client.get_time_window()

    assert lowers == [10, None]


def test_group_window_covers_all_its_readers(served: Served, stream: str) -> None:
    served.note(stream, 20, {"0": 100, "1": 50})
    with (
        reader(served, stream, group="g", reader="a", refresh_ms=20) as one,
        reader(served, stream, group="g", reader="b", refresh_ms=20) as other,
    ):
        one.advance({0: 100})
        wait_until(lambda: other.get_time_window().lower == 10)
        other.advance({1: 50})
        wait_until(lambda: one.get_time_window().lower == 20)

        assert other.get_time_window() == TimeWindow(20, None, 2, None)


def test_a_readers_own_progress_counts_at_once(served: Served, stream: str) -> None:
    """The reader does not wait for the answer to its report."""
    with reader(served, stream, group="g", reader="a") as client:
        wait_until(lambda: client.get_time_window() != NO_WINDOW)
        client.advance({0: 100})

        assert client.get_time_window().lower == 10


def test_group_position_is_unknown_until_heard(served: Served, stream: str) -> None:
    network = Faults()
    network.gate.clear()
    client = ReaderClient(served.url, stream, group="g", reader="a", transport=network)
    client.advance({0: 100})
    window = client.get_time_window()
    network.gate.set()
    client.close()

    assert window == NO_WINDOW


def test_a_reader_that_goes_offline_puts_its_segments_back(served: Served, stream: str) -> None:
    """The next reader begins at the given position, so the window goes back."""
    with reader(served, stream, group="g", reader="a") as client:
        client.advance({0: 100})
        client.offline({0: 60})
        window = client.get_time_window()
    group = served.call("GET", f"/{stream}/reader-groups/g")

    assert (group["position"], group["readers"], window.lower) == ({"0": 60}, {}, None)


def test_close_reports_the_last_position(served: Served, stream: str) -> None:
    """The reader stays in its group."""
    with reader(served, stream, group="g", reader="a") as client:
        for offset in range(100):
            client.advance({0: offset})
    group = served.call("GET", f"/{stream}/reader-groups/g")

    assert group["readers"] == {"a": {"0": 99}}


def test_reports_outlast_a_controller_that_is_away() -> None:
    """Positions are reported when the controller is back."""
    with Served() as served:
        served.create("flights")
        with reader(served, "flights", group="g", reader="a", refresh_ms=20) as client:
            served.stop()
            client.advance({0: 40})
            with pytest.raises(Unreachable, match="reader 'a' of group 'g' may still be"):
                client.offline(timeout=0.1)
            client.advance({0: 50})
            served.start()
            wait_until(lambda: list_readers(served, "flights") not in (None, {"a": {}}))

            assert list_readers(served, "flights") == {"a": {"0": 50}}


def test_a_reader_without_a_group_cannot_go_offline(served: Served, stream: str) -> None:
    with (
        reader(served, stream) as client,
        pytest.raises(Rejected, match="does not belong to a group"),
    ):
        client.offline()


def test_closing_does_not_wait_for_a_long_poll(served: Served, stream: str) -> None:
    """The reader and its threads end long before the poll."""
    client = reader(served, stream, group="g", reader="a")
    time.sleep(0.05)
    began = time.monotonic()
    client.close()
    client.close()
    left = [
        t.name for t in threading.enumerate() if t.name.startswith(f"noted-time reader {stream}")
    ]

    assert (left, time.monotonic() - began < 20) == ([], True)


def test_invalid_names_are_refused_before_any_call(served: Served) -> None:
    """A reader needs a valid name, and a group."""
    with pytest.raises(InvalidName, match="group 'a/b'"):
        ReaderClient(served.url, "flights", group="a/b", reader="r")
    with pytest.raises(Rejected, match="a reader of a group needs both names"):
        ReaderClient(served.url, "flights", group="g")


# The client of asyncio


def make_async_reader(served: Served, stream: str, **options: Any) -> AsyncReaderClient:  # noqa: ANN401
    return AsyncReaderClient(served.url, stream, backoff=SOON, **options)


async def test_async_reader_waits_for_a_time(served: Served, stream: str) -> None:
    """The mark arrives by long poll; the time may be a date."""
    async with make_async_reader(served, stream) as reader:
        waiting = asyncio.create_task(
            reader.wait_for(datetime.fromtimestamp(0.02, UTC), PATIENCE_S)
        )
        await reader.catch_up()
        served.note(stream, 20, {"0": 200})

        assert (await waiting).seq == 2


async def test_marks_are_an_async_iterator(served: Served, stream: str) -> None:
    """It yields known marks, then new ones, until the client is closed."""
    seen: list[int] = []
    reader = make_async_reader(served, stream)

    async def follow() -> None:
        async for mark in reader.marks(wait=None):
            seen.append(mark.lower)
            if mark.lower == 20:
                await reader.close()

    async with reader:
        following = asyncio.create_task(follow())
        await reader.catch_up()
        served.note(stream, 20, {"0": 200})
        await following
        known = [mark.lower async for mark in reader.marks(after=1)]

    assert (seen, known) == ([10, 20], [20])


async def test_a_fault_of_the_client_is_raised_by_every_later_call(
    served: Served, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its cause."""
    fault = ZeroDivisionError("a defect")

    def take_marks(*_: object) -> None:
        raise fault

    monkeypatch.setattr(Follower, "take_marks", take_marks)

    async with make_async_reader(served, stream) as reader:
        with pytest.raises(ClientFailed) as raised:
            await reader.wait_for(10, PATIENCE_S)
        with pytest.raises(ClientFailed):
            reader.get_time_window()

    assert raised.value.__cause__ is fault


async def test_closing_leaves_no_task_behind(served: Served, stream: str) -> None:
    """It does not wait for the long poll; a second call does nothing."""
    before = asyncio.all_tasks()
    async with make_async_reader(served, stream, group="g", reader="r") as reader:
        await reader.catch_up()
        during = asyncio.all_tasks() - before
    await reader.close()

    names = {task.get_name() for task in during}
    assert names >= {f"noted-time reader {stream} {each}" for each in ("default", "group")}
    assert {task for task in during if not task.done()} == set()
    with pytest.raises(Rejected, match="is closed"):
        await reader.wait_for(99, PATIENCE_S)


async def test_a_reader_that_is_not_open_explains_how_to_open_it(
    served: Served, stream: str
) -> None:
    """It would wait forever."""
    with pytest.raises(Rejected, match="use async with AsyncReaderClient"):
        await make_async_reader(served, stream).wait_for(10, PATIENCE_S)


def test_only_the_chosen_domains_are_followed(served: Served) -> None:
    """A reader of one domain need not pass it again."""
    served.create("parcels", domains=["order_time", "ship_time"])
    served.note("parcels", 7, {"0": 120}, domain="ship_time")
    with reader(served, "parcels", domains=["ship_time"]) as client:
        client.advance({0: 120})

        assert client.get_time_window().lower == 7
