"""Which marks a relay may write: those whose rows each later look at the log finds readable.

A relay copies the marks of a stream to a log of their own, for readers that look at both logs and
ask no controller. When such a reader has a mark it looks at the events' log next, so the mark must
not be there before its rows are. The largest lower counts for it: marks that are written again, or
after newer ones, change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from noted_time.reading.lacking import SegmentWaited, waited_for
from noted_time.values import Mark, reaches

NEW_SEGMENT_MS = 10_000
"""How long marks wait once a new segment is seen: what looks at the log may not know it yet."""

ALWAYS = -(2**63)


@dataclass(slots=True)
class Queue:
    """The marks of one domain: the record that is last in the log, the newest one, and the rest."""

    last: Mark | None = None
    newest: Mark | None = None
    waiting: list[Mark] = field(default_factory=list)


class RelayQueue:
    """The marks that a relay of one stream has yet to write.

    The log of marks decides where it continues: every record of it is given to `written`, in the
    order of the log, whichever relay wrote it. So relays may run side by side, and start again. If
    the last record of a domain is not its newest one, as another relay was slower, the newest is
    due again, because a compacted log keeps the last.

    >>> from noted_time.values import StreamCut
    >>> queue = RelayQueue()
    >>> queue.look({0: 5}, now_ms=0)
    >>> cuts = StreamCut({0: 5}), StreamCut({0: 7})
    >>> queue.add("default", [Mark(1, 10, 10, cuts[0]), Mark(2, 20, 20, cuts[1])])
    >>> queue.due(now_ms=9_999)
    []
    >>> [(domain, mark.seq) for domain, mark in queue.due(now_ms=10_000)]
    [('default', 1)]
    >>> queue.written("default", Mark(1, 10, 10, cuts[0]))
    >>> queue.lacks("default")
    SegmentWaited(segment=0, offset=5, needed=7)
    """

    def __init__(self, new_segment_ms: int = NEW_SEGMENT_MS) -> None:
        """Start with nothing written."""
        self._new_segment_ms = new_segment_ms
        self._ends: Mapping[int, int] = {}
        self._seen: dict[int, int] = {}
        self._queues: dict[str, Queue] = {}

    def newest(self, domain: str) -> Mark | None:
        """Return the newest mark of a domain that was written."""
        return self._of(domain).newest

    def after(self, domain: str) -> int:
        """Return the seq after which marks of a domain are missing here."""
        queue = self._of(domain)
        known = queue.waiting[-1] if queue.waiting else queue.newest
        return 0 if known is None else known.seq

    def waiting(self, domain: str) -> int:
        """Return how many marks of a domain wait."""
        return len(self._of(domain).waiting)

    def is_idle(self, domains: Collection[str]) -> bool:
        """Whether all known marks of the domains are written, and the newest of each is last."""
        queues = [self._of(domain) for domain in domains]
        return all(not queue.waiting and queue.last == queue.newest for queue in queues)

    def lacks(self, domain: str) -> SegmentWaited | None:
        """Return a segment that is not readable up to the cut of the first mark that waits."""
        waiting = self._of(domain).waiting
        lacking = waited_for(self._ends, waiting[0].cut.offsets) if waiting else []
        return next(iter(lacking), None)

    def look(self, ends: Mapping[int, int], now_ms: int) -> None:
        """Learn how far each segment is readable; one that is not named is not readable now.

        `now_ms` is of a clock that never goes back.
        """
        self._ends = ends
        for segment in ends:
            self._seen.setdefault(segment, now_ms)

    def add(self, domain: str, marks: Iterable[Mark]) -> None:
        """Add marks that follow `after`, in the order of their seq."""
        self._of(domain).waiting.extend(marks)

    def drop(self) -> None:
        """Drop all marks that wait, as they were corrected: ask for them again."""
        for queue in self._queues.values():
            queue.waiting.clear()

    def seal(self, domain: str) -> None:
        """Learn that no mark follows the last one known, also if that is not a final one."""
        queue = self._of(domain)
        if queue.waiting:
            queue.waiting[-1] = replace(queue.waiting[-1], final=True)
        elif queue.newest is not None:
            queue.newest = replace(queue.newest, final=True)

    def written(self, domain: str, mark: Mark) -> None:
        """Learn the next record of the log of marks.

        A segment of which it covers rows is no longer new: whoever wrote it has waited.
        """
        queue = self._of(domain)
        queue.last = mark
        if queue.newest is None or (queue.newest.seq, queue.newest.final) <= (mark.seq, mark.final):
            queue.newest = mark
        queue.waiting = [each for each in queue.waiting if each.seq > queue.newest.seq]
        self._seen.update((s, ALWAYS) for s, offset in mark.cut.offsets.items() if offset)

    def due(self, now_ms: int) -> list[tuple[str, Mark]]:
        """Return the marks to write now with their domains, those of a domain in their order."""
        found = (self._due(queue, now_ms) for queue in self._queues.values())
        return [(d, mark) for d, marks in zip(self._queues, found, strict=True) for mark in marks]

    def _due(self, queue: Queue, now_ms: int) -> Iterator[Mark]:
        if queue.newest is not None and queue.last != queue.newest:
            yield queue.newest
        yield from takewhile(lambda mark: self._is_readable(mark, now_ms), queue.waiting)

    def _is_readable(self, mark: Mark, now_ms: int) -> bool:
        cut, since = mark.cut.offsets, now_ms - self._new_segment_ms
        return reaches(self._ends, cut) and all(
            self._seen[segment] <= since for segment, offset in cut.items() if offset
        )

    def _of(self, domain: str) -> Queue:
        return self._queues.setdefault(domain, Queue())
