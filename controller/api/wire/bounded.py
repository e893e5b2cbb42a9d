"""Lists in answers: as much of them as fits, encoded in slices, so that others have their turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from controller.api.wire.replies import encode
from controller.service.long_reads import in_slices

ANSWER_BYTES = 4 * 1024 * 1024
"""An answer ends here, however few items that are: a mark of many segments is large (S17)."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Fitting(Generic[Item]):
    """Encoded items and the last of them; whether the list continues after it."""

    items: list[Any]
    last: Item | None
    has_more: bool


async def page_of(items: Iterable[Item], limit: int) -> Fitting[Item]:
    """Return at most `limit` items, and no more bytes than an answer has, but at least one item."""
    page: list[Any] = []
    last, room = None, ANSWER_BYTES
    async for item in in_slices(items):
        encoded = encode(item)
        room -= len(encoded)
        if len(page) == limit or (page and room < 0):
            return Fitting(page, last, has_more=True)
        page.append(msgspec.Raw(encoded))
        last = item
    return Fitting(page, last, has_more=False)
