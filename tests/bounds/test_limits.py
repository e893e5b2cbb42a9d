"""A controller's load is bounded, and over a bound it reports that and loses nothing."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from controller.service.controller import Controller
from controller.service.limits import Limits
from noted_time import Accepted, Note, Refused, Unreachable
from noted_time.values import SEGMENTS_PER_POSITION
from tests.support.controllers import WatchedMemory, deliver, until
from tests.support.http import Caller, answering, problem
from tests.support.served import Served
from tests.support.waiting import eventually
from writer_client import WriterClient

JOINED = Accepted(None, timeout_ms=60_000)
NOTES = "/v1/streams/s/notes"
MARKS = "/v1/streams/s/marks"
MOST = SEGMENTS_PER_POSITION


class Crowded(Served):
    """A controller that takes on one request besides those it commits."""

    def __init__(self) -> None:
        self._watched = WatchedMemory()
        super().__init__(self._watched, Limits(waiting_requests=1))

    @contextmanager
    def full(self, stream: str) -> Iterator[None]:
        """Delay a commit, and keep one request waiting for the next."""
        watch = self._watched.watch
        watch.open.clear()
        attempts = watch.attempts
        writers = [self._noting(stream, "committing")]
        try:
            eventually(lambda: watch.attempts, attempts + 1)
            writers.append(self._noting(stream, "waiting"))
            eventually(lambda: self._controller._committer.depth, 1)
            yield
        finally:
            watch.open.set()
            for writer in writers:
                writer.join(60)

    def _noting(self, stream: str, writer: str) -> threading.Thread:
        notes = {"notes": [{"writer": writer}, {"writer": writer, "state": "idle"}]}
        thread = threading.Thread(target=self.call, args=("POST", f"/{stream}/notes", notes))
        thread.start()
        return thread


@asynccontextmanager
async def limited(limits: Limits, store: WatchedMemory | None = None) -> AsyncIterator[Caller]:
    """Serve an app within these limits, in which there is a stream `s`."""
    async with answering(Controller(store or WatchedMemory(), limits=limits)) as caller:
        await caller.controller.put_stream("s", {"mark_interval_ms": 0})
        yield caller


async def test_no_more_streams_than_may_be() -> None:
    """One more is refused with the limit; those that are there can be changed."""
    async with limited(Limits(streams=2)) as call:
        made = await call.put("/v1/streams/t")
        refused = await call.put("/v1/streams/u")
        changed = await call.put("/v1/streams/t", {"writer_timeout_ms": 7})

        assert (made.status_code, problem(refused), refused.json()["limit"]) == (
            201,
            (
                422,
                "limit_reached",
                "the limit of 2 streams is reached: remove one, or raise --max-streams",
            ),
            2,
        )
        assert changed.status_code == 200


async def test_a_stream_that_is_removed_makes_room_for_another() -> None:
    """The limit is on how many there are."""
    async with limited(Limits(streams=1)) as call:
        await call.client.delete("/v1/streams/s")
        made = await call.put("/v1/streams/t")

        assert made.status_code == 201


async def test_a_writer_beyond_the_limit_is_refused_alone() -> None:
    """The notes of members count, in the same request."""
    async with limited(Limits(writers=2)) as call:
        answers = await deliver(
            call.controller, Note("a"), Note("b", 4), Note("c", 5), Note("a", 6), Note("b", 7)
        )

        assert answers == [
            JOINED,
            Accepted(None),
            Refused("too_many_writers", 2),
            Accepted(4),
            Accepted(6),
        ]


async def test_a_position_of_too_many_segments_is_refused(call: Caller) -> None:
    """The request does not fit, and the place is named."""
    wide = {str(segment): 1 for segment in range(MOST + 1)}
    refused = await call.post(NOTES, {"notes": [{"writer": "a", "position": wide}]})

    (fault,) = refused.json()["errors"]
    assert (problem(refused)[:2], fault["where"]) == (
        (422, "invalid_request"),
        "body.notes.0.position",
    )
    assert str(MOST) in fault["what"]


@pytest.mark.parametrize("limits", [Limits(waiting_requests=3), Limits(waiting_notes=4)])
async def test_over_the_intake_writers_are_asked_to_retry(limits: Limits) -> None:
    """While a commit takes long, excess requests are refused at once; accepted ones are kept."""
    store = WatchedMemory()
    async with limited(limits, store) as call:
        store.watch.open.clear()
        notes = [{"writer": "a"}, {"writer": "b"}]
        tasks = [asyncio.create_task(call.post(NOTES, {"notes": notes}))]
        await until(lambda: store.watch.attempts == 2)
        tasks += [asyncio.create_task(call.post(NOTES, {"notes": notes})) for _ in range(4)]
        await until(lambda: any(task.done() for task in tasks))
        store.watch.open.set()
        answers = [await task for task in tasks]

    refused = [answer for answer in answers if answer.status_code == 503]
    assert len(refused) == (1 if limits.waiting_requests == 3 else 2)
    assert {(problem(each)[1], each.headers["retry-after"]) for each in refused} == {
        ("overloaded", "1")
    }
    assert [a.status_code for a in answers if a not in refused] == [200] * (5 - len(refused))


async def test_one_request_is_always_taken_on() -> None:
    """However small the bound: else a large request would never get through."""
    async with limited(Limits(waiting_notes=1)) as call:
        answers = await deliver(call.controller, Note("a"), Note("b"))

        assert answers == [JOINED, JOINED]


async def test_no_more_long_polls_than_may_wait() -> None:
    """One more is asked to come back; a caller that need not wait is answered."""
    async with limited(Limits(long_polls=1)) as call:
        waits = asyncio.create_task(call.get(MARKS, wait_ms=20_000))
        await until(lambda: len(call.controller._notifier) == 1)
        refused = await call.get(MARKS, wait_ms=20_000)
        at_once = await call.get(MARKS)
        await call.note({"writer": "a", "time": 5})
        woken = await waits

        assert (problem(refused), refused.headers["retry-after"]) == (
            (503, "overloaded", "1 long polls wait already; try again"),
            "1",
        )
        assert (at_once.json()["marks"], len(woken.json()["marks"])) == ([], 1)


async def test_a_long_poll_that_ended_makes_room_for_another() -> None:
    """Whether it was woken or its time was over."""
    async with limited(Limits(long_polls=1)) as call:
        polls = [await call.get(MARKS, wait_ms=10) for _ in range(3)]

        assert [each.status_code for each in polls] == [200] * 3


def test_a_writer_backs_off_from_a_full_controller_and_loses_nothing() -> None:
    """It is asked to come back while the intake is full; then all it noted is durable."""
    with Crowded() as controller:
        controller.create("s")
        with WriterClient(controller.url, "s", "UA") as client:
            with controller.full("s"):
                for noted in range(1, 50):
                    client.note_time(noted, {0: 10 * noted}, max_time=noted)
                with pytest.raises(Unreachable, match="503 Overloaded"):
                    client.flush(0.5)
            client.flush(20)
            known = controller.writers("s")["UA"]

    assert known == {"state": "live", "times": {"default": 49}, "position": {"0": 490}}
