"""A queue of things by time, in which many may wait for the same moment."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

Thing = TypeVar("Thing")


class TimeQueue(Generic[Thing]):
    """A heap of the distinct times, and a list for each.

    Writers often note the same times (whole seconds, the ticks of one replay), so the heap is
    short, compares plain ints, and a thing with a time that is there already costs an append.

    >>> queue = TimeQueue[str]()
    >>> for time, name in ((9, "DL"), (5, "UA"), (9, "AA")):
    ...     queue.push(time, name)
    >>> queue.least, queue.at_least(), queue.pop()
    (5, ['UA'], ['UA'])
    >>> queue.pop(), queue.least
    (['DL', 'AA'], None)
    """

    __slots__ = ("_things", "_times")

    def __init__(self) -> None:
        """Begin empty."""
        self._times: list[int] = []
        self._things: dict[int, list[Thing]] = {}

    def push(self, time: int, thing: Thing) -> None:
        """Queue `thing` at `time`."""
        things = self._things.get(time)
        if things is None:
            self._things[time] = [thing]
            heappush(self._times, time)
        else:
            things.append(thing)

    @property
    def least(self) -> int | None:
        """The least time, `None` where nothing waits."""
        return self._times[0] if self._times else None

    def at_least(self) -> list[Thing]:
        """Return what waits at the least time; the caller may take things off the end."""
        return self._things[self._times[0]]

    def pop(self) -> list[Thing]:
        """Take out all that waits at the least time."""
        return self._things.pop(heappop(self._times))

    def discard(self, time: int, thing: Thing) -> None:
        """Take out `thing`, which waits at `time`; costs a look at all that waits there."""
        self._things[time].remove(thing)

    def before(self, time: int) -> Iterator[Thing]:
        """Yield what waits at times below `time`, in no order; nothing is taken out."""
        for each in self._times:
            if each < time:
                yield from self._things[each]

    def __bool__(self) -> bool:
        return bool(self._times)

    def due(self, before: int) -> bool:
        """Whether anything waits at a time below `before`."""
        return bool(self._times) and self._times[0] < before
