"""How a batch of notes is posted to a controller, without the network: questions out, replies in.

`Exchange.post` is a routine of `noted_time.client`: it yields each question and is sent the reply,
or is thrown the `Unreachable` that came instead; it returns the answer. So the clients for threads
and for asyncio do the same, and differ only in how they wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import replace

from noted_time.client import (
    AddressedQuestion,
    Controllers,
    Question,
    Reply,
    ask,
    ask_in_turn,
    note_to_wire,
    stream_path,
)
from noted_time.values import Refused, SharedName
from writer_client.sending.answers import NotesAnswer, decode_reply
from writer_client.sending.pending_notes import Batch

SUPERSEDED_LIMIT = 3
"""Number of superseded posts in a row that show that another process uses the name."""


def unix_us() -> int:
    """Return the wall clock in Unix microseconds."""
    return time.time_ns() // 1000


class RequestNumbers:
    """Gives each request of a writer its `sequence`.

    They begin at the clock, in microseconds, so that a restarted writer is above its former
    process, without anything being stored. No request follows another within a microsecond, so they
    stay at the clock unless it goes back.

    >>> numbers = RequestNumbers(clock=lambda: 100)
    >>> numbers.take(), numbers.take()
    (100, 101)
    >>> numbers.skip_to(500)
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

    def skip_to(self, number: int) -> None:
        """Return only numbers above this one from now on: it was used already."""
        self._last = max(self._last, number)


class Exchange:
    """The posts of one writer to `/v1/streams/{stream}/notes`, and its seal.

    Each request has a number above those before it, even one that repeats the same to another
    controller: an abandoned request may still be delivered, and is then known to be old.
    """

    def __init__(self, controllers: Controllers, stream: str) -> None:
        self._controllers = controllers
        self._stream = stream
        self._numbers = RequestNumbers()
        self._overtaken = 0

    def post(self, batch: Batch) -> Generator[AddressedQuestion, Reply, NotesAnswer]:
        """Post the notes to a controller; they are durable if the answer accepts them.

        Raises `Unreachable` if the outcome is unknown, `Rejected` if the whole request was
        refused, `SharedName` if another process seems to note under the writer's name.
        """
        answer = yield from self._ask(batch)
        if not self._is_overtaken(answer):
            self._overtaken = 0
            return answer
        self._overtaken += 1
        if self._overtaken < SUPERSEDED_LIMIT:
            answer = yield from self._ask(batch)
            if not self._is_overtaken(answer):
                return answer
        raise SharedName(batch[0].note.writer)

    def seal(self, writer: str) -> Generator[AddressedQuestion, Reply, bool]:
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

    def _ask(self, batch: Batch) -> Generator[AddressedQuestion, Reply, NotesAnswer]:
        def build_question() -> Question:
            number = self._numbers.take()
            notes = [note_to_wire(replace(p.note, sequence=number)) for p in batch]
            return Question("POST", stream_path(self._stream, "notes"), body={"notes": notes})

        return ask_in_turn(
            self._controllers,
            build_question,
            lambda reply: decode_reply(reply, len(batch), self._stream),
        )

    def _is_overtaken(self, answer: NotesAnswer) -> bool:
        """Whether a request with a higher number was accepted before; the next one is above it.

        It came from a former process whose clock was ahead, or from another process of the same
        name.
        """
        refused = [each for each in answer.results if isinstance(each, Refused)]
        last = [each.last for each in refused if each.status == "superseded"]
        for number in last:
            if isinstance(number, int):
                self._numbers.skip_to(number)
        return bool(last)
