"""Lists in answers: as much of them as fits, encoded in slices, so that others have their turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from controller.api.wire.replies import encode
from controller.service.long_reads import in_slices
from noted_time import MarkHistory

ANSWER_BYTES = 4 * 1024 * 1024
"""An answer ends here, however few items that are: a mark of many segments is large (S17)."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Fitting(Generic[Item]):
    """Encoded items and the last of them; whether the list continues after it."""

    items: list[Any]
    last: Item | None
    has_more: bool


MARKS_KEPT = 4
"""How many of the last marks of a history are kept as JSON."""


class EncodedMarks:
    """The JSON of the last marks that were asked for: many polls wait for the same mark."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[MarkHistory, dict[int, msgspec.Raw]] = WeakKeyDictionary()

    def following(self, history: MarkHistory, seq: int) -> Iterator[msgspec.Raw]:
        """Yield the present marks with a seq above `seq`, as `MarkHistory.following` does."""
        kept = self._kept.setdefault(history, {})
        for each in history.seqs_after(seq):
            found = kept.get(each)
            if found is None:
                found = msgspec.Raw(encode(history.mark(each)))
                kept[each] = found
                for old in sorted(kept)[:-MARKS_KEPT]:
                    del kept[old]
            yield found


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
