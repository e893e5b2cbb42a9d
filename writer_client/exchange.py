"""How a batch of notes is put to a controller, without the network: questions out, replies in.

`Exchange.post` is a routine of `noted_time.client`: it yields each question and is sent the reply,
or is thrown the `Unreachable` that came instead; what it returns is the answer. So the client of
threads and that of asyncio do the same, and differ only in how they wait.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from noted_time.client import Question, ask, ask_in_turn, note_to_wire, stream_path
from noted_time.values import Refused, SharedName
from writer_client.answers import answer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from noted_time.client import Asked, Controllers, Reply
    from writer_client.answers import Answered
    from writer_client.waiting import Batch

SHARED = 3
"""How many posts in a row that were overtaken show that another process uses the name."""


def unix_us() -> int:
    """Return the wall clock in Unix microseconds."""
    return time.time_ns() // 1000


class Numbers:
    """Gives each request of a writer its `sequence`.

    They begin at the clock, in microseconds, so that a writer that is started again is above its
    former self, although nothing is stored of it. No request is made within a microsecond of the
    one before, so they stay at the clock unless it goes back.

    >>> numbers = Numbers(clock=lambda: 100)
    >>> numbers.take(), numbers.take()
    (100, 101)
    >>> numbers.go_above(500)
    >>> numbers.take()
    501
    """

    def __init__(self, clock: Callable[[], int] = unix_us) -> None:
        self._clock = clock
        self._last = 0

    def take(self) -> int:
        """Return the number of a new request."""
        self._last = max(self._last + 1, self._clock())
        return self._last

    def go_above(self, number: int) -> None:
        """Give out no number up to this one any more: it was taken already."""
        self._last = max(self._last, number)


class Exchange:
    """The posts of one writer to `/v1/streams/{stream}/notes`, and its seal.

    Each request has a number above those before it, also one that says the same to another
    controller: one that was given up may still be taken, and is known to be old then.
    """

    def __init__(self, controllers: Controllers, stream: str) -> None:
        self._controllers = controllers
        self._stream = stream
        self._numbers = Numbers()
        self._overtaken = 0

    def post(self, batch: Batch) -> Generator[Asked, Reply, Answered]:
        """Put the notes to a controller; they are durable if the answer accepts them.

        Raises `Unreachable` if the outcome is unknown, `Rejected` if the whole request was
        refused, `SharedName` if another process seems to note under the writer's name.
        """
        answer = yield from self._ask(batch)
        if not self._is_overtaken(answer):
            self._overtaken = 0
            return answer
        self._overtaken += 1
        if self._overtaken < SHARED:
            answer = yield from self._ask(batch)
            if not self._is_overtaken(answer):
                return answer
        raise SharedName(batch[0].note.writer)

    def seal(self, writer: str) -> Generator[Asked, Reply, bool]:
        """Seal the stream unless it has other members; returns whether it is sealed."""
        two = Question("GET", stream_path(self._stream, "writers"), {"limit": 2})
        members = yield from ask(self._controllers, two)
        if any(each["writer"] != writer for each in members["writers"]):
            return False
        why = {"comment": f"{writer}, its only writer, has finished"}
        yield from ask(
            self._controllers, Question("POST", stream_path(self._stream, "seal"), why, {})
        )
        return True

    def _ask(self, batch: Batch) -> Generator[Asked, Reply, Answered]:
        def question() -> Question:
            sequence = self._numbers.take()
            notes = [note_to_wire(replace(each.note, sequence=sequence)) for each in batch]
            return Question("POST", stream_path(self._stream, "notes"), body={"notes": notes})

        return ask_in_turn(
            self._controllers,
            question,
            lambda reply: answer_of(reply, len(batch), self._stream),
        )

    def _is_overtaken(self, answer: Answered) -> bool:
        """Whether a request with a higher number was taken before; the next one is above it.

        By a former self, on a clock that was ahead, or by another process of the same name.
        """
        refused = [each for each in answer.results if isinstance(each, Refused)]
        last = [each.last for each in refused if each.status == "superseded"]
        for number in last:
            if isinstance(number, int):
                self._numbers.go_above(number)
        return bool(last)
