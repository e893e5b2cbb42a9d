"""Decides which marks a relay may write, so that readers can read all rows below them.

A relay copies marks to a second log, for readers that ask no controller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import takewhile

from msgspec.structs import replace

from noted_time.values import Mark, SegmentWaited, find_missing_offsets

SEGMENTS_SHOWN = 3

NEW_SEGMENT_MS = 10_000
"""How long marks with rows of a new segment wait for readers' metadata."""

ALWAYS_SEEN = -(2**63)


class RelayQueue:
    """The `last` mark in the log of marks and the marks `waiting` to be written, by domain.

    Pass each record of the log to `record_written`, including other relays' records. If an older
    mark follows a newer one, the queue continues from the older: a compacted log keeps the last.

    >>> from noted_time.values import StreamCut
    >>> queue = RelayQueue()
    >>> queue.look({0: 5}, now_ms=0)
    >>> ends = StreamCut({0: 5}), StreamCut({0: 7})
    >>> queue.add("default", [Mark(n, n, n, cut) for n, cut in enumerate(ends, 1)])
    >>> queue.due(now_ms=9_999), [mark.seq for _, mark in queue.due(now_ms=10_000)]
    ([], [1])

    The last mark of a sealed stream is final:

    >>> queue.add("default", (), is_all=True)
    >>> [(mark.seq, mark.final) for mark in queue.waiting["default"]]
    [(1, False), (2, True)]
    """

    def __init__(self, new_segment_ms: int = NEW_SEGMENT_MS) -> None:
        self.last: dict[str, Mark] = {}
        self.waiting: defaultdict[str, list[Mark]] = defaultdict(list)
        self._new_segment_ms = new_segment_ms
        self._ends: Mapping[int, int] = {}
        self._seen: dict[int, int] = {}

    def newest(self, domain: str) -> Mark | None:
        return self.waiting[domain][-1] if self.waiting[domain] else self.last.get(domain)

    def look(self, ends: Mapping[int, int], now_ms: int) -> None:
        self._ends = ends
        self._seen = dict.fromkeys(ends, now_ms) | self._seen

    def add(self, domain: str, marks: Iterable[Mark], *, is_all: bool = False) -> None:
        """Set `is_all` if the last of the marks is the final mark of a sealed stream."""
        self.waiting[domain].extend(marks)
        newest = self.newest(domain)
        if is_all and newest is not None and not newest.final:
            self.waiting[domain][-1:] = [replace(newest, final=True)]

    def is_waiting(self, domain: str, mark: Mark) -> bool:
        waiting_mark = next(
            (queued_mark for queued_mark in self.waiting[domain] if queued_mark.seq >= mark.seq),
            None,
        )
        return (
            waiting_mark is not None
            and waiting_mark.seq == mark.seq
            and not describe_difference(mark, waiting_mark)
        )

    def record_written(self, domain: str, mark: Mark) -> None:
        """The writer of the record has waited for new segments."""
        mark_before = self.last.get(domain, mark)
        self.last[domain] = mark
        waiting_marks = self.waiting[domain] if mark_before.seq <= mark.seq else []
        self.waiting[domain] = [
            waiting_mark for waiting_mark in waiting_marks if waiting_mark.seq > mark.seq
        ]
        self._seen.update(
            (segment, ALWAYS_SEEN) for segment, offset in mark.cut.offsets.items() if offset
        )

    def due(self, now_ms: int) -> list[tuple[str, Mark]]:
        seen_before_ms = now_ms - self._new_segment_ms

        def is_ready(mark: Mark) -> bool:
            cut = mark.cut.offsets.items()
            return not self.find_lacking(mark) and all(
                self._seen[segment] <= seen_before_ms for segment, offset in cut if offset
            )

        waiting_by_domain = self.waiting.items()
        return [
            (domain, mark)
            for domain, marks in waiting_by_domain
            for mark in takewhile(is_ready, marks)
        ]

    def find_lacking(self, mark: Mark) -> list[SegmentWaited]:
        return find_missing_offsets(self._ends, mark.cut.offsets)


def describe_difference(written_mark: Mark, kept_mark: Mark) -> str:
    """Return how a record differs from the controller's first kept mark of its seq or later.

    >>> from noted_time.values import StreamCut
    >>> known = Mark(2, 20, 20, StreamCut({0: 7}))
    >>> describe_difference(Mark(2, 20, 20, StreamCut({0: 8})), known)
    '{0: 8} of its cut there, and {0: 7} at the controller'
    >>> describe_difference(Mark(1, 10, 10, StreamCut({0: 3})), known)
    ''
    """
    is_same = written_mark.seq == kept_mark.seq
    if (
        (written_mark.lower != kept_mark.lower)
        if is_same
        else (written_mark.lower >= kept_mark.lower)
    ):
        bound = f"{kept_mark.lower}" if is_same else f"below {kept_mark.lower}"
        return f"the lower {written_mark.lower} there, and {bound} at the controller"
    written_offsets = written_mark.cut.offsets
    kept_offsets = kept_mark.cut.offsets
    differing_segments = {
        segment.segment for segment in find_missing_offsets(kept_offsets, written_offsets)
    }
    if is_same:
        differing_segments |= {
            segment.segment for segment in find_missing_offsets(written_offsets, kept_offsets)
        }
    if not differing_segments:
        return ""
    shown_segments = sorted(differing_segments)[:SEGMENTS_SHOWN]
    cuts = [
        {segment: cut.get(segment, 0) for segment in shown_segments}
        for cut in (written_offsets, kept_offsets)
    ]
    return f"{cuts[0]} of its cut there, and {cuts[1]} at the controller"
