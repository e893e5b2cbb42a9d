"""The JSON encoding of values and pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from starlette.responses import Response

from controller.service.long_reads import iterate_in_slices
from noted_time.coding import encode

ANSWER_BYTES = 4 * 1024 * 1024  # of a page of items

Item = TypeVar("Item")


def reply(value: object, status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


@dataclass(frozen=True, slots=True)
class Fitting(Generic[Item]):
    """The encoded items of a page, the last item, and whether more items follow."""

    items: tuple[Any, ...]
    last: Item | None
    has_more: bool


async def page_of(items: Iterable[Item], limit: int) -> Fitting[Item]:
    """Return at most `limit` items and `ANSWER_BYTES`, but at least one item."""
    page: list[Any] = []
    last, bytes_left = None, ANSWER_BYTES
    async for item in iterate_in_slices(items):
        encoded = encode(item)
        bytes_left -= len(encoded)
        if len(page) == limit or (page and bytes_left < 0):
            return Fitting(tuple(page), last, has_more=True)
        page.append(msgspec.Raw(encoded))
        last = item
    return Fitting(tuple(page), last, has_more=False)
