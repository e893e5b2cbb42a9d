"""Which marks a relay may write: those whose rows each later look at the log finds readable.

A relay copies marks to a log of their own, for readers that look at both logs and ask no
controller. Such a reader takes the largest lower, so marks that are written again change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from noted_time.reading.lacking import SegmentWaited, waited_for
from noted_time.values import Mark

NEW_SEGMENT_MS = 10_000
"""How long the rows of a new segment wait: a reader's look at the log may lack the segment yet."""

ALWAYS = -(2**63)


@dataclass(slots=True)
class Queue:
    """The marks of one domain: the last one in the log of marks, the newest there, and the rest."""

    last: Mark | None = None
    newest: Mark | None = None
    waiting: list[Mark] = field(default_factory=list)


class RelayQueue:
    """The marks that a relay of one stream has yet to write.

    It continues where the log of marks ends: every record of that is given to `written`, in order,
    whichever relay wrote it. If a slower relay wrote an older mark after the newest one, the newest
    is due again, as a compacted log keeps the last of each domain.

    >>> from noted_time.values import StreamCut
    >>> queue = RelayQueue()
    >>> queue.look({0: 5}, now_ms=0)
    >>> ends = StreamCut({0: 5}), StreamCut({0: 7})
    >>> queue.add("default", [Mark(n, n, n, cut) for n, cut in enumerate(ends, 1)])
    >>> queue.due(now_ms=9_999), [mark.seq for _, mark in queue.due(now_ms=10_000)]
    ([], [1])
    """

    def __init__(self, new_segment_ms: int = NEW_SEGMENT_MS) -> None:
        self._new_segment_ms = new_segment_ms
        self._ends: Mapping[int, int] = {}
        self._seen: dict[int, int] = {}
        self._queues: dict[str, Queue] = {}

    def of(self, domain: str) -> Queue:
        """Return what is known of a domain."""
        return self._queues.setdefault(domain, Queue())

    def after(self, domain: str) -> int:
        """Return the seq after which marks of a domain have to be asked for."""
        queue = self.of(domain)
        return max((each.seq for each in (queue.newest, *queue.waiting[-1:]) if each), default=0)

    def is_done(self, domains: Collection[str]) -> bool:
        """Whether all known marks of the domains are written, and the newest of each is last."""
        return not any(each.waiting or each.last != each.newest for each in map(self.of, domains))

    def lacking(self) -> Iterator[tuple[str, Mark, SegmentWaited]]:
        """Yield for each domain that waits the first mark, and a segment that it waits for."""
        for domain, queue in self._queues.items():
            for mark in queue.waiting[:1]:
                yield from ((domain, mark, each) for each in self._lack(mark)[:1])

    def look(self, ends: Mapping[int, int], now_ms: int) -> None:
        """Learn how far each segment is readable now, by a clock that never goes back."""
        self._ends = ends
        self._seen = dict.fromkeys(ends, now_ms) | self._seen

    def add(self, domain: str, marks: Iterable[Mark], *, is_all: bool = False) -> None:
        """Add the marks that follow `after`; `is_all` of a sealed stream, whose last is final."""
        queue = self.of(domain)
        queue.waiting.extend(marks)
        if is_all and queue.waiting:
            queue.waiting[-1] = replace(queue.waiting[-1], final=True)
        elif is_all and queue.newest:
            queue.newest = replace(queue.newest, final=True)

    def written(self, domain: str, mark: Mark) -> None:
        """Learn the next record of the log of marks: its writer has waited for its segments."""
        queue = self.of(domain)
        queue.last = mark
        if queue.newest is None or (queue.newest.seq, queue.newest.final) <= (mark.seq, mark.final):
            queue.newest = mark
        queue.waiting = [each for each in queue.waiting if each.seq > queue.newest.seq]
        self._seen.update((s, ALWAYS) for s, offset in mark.cut.offsets.items() if offset)

    def due(self, now_ms: int) -> list[tuple[str, Mark]]:
        """Return the marks to write now with their domains, those of a domain in their order."""
        found = []
        for domain, queue in self._queues.items():
            again = [queue.newest] if queue.newest and queue.last != queue.newest else []
            ready = takewhile(lambda mark: self._is_ready(mark, now_ms), queue.waiting)
            found += [(domain, mark) for mark in (*again, *ready)]
        return found

    def _is_ready(self, mark: Mark, now_ms: int) -> bool:
        since = now_ms - self._new_segment_ms
        cut = mark.cut.offsets.items()
        return not self._lack(mark) and all(self._seen[s] <= since for s, end in cut if end)

    def _lack(self, mark: Mark) -> list[SegmentWaited]:
        return waited_for(self._ends, mark.cut.offsets)
