"""The JSON encoding of values and pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response

from controller.service.long_reads import iterate_in_slices
from noted_time.coding import encode

ANSWER_BYTES = 4 * 1024 * 1024  # of a page of items

Item = TypeVar("Item")


def reply(value: object, status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


async def page_of(items: Iterable[Item], limit: int) -> tuple[tuple[Any, ...], Item | None, bool]:
    """Return the encoded items of a page, the last item, and whether more items follow.

    A page has at most `limit` items and `ANSWER_BYTES`, but at least one item.
    """
    page: list[msgspec.Raw] = []
    last = None
    bytes_left = ANSWER_BYTES
    async for item in iterate_in_slices(items):
        encoded_item = encode(item)
        bytes_left -= len(encoded_item)
        if len(page) == limit or (page and bytes_left < 0):
            return tuple(page), last, True
        page.append(msgspec.Raw(encoded_item))
        last = item
    return tuple(page), last, False
