"""Requests with notes that travel together from one controller to another, and their answers.

A frame gives its sender no right: each request in it shows its own token, and is judged here as if
it had come by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from controller.aggregation.world import NotHere
from controller.api.access import Asked, Call, Gate, NotLetIn
from controller.api.notes import (
    FAILURES,
    NOT_MINE,
    Answer,
    answer_of,
    plain,
    refusal,
    submitted,
)
from controller.api.rights import Need

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from controller.api.notes import Results
    from controller.service.controller import Controller

    Taken = asyncio.Future[Results]

PATH = "/v1/relay"
MEDIA_TYPE = "application/msgpack"

MOST_ITEMS = 4096
"""No frame has more: anybody may send one, and half a million tiny requests take seconds."""


class Item(msgspec.Struct, frozen=True, array_like=True):
    """One request with notes: to which stream, what it shows to be let in, its body."""

    stream: str
    authorization: bytes
    body: bytes


_encoder = msgspec.msgpack.Encoder()
_items = msgspec.msgpack.Decoder(Annotated[list[Item], msgspec.Meta(max_length=MOST_ITEMS)])
_answers = msgspec.msgpack.Decoder(list[Answer])


def frame_of(items: Iterable[Item]) -> bytes:
    """Return the frame of so many requests."""
    return _encoder.encode(list(items))


def answers_of(reply: bytes) -> list[Answer]:
    """Return the answers to the requests of a frame, in order; raises `msgspec.DecodeError`."""
    return _answers.decode(reply)


async def take(controller: Controller, gate: Gate, frame: bytes, remote: str) -> bytes:
    """Take in the requests of a frame, and return their answers; raises `msgspec.DecodeError`."""
    items = _items.decode(frame)
    # all are submitted before the first is waited for, so that one commit takes them in
    taken = [_submit(controller, gate, item, remote) for item in items]
    answers = [
        await _answer(controller, item, each) for item, each in zip(items, taken, strict=True)
    ]
    return _encoder.encode(answers)


def _submit(controller: Controller, gate: Gate, item: Item, remote: str) -> Taken | Answer:
    shown = [(b"authorization", item.authorization)] if item.authorization else []
    asked = Asked("POST", f"/v1/streams/{item.stream}/notes", shown, remote)
    try:
        holder = gate.admit(Need("write", item.stream), asked)
        if not controller.has(item.stream):
            return NOT_MINE
        return submitted(controller, Call(item.stream, holder, remote), item.body)
    except NotLetIn as refused:
        return plain(refused.problem)
    except FAILURES as failure:
        return refusal(failure, item.stream, item.body)


async def _answer(controller: Controller, item: Item, taken: Taken | Answer) -> Answer:
    if isinstance(taken, tuple):
        return taken
    try:
        return answer_of(controller, await taken)
    except NotHere:
        return NOT_MINE
    except FAILURES as failure:
        return refusal(failure, item.stream, item.body)
