import asyncio
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.service.controller import Controller
from controller.service.polls import AT_A_TIME, Awaited, LongPollNotifier, NewMarks
from noted_time import Mark, Note, StreamCut
from noted_time.reading import Tiling
from noted_time.values import UnknownStream
from tests.support.controllers import WatchedMemory, deliver, serving, until


async def polling(controller: Controller, after: int = 0) -> asyncio.Task[NewMarks]:
    """Return a poll of the stream `s` that has begun to wait."""
    before = len(controller._notifier)
    poll = asyncio.create_task(controller.polls.marks("s", None, after=after, wait_ms=30_000))
    await until(lambda: len(controller._notifier) > before)
    return poll


async def test_a_poll_is_answered_by_the_next_mark(memory: WatchedMemory) -> None:
    """The reader has the mark as soon as it is durable."""
    async with serving(memory) as controller:
        poll = await polling(controller)
        await deliver(controller, Note("a", 5))

        assert [mark.lower for mark in (await poll).marks] == [5]


async def test_a_poll_that_is_ahead_of_the_stream_is_answered_at_once(
    memory: WatchedMemory,
) -> None:
    """The marks that its reader knows were lost, so waiting would hide that from it."""
    async with serving(memory) as controller:
        await deliver(controller, Note("a", 5))
        async with asyncio.timeout(20):
            found = await controller.polls.marks("s", None, after=2, wait_ms=30_000)

        assert ([*found.marks], found.history.last_seq) == ([], 1)


async def test_completeness_is_reported_with_the_mark_that_reaches_it(
    memory: WatchedMemory,
) -> None:
    """An earlier mark does not end the wait."""
    async with serving(memory) as controller:
        waits = controller.polls.cut("s", None, 6, wait_ms=30_000)
        poll = asyncio.create_task(waits)
        await until(lambda: len(controller._notifier) == 1)
        await deliver(controller, Note("a", 5))
        await until(lambda: len(controller._notifier) == 1)
        await deliver(controller, Note("a", 7))

        assert (await poll).lower == 7


async def test_a_poll_times_out_empty(memory: WatchedMemory) -> None:
    """After the requested wait the answer has no marks, and is not an error."""
    async with serving(memory) as controller:
        begun = perf_counter()
        found = await controller.polls.marks("s", None, after=0, wait_ms=50)

        assert (list(found.marks), perf_counter() - begun > 0.045) == ([], True)


async def test_a_poll_that_need_not_wait_does_not(memory: WatchedMemory) -> None:
    """Marks that are there already are given at once."""
    async with serving(memory) as controller:
        await deliver(controller, Note("a", 5), Note("a", 6), Note("a", 7))
        found = await controller.polls.marks("s", None, after=1, wait_ms=30_000)

        assert [mark.seq for mark in found.marks] == [2, 3]


async def test_a_poll_ends_when_its_stream_is_removed(memory: WatchedMemory) -> None:
    """The reader learns that there will be no more marks."""
    async with serving(memory) as controller:
        poll = await polling(controller)
        await controller.drop_stream("s")

        with pytest.raises(UnknownStream):
            await poll


async def test_a_poll_ends_at_the_shutdown(memory: WatchedMemory) -> None:
    """A stopping controller answers its readers at once and lets none wait for later."""
    async with serving(memory) as controller:
        poll = await polling(controller)
        controller.prepare_to_stop()
        found = await poll
        late = await controller.polls.marks("s", None, after=0, wait_ms=30_000)

        assert [*found.marks, *late.marks] == []


async def test_a_poll_that_was_given_up_is_forgotten(memory: WatchedMemory) -> None:
    """Readers that disconnect leave nothing behind."""
    async with serving(memory) as controller:
        poll = await polling(controller)
        poll.cancel()
        await asyncio.wait([poll])

        assert (len(controller._notifier), dict(controller._notifier._waiting)) == (0, {})


S, LATER = Awaited("s", "default", "seq", 1), 9


async def test_no_ring_is_lost() -> None:
    """Ten thousand rings at random moments: a reader that looks, then waits, misses none."""
    notifier, rung, seen = LongPollNotifier(), 0, 0

    async def read() -> None:
        nonlocal seen
        while seen < 10_000:
            if seen < rung:
                seen = rung
            else:
                assert await notifier.wait(S, 5.0)

    reader = asyncio.create_task(read())
    for turn in range(10_000):
        rung += 1
        notifier.notify("s")
        if turn % 3:
            await asyncio.sleep(0)
    await reader

    assert seen == 10_000


async def test_a_notifier_wakes_all_waiters() -> None:
    """Every poll of the stream is woken, and those of others sleep on."""
    notifier = LongPollNotifier()
    awaited = (S, S, S._replace(least=LATER), S._replace(stream_id="t"))
    waits = [asyncio.create_task(notifier.wait(each, 5.0)) for each in awaited]
    await asyncio.sleep(0)
    notifier.notify("s")
    await asyncio.sleep(0.01)
    woken = [wait.done() for wait in waits]
    notifier.shutdown()

    assert (woken, await waits[3]) == ([True, True, True, False], False)


fields = st.sampled_from(["seq", "lower"])
waits_for = st.builds(Awaited, st.just("s"), st.sampled_from("ab"), fields, st.integers(0, 6))


@given(waits=st.lists(waits_for, max_size=40), seq=st.integers(0, 6), lower=st.integers(0, 6))
def test_a_mark_wakes_the_polls_that_it_answers_and_no_other(
    waits: list[Awaited], seq: int, lower: int
) -> None:
    """By the field that each waits for, in that domain."""

    async def wake() -> list[bool]:
        notifier = LongPollNotifier()
        tasks = [asyncio.create_task(notifier.wait(each, 5.0)) for each in waits]
        await asyncio.sleep(0)
        notifier.appended("s", "a", Mark(seq, lower, lower, StreamCut({})))
        for _ in range(len(waits) + 3):
            await asyncio.sleep(0)
        woken = [each.done() for each in tasks]
        notifier.shutdown()
        await asyncio.gather(*tasks)
        assert notifier._waiting == {}
        return woken

    value = {"seq": seq, "lower": lower}
    answered = [each.domain == "a" and each.least <= value[each.field] for each in waits]
    assert asyncio.run(wake()) == answered


async def test_polls_are_woken_a_few_at_a_time() -> None:
    """So a mark that many wait for does not keep notes waiting: other tasks have turns between."""
    notifier, turns = LongPollNotifier(), 0
    done: list[int] = []

    async def wait() -> None:
        await notifier.wait(S, 5.0)
        done.append(turns)

    waits = [asyncio.create_task(wait()) for _ in range(20 * AT_A_TIME)]
    await asyncio.sleep(0)
    notifier.appended("s", "default", Mark(1, 5, 5, StreamCut({})))
    while not all(each.done() for each in waits):
        turns += 1
        await asyncio.sleep(0)
    most = max(done.count(turn) for turn in done)

    assert (len(done), most) == (20 * AT_A_TIME, AT_A_TIME)


async def test_a_poll_for_windows_waits_for_the_end_of_the_first(memory: WatchedMemory) -> None:
    """A mark before it does not even wake the poll."""
    async with serving(memory) as controller:
        waits = controller.polls.windows("s", None, Tiling(10), after=0, limit=9, wait_ms=30_000)
        poll = asyncio.create_task(waits)
        await until(lambda: len(controller._notifier) == 1)
        before = controller._notifier._waiting[controller.stream("s").id].copy()
        await deliver(controller, Note("a", 9))
        asleep = controller._notifier._waiting[controller.stream("s").id] == before
        await deliver(controller, Note("a", 10))
        found = [each.end for each in (await poll).windows]

        assert (asleep, found) == (True, [10])
