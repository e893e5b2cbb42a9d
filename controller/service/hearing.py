"""What a controller does with what others say: whom it tells that there is something to read."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from controller.store.notices import Lost, StreamsChanged, StreamsTrimmed

if TYPE_CHECKING:
    from controller.service.following import Following
    from controller.service.ownership import Ownership
    from controller.store.port import Store


async def hear(store: Store, ownership: Ownership, following: Following) -> None:
    """Pass on every notice, until it is cancelled; where some were missed, anything may be new."""
    async with aclosing(store.listen()) as heard:
        async for notice in heard:
            if isinstance(notice, StreamsChanged | StreamsTrimmed):
                trimmed = isinstance(notice, StreamsTrimmed)
                following.noticed(notice.stream_ids, trimmed=trimmed)
                continue
            ownership.hurry()
            if isinstance(notice, Lost):
                following.lost()
