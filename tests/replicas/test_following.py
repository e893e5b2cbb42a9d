from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from controller.service import following as module
from controller.service.following import FORGET_S, FRESH_S, TRIM_S, Following
from controller.store.port import Batch, StoreUnavailable
from noted_time import ScaleEvent
from noted_time.errors import UnknownStream
from tests.replicas.conftest import append, make
from tests.support.controllers import until
from tests.support.stored import mark

if TYPE_CHECKING:
    from controller.service.bell import Bell
    from tests.replicas.conftest import Hours, Written

pytestmark = pytest.mark.anyio

FOR_EVER_S = 60.0


async def seqs(following: Following, after: int = 0) -> list[int]:
    """Return the seqs of the marks of `s` that are shown now."""
    stream = await following.stream("s")
    return [each.seq for each in stream.history(None).after(after, 10_000)]


async def poll(following: Following, bell: Bell, after: int) -> list[int]:
    """Wait for marks of `s` after a seq, as a long poll does; returns their seqs."""
    while True:
        stream = await following.stream("s")
        found = stream.history(None).after(after, 10_000)
        if found or not await bell.wait(stream.id, FOR_EVER_S):
            return [each.seq for each in found]


async def polling(following: Following, bell: Bell, after: int = 3) -> asyncio.Task[list[int]]:
    """Return a poll that has begun to wait."""
    before = len(bell)
    begun = asyncio.create_task(poll(following, bell, after))
    await until(lambda: len(bell) > before)
    return begun


async def stopped(following: Following, written: Written) -> asyncio.Task[list[int]]:
    """Return the reader of a reading that has found the marks there are, and stands still."""
    before = written.readings
    written.open.clear()
    reader = asyncio.create_task(seqs(following))
    await until(lambda: written.readings > before)
    return reader


# What is fresh


async def test_a_stream_that_is_fresh_costs_no_reading(
    following: Following, written: Written, hours: Hours
) -> None:
    """The first who asks reads it whole; within a second nobody reads again."""
    found = [await seqs(following)]
    hours.now += FRESH_S
    found.append(await seqs(following))

    assert (found, written.readings) == ([[1, 2, 3]] * 2, 1)


async def test_a_stream_that_is_not_fresh_is_read_before_the_answer(
    following: Following, written: Written, hours: Hours
) -> None:
    """So a notice that never came costs one poll at most."""
    await seqs(following)
    append(written, 4, 5)
    hours.now += FRESH_S + 0.001

    assert await seqs(following) == [1, 2, 3, 4, 5]


async def test_what_was_noticed_is_read_before_the_answer(
    following: Following, written: Written
) -> None:
    """However fresh the stream was."""
    await seqs(following)
    append(written, 4)
    following.noticed(["id-1"])

    assert await seqs(following) == [1, 2, 3, 4]


async def test_all_who_ask_at_once_share_a_reading(following: Following, written: Written) -> None:
    """A hundred readers cost the database as much as one."""
    written.open.clear()
    readers = [asyncio.create_task(seqs(following)) for _ in range(100)]
    await until(lambda: written.readings > 0)
    written.open.set()

    assert (await asyncio.gather(*readers), written.readings) == ([[1, 2, 3]] * 100, 1)


async def test_who_gives_up_leaves_the_reading_to_the_others(
    following: Following, written: Written
) -> None:
    """A reader that hangs up takes nothing from those who ask for the same."""
    first = await stopped(following, written)
    second = asyncio.create_task(seqs(following))
    first.cancel()
    await asyncio.wait([first])
    written.open.set()

    assert (await second, written.readings) == ([1, 2, 3], 1)


async def test_a_reading_does_not_hold_the_loop_up(following: Following, written: Written) -> None:
    """What others do in the loop goes on while the database is slow."""
    reader = await stopped(following, written)
    await asyncio.sleep(0.01)
    still_reading = not reader.done()
    written.open.set()

    assert (still_reading, await reader) == (True, [1, 2, 3])


async def test_a_stream_that_changes_all_the_time_is_answered(
    following: Following,
) -> None:
    """Who asks waits for the notices before, not for those that come meanwhile."""
    await seqs(following)
    following.noticed(["id-1"])
    reader = asyncio.create_task(seqs(following))
    async with asyncio.timeout(20):
        while not reader.done():
            following.noticed(["id-1"])
            await asyncio.sleep(0)

    assert await reader == [1, 2, 3]


async def test_what_is_in_doubt_is_read_before_the_answer(
    following: Following, written: Written
) -> None:
    """Who changed a stream sees the change, before any notice of it comes."""
    await seqs(following)
    append(written, 4)
    following.doubt("s")

    assert await seqs(following) == [1, 2, 3, 4]


# What wakes a poll


async def test_a_notice_wakes_a_poll_with_the_new_marks(
    following: Following, written: Written, bell: Bell
) -> None:
    """No time has to pass."""
    waiting = await polling(following, bell)
    append(written, 4)
    following.noticed(["id-1"])

    assert await waiting == [4]


async def test_a_mark_that_is_noticed_during_a_look_is_not_lost(
    following: Following, written: Written, bell: Bell
) -> None:
    """The look has read the marks before it was there, so another one follows."""
    waiting = await polling(following, bell)
    written.open.clear()
    following.noticed(["id-1"])
    await until(lambda: written.readings == 2)
    append(written, 4)
    following.noticed(["id-1"])
    written.open.set()

    assert await waiting == [4]


async def test_a_mark_that_is_noticed_during_the_first_look_is_not_lost(
    following: Following, written: Written, bell: Bell
) -> None:
    """Though nobody knew by then which stream the notice was about."""
    written.open.clear()
    waiting = asyncio.create_task(poll(following, bell, after=3))
    await until(lambda: written.readings == 1)
    append(written, 4)
    following.noticed(["id-1"])
    written.open.set()

    assert await waiting == [4]


async def test_no_mark_is_lost_to_a_poll(
    following: Following, written: Written, bell: Bell
) -> None:
    """A thousand marks at random moments, with the clock standing: each one comes by its notice."""
    chance, last, seen = random.Random(7), 1003, [3]

    async def read() -> None:
        while seen[-1] < last:
            seen.extend(await poll(following, bell, seen[-1]))

    reader = asyncio.create_task(read())
    for seq in range(4, last + 1):
        append(written, seq)
        following.noticed(["id-1"])
        await asyncio.sleep(chance.choice([0, 0, 0.0001, 0.001]))
    async with asyncio.timeout(20):
        await reader

    assert seen == list(range(3, last + 1))


async def test_a_notice_of_other_streams_costs_nothing(
    following: Following, written: Written, bell: Bell
) -> None:
    """Neither a reading nor anybody's sleep."""
    waiting = await polling(following, bell)
    following.noticed(["id-2", "id-3"])
    await asyncio.sleep(0.02)

    assert (waiting.done(), written.readings) == (False, 1)
    waiting.cancel()


async def test_a_notice_without_new_marks_wakes_nobody(
    following: Following, written: Written, bell: Bell
) -> None:
    """It is read what there is, and the poll sleeps on."""
    waiting = await polling(following, bell)
    following.noticed(["id-1"])
    await until(lambda: written.readings == 2)
    await asyncio.sleep(0.02)

    assert (waiting.done(), len(bell)) == (False, 1)
    waiting.cancel()


async def test_a_thousand_polls_are_woken_by_one_reading(
    following: Following, written: Written, bell: Bell
) -> None:
    """However many wait for a stream, the database is asked once."""
    waiting = [asyncio.create_task(poll(following, bell, after=3)) for _ in range(1000)]
    await until(lambda: len(bell) == 1000)
    append(written, 4)
    following.noticed(["id-1"])

    assert (await asyncio.gather(*waiting), written.readings) == ([[4]] * 1000, 2)


async def test_after_lost_notices_whoever_waits_looks(
    following: Following, written: Written, bell: Bell
) -> None:
    """A mark whose notice was lost comes as soon as notices are heard again."""
    waiting = await polling(following, bell)
    append(written, 4)
    following.lost()

    assert await waiting == [4]


async def test_after_lost_notices_nothing_is_read_that_nobody_waits_for(
    following: Following, written: Written
) -> None:
    """Until it is asked for: then it counts as changed."""
    await seqs(following)
    append(written, 4)
    following.lost()
    await asyncio.sleep(0.02)
    before = written.readings

    assert (before, await seqs(following)) == (1, [1, 2, 3, 4])


# What becomes of a stream


async def test_who_asks_for_a_stream_that_is_not_there_is_told_so(
    following: Following, written: Written
) -> None:
    """And as soon as it is made it is found."""
    with pytest.raises(UnknownStream):
        await following.stream("t")
    followed = len(following)
    make(written, "t", "id-2")

    assert (followed, (await following.stream("t")).id) == (0, "id-2")


async def test_a_poll_ends_when_its_stream_is_removed(
    following: Following, written: Written, bell: Bell
) -> None:
    """It learns that there will be no more marks."""
    waiting = await polling(following, bell)
    written.commit(Batch(dropped=["id-1"]))
    following.noticed(["id-1"])

    with pytest.raises(UnknownStream):
        await waiting
    assert len(following) == 0


async def test_a_stream_made_again_under_its_name_is_read_anew(
    following: Following, written: Written, bell: Bell
) -> None:
    """A poll that waited for the old one goes on with the new one's marks."""
    waiting = await polling(following, bell)
    written.commit(Batch(dropped=["id-1"]))
    make(written, stream_id="id-2")
    append(written, *range(1, 6), stream_id="id-2")
    following.noticed(["id-1"])
    found = await waiting
    append(written, 6, stream_id="id-2")
    following.noticed(["id-2"])

    assert (found, await seqs(following)) == ([4, 5], [1, 2, 3, 4, 5, 6])


async def test_a_mark_of_a_stream_made_again_is_not_lost(
    following: Following, written: Written, bell: Bell
) -> None:
    """Its notice came while the look at the new stream was under way, which nobody knew by id."""
    waiting = await polling(following, bell)
    written.commit(Batch(dropped=["id-1"]))
    make(written, stream_id="id-2")
    append(written, 1, 2, 3, stream_id="id-2")
    written.open.clear()
    following.noticed(["id-1"])
    await until(lambda: written.readings == 2)
    append(written, 4, stream_id="id-2")
    following.noticed(["id-2"])
    written.open.set()

    assert await waiting == [4]


async def test_a_stream_removed_while_it_is_read_is_gone(
    following: Following, written: Written
) -> None:
    """It does not seem to have lost its marks."""
    reader = await stopped(following, written)
    written.commit(Batch(dropped=["id-1"]))
    written.open.set()

    with pytest.raises(UnknownStream):
        await reader


async def test_a_scale_event_counts_for_positions_at_once(
    following: Following, written: Written
) -> None:
    """A successor that is named stands for its predecessor, sealed at 20: mark 2 is reached."""
    before = (await following.stream("s")).window({1: 0}, None)
    written.commit(Batch(scales=[("id-1", 0, ScaleEvent({0: 20}, {1: (0,)}))]))
    following.noticed(["id-1"])
    after = (await following.stream("s")).window({1: 0}, None)

    assert (before.lower_seq, after.lower_seq) == (None, 2)


async def test_changed_settings_are_shown(following: Following, written: Written) -> None:
    """A key that was added is asked for like the others."""
    await following.stream("s")
    make(written, keys=("default", "ship_time"))
    following.noticed(["id-1"])
    stream = await following.stream("s")

    assert (stream.history("ship_time").last, stream.history(None).last_seq) == (None, 3)


async def test_where_marks_are_gone_in_between_the_stream_is_read_anew(
    following: Following, written: Written, hours: Hours
) -> None:
    """A window needs a gapless run of marks: older positions have no lower then."""
    await following.stream("s")
    append(written, 4, 5, 6)
    written.commit(Batch(forgotten=[("id-1", "default", 4)]))
    hours.now += FRESH_S + 0.001
    stream = await following.stream("s")

    assert (await seqs(following), stream.window({0: 40}, None).lower) == ([5, 6], None)


async def test_marks_that_went_from_the_stream_go_here_too(
    following: Following, written: Written, hours: Hours
) -> None:
    """What was truncated, or kept long enough, is not kept for ever by who follows."""
    await following.stream("s")
    written.commit(Batch(forgotten=[("id-1", "default", 2)]))
    hours.now += TRIM_S

    assert await seqs(following) == [3]


async def test_a_chain_that_was_replaced_is_read_anew(
    following: Following, written: Written, hours: Hours
) -> None:
    """A database restored from a copy has other marks under the same id."""
    await following.stream("s")
    del written._marks["id-1", "default"]
    append(written, 1, 2)
    hours.now += FRESH_S + 0.001

    assert await seqs(following) == [1, 2]


async def test_many_marks_are_shown_in_their_order(
    following: Following, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop gets its turn in between; who asked waits for all of them."""
    monkeypatch.setattr(module, "AT_ONCE", 10)
    await seqs(following)
    append(written, *range(4, 100))
    following.noticed(["id-1"])

    assert await seqs(following) == list(range(1, 100))


# What fails


async def test_while_the_database_is_away_all_who_ask_are_told_so(
    following: Following, written: Written
) -> None:
    """And those who ask later are answered again."""
    written.failures = [StoreUnavailable("away")]
    failed = await asyncio.gather(*(seqs(following) for _ in range(10)), return_exceptions=True)
    answered = await seqs(following)

    assert ({type(each) for each in failed}, answered) == ({StoreUnavailable}, [1, 2, 3])


async def test_a_fresh_stream_is_shown_while_the_database_is_away(
    following: Following, written: Written, hours: Hours
) -> None:
    """No longer than it is fresh."""
    await seqs(following)
    written.failures = [StoreUnavailable("away")]
    shown = await seqs(following)
    hours.now += FRESH_S + 0.001

    with pytest.raises(StoreUnavailable):
        await seqs(following)
    assert shown == [1, 2, 3]


async def test_a_poll_looks_itself_when_a_noticed_mark_could_not_be_read(
    following: Following, written: Written, bell: Bell
) -> None:
    """It does not sleep over a mark that is there."""
    waiting = await polling(following, bell)
    append(written, 4)
    written.failures = [StoreUnavailable("away")]
    following.noticed(["id-1"])

    assert await waiting == [4]


async def test_a_poll_is_told_when_it_cannot_look_either(
    following: Following, written: Written, bell: Bell
) -> None:
    """Its caller tries again."""
    waiting = await polling(following, bell)
    written.failures = [StoreUnavailable("away"), StoreUnavailable("still away")]
    following.noticed(["id-1"])

    with pytest.raises(StoreUnavailable, match="still away"):
        await waiting


async def test_who_asks_does_not_wait_for_a_slow_database_for_ever(
    following: Following, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told so, and when the reading ends after all the stream is there."""
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    reader = await stopped(following, written)
    with pytest.raises(StoreUnavailable, match="did not answer within"):
        await reader
    written.open.set()
    monkeypatch.undo()

    assert (await seqs(following), written.readings) == ([1, 2, 3], 1)


async def test_the_failure_of_an_earlier_look_is_not_an_answer(
    following: Following, written: Written, hours: Hours
) -> None:
    """Who asked after it began gets a look of its own: the stream may have been made since."""
    early = await stopped(following, written)
    hours.now += 0.1
    late = asyncio.create_task(seqs(following))
    await asyncio.sleep(0)
    written.failures = [StoreUnavailable("away")]
    written.open.set()
    with pytest.raises(StoreUnavailable):
        await early

    assert await late == [1, 2, 3]


# What is followed no more


async def test_a_stream_that_nobody_asks_for_is_forgotten(
    following: Following, written: Written, hours: Hours
) -> None:
    """Those that are asked for stay."""
    make(written, "t", "id-2")
    await following.stream("s")
    hours.now += FORGET_S / 2
    await following.stream("t")
    hours.now += FORGET_S / 2 + 1
    following._sweep()

    assert (list(following._followed), list(following._by_id)) == (["t"], ["id-2"])


async def test_of_too_many_streams_the_one_goes_that_was_asked_for_the_longest_ago(
    following: Following, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is followed is bounded; asked for again, the stream is read anew."""
    monkeypatch.setattr(module, "MOST", 2)
    for number, name in enumerate("tu", 2):
        make(written, name, f"id-{number}")
    for name in "stsu":
        await following.stream(name)

    assert list(following._followed) == ["s", "u"]


async def test_who_waits_for_a_stream_that_is_dropped_looks_again(
    following: Following, written: Written, bell: Bell
) -> None:
    """A controller that owns it by now shows marks of its own."""
    waiting = await polling(following, bell)
    append(written, 4)
    following.drop("s")

    assert await waiting == [4]


async def test_a_stream_dropped_while_it_is_read_is_not_followed(
    following: Following, written: Written
) -> None:
    """A reading that is under way brings nothing back; who waits for it reads again."""
    reader = await stopped(following, written)
    following.clear()
    followed = len(following)
    written.open.set()

    assert (followed, await reader, written.readings) == (0, [1, 2, 3], 2)


async def test_after_the_end_every_call_is_refused(following: Following, bell: Bell) -> None:
    """Who waits is woken, and told so."""
    waiting = await polling(following, bell)
    await following.close()

    with pytest.raises(StoreUnavailable):
        await waiting
    with pytest.raises(StoreUnavailable):
        await following.names()


# What lists show


async def test_a_glance_reads_the_last_mark_only_and_follows_nothing(
    following: Following,
) -> None:
    """A list of many streams is told without their histories."""
    glanced = await following.glance("s")
    assert glanced is not None

    assert (glanced.history(None).after(0, 10), len(following)) == ([mark(3).mark], 0)


async def test_a_glance_at_a_stream_that_is_not_there_shows_none(following: Following) -> None:
    """It may have been removed since the names were read."""
    assert await following.glance("t") is None


async def test_a_glance_at_a_fresh_stream_costs_no_reading(
    following: Following, written: Written
) -> None:
    """It is shown as it is followed."""
    stream = await following.stream("s")

    assert (await following.glance("s") is stream, written.readings) == (True, 1)


async def test_the_names_are_those_of_the_database(following: Following, written: Written) -> None:
    """In order, whether they are followed or not."""
    make(written, "a", "id-2")

    assert await following.names() == ["a", "s"]
