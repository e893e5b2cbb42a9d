"""Posts notes to a controller, as sans-I/O routines."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace as replace_fields
from typing import Any

from msgspec.structs import replace

from noted_time.client import (
    AddressedQuestion,
    Controllers,
    Question,
    Reply,
    ask_in_turn,
    names_contact,
    note_to_wire,
    stream_path,
)
from noted_time.values import Note, Refused, Rejected, SharedName, Unreachable
from writer_client.sending.answers import NotesReply, decode_reply
from writer_client.sending.pending_notes import Batch

SUPERSEDED_LIMIT = 3  # in a row, until another process is suspected


def unix_us() -> int:
    return time.time_ns() // 1000


class RequestNumbers:
    """Assigns an increasing `sequence` number to each request of a writer.

    So a controller recognizes an abandoned request that arrives late. Numbers follow the clock in
    µs, so a restarted writer has larger ones without storing any.

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
        self._last = max(self._last + 1, self._clock())
        return self._last

    def skip_to(self, number: int) -> None:
        self._last = max(self._last, number)


class Exchange:
    """Posts the notes of one writer."""

    def __init__(self, controllers: Controllers, stream: str) -> None:
        self._controllers = controllers
        self._stream = stream
        self._numbers = RequestNumbers()
        self._overtaken = 0
        self._contact_refusal: str | None = None  # while notes are sent without it

    def post(self, batch: Batch) -> Generator[AddressedQuestion, Reply, NotesReply]:
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

    def _ask(self, batch: Batch) -> Generator[AddressedQuestion, Reply, NotesReply]:
        """Post the batch, without its contact if the controller refuses that."""
        notes = [pending.note for pending in batch]
        try:
            answer = yield from self._ask_once(notes)
        except Unreachable:
            self._contact_refusal = None  # the next controller may be newer
            raise
        except Rejected as refusal:
            if self._contact_refusal is not None or not names_contact(refusal, notes):
                raise
            answer = yield from self._ask_once(_drop_contacts(notes))
            self._contact_refusal = str(refusal)
        if self._contact_refusal is None:
            return answer
        return replace_fields(answer, contact_refusal=self._contact_refusal)

    def _ask_once(self, notes: Sequence[Note]) -> Generator[AddressedQuestion, Reply, NotesReply]:
        def build_question() -> Question[Any]:
            number = self._numbers.take()
            numbered_notes = [replace(note, sequence=number) for note in notes]
            if self._contact_refusal is not None:
                numbered_notes = _drop_contacts(numbered_notes)
            body = {"notes": [note_to_wire(note) for note in numbered_notes]}
            return Question("POST", stream_path(self._stream, "notes"), body=body)

        def decode(reply: Reply) -> NotesReply:
            return decode_reply(reply, len(notes), self._stream)

        return ask_in_turn(self._controllers, build_question, decode)

    def _is_overtaken(self, answer: NotesReply) -> bool:
        """Return whether a newer request was accepted, and continue above its number."""
        is_overtaken = False
        for result in answer.results:
            if isinstance(result, Refused) and result.status == "superseded":
                is_overtaken = True
                if isinstance(result.last, int):
                    self._numbers.skip_to(result.last)
        return is_overtaken


def _drop_contacts(notes: Sequence[Note]) -> list[Note]:
    return [replace(note, contact=None) for note in notes]
