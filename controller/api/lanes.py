"""How requests with notes get to one other controller: in frames, a few under way at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import structlog

from controller.api.frames import MOST_ITEMS, PATH, Item, answers_of, frame_of
from controller.api.problems import MISDIRECTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.api.access import Call
    from controller.api.carrier import Carrier
    from controller.api.notes import Answer

log = structlog.get_logger()

FRAMES_AT_ONCE = 4
FRAME_BYTES = 1024 * 1024
"""No request is added to a frame that has so many, so none has much more than twice as many."""


@dataclass(slots=True)
class Pending:
    """A request with notes that another controller is to answer, until `deadline` (loop time)."""

    call: Call
    authorization: bytes
    body: bytes
    answer: asyncio.Future[Answer]
    deadline: float

    def settle(self, answer: Answer) -> None:
        """Answer the caller, if it still waits."""
        if not self.answer.done():
            self.answer.set_result(answer)


class Lane:
    """The way to one controller.

    Whatever waits goes in one frame, and meanwhile the next gathers. `back` is given what was not
    answered there, which may or may not have been taken.
    """

    def __init__(self, url: str, carrier: Carrier, back: Callable[[list[Pending]], None]) -> None:
        """Begin with nothing under way."""
        self._url = f"{url}{PATH}"
        self._carrier = carrier
        self._back = back
        self._waiting: list[Pending] = []
        self._fails = False
        self.tasks: set[asyncio.Task[None]] = set()

    def put(self, pending: Pending) -> None:
        """Send the request with the next frame."""
        self._waiting.append(pending)
        if len(self.tasks) < FRAMES_AT_ONCE:
            task = asyncio.create_task(self._run(), name="lane")
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def close(self) -> None:
        """Give up what is under way."""
        for task in self.tasks:
            task.cancel()
        self._carrier.close()

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # let who is here already join the frame, or hang up
            frame = self._take()
            if frame:
                await self._carry(frame)

    def _take(self) -> list[Pending]:
        """Return the next frame, without the requests of callers that went away."""
        self._waiting = [each for each in self._waiting if not each.answer.cancelled()]
        size = end = 0
        while end < min(len(self._waiting), MOST_ITEMS) and size < FRAME_BYTES:
            size += len(self._waiting[end].body)
            end += 1
        frame, self._waiting = self._waiting[:end], self._waiting[end:]
        return frame

    async def _carry(self, frame: list[Pending]) -> None:
        try:
            answers = await self._ask(frame)
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            self._complain(error)
            self._back(frame)
            return
        self._fails = False
        for pending, answer in zip(frame, answers, strict=True):
            if answer[0] == MISDIRECTED:
                self._back([pending])
            else:
                pending.settle(answer)

    def _complain(self, error: Exception) -> None:
        """Say so once, until it is mended."""
        if not self._fails:
            log.warning("relay_failed", url=self._url, error=repr(error))
        self._fails = True

    async def _ask(self, frame: list[Pending]) -> list[Answer]:
        items = [Item(each.call.stream, each.authorization, each.body) for each in frame]
        answers = answers_of(await self._carrier.carry(frame_of(items)))
        if len(answers) != len(frame):
            raise msgspec.DecodeError(f"{len(answers)} answers to {len(frame)} requests")
        return answers
