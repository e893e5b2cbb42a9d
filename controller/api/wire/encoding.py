"""The JSON encoding of values and pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from starlette.responses import Response

from controller.service.long_reads import iterate_in_slices
from noted_time.coding import encode

ANSWER_BYTES = 4 * 1024 * 1024  # of a page of items

Item = TypeVar("Item")


def reply(value: object, status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


class Page(NamedTuple, Generic[Item]):
    """The encoded items of a page, the last of them (`None` if it has none), and if more follow."""

    items: tuple[Any, ...]
    last: Item | None
    has_more: bool


async def page_of(items: Iterable[Item], limit: int) -> Page[Item]:
    """Return a page of at most `limit` items and `ANSWER_BYTES`, but of at least one item."""
    page: list[msgspec.Raw] = []
    last = None
    bytes_left = ANSWER_BYTES
    async for item in iterate_in_slices(items):
        encoded_item = encode(item)
        bytes_left -= len(encoded_item)
        if len(page) == limit or (page and bytes_left < 0):
            return Page(tuple(page), last, has_more=True)
        page.append(msgspec.Raw(encoded_item))
        last = item
    return Page(tuple(page), last, has_more=False)
