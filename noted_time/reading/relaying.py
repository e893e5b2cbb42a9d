"""Decides which marks a relay may write, so that readers can read all rows below them.

A relay copies marks to a second log, for readers that ask no controller.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

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
        if self.waiting[domain]:
            return self.waiting[domain][-1]
        return self.last.get(domain)

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
        """Return whether the first waiting mark of this seq or later equals the mark."""
        for waiting_mark in self.waiting[domain]:
            if waiting_mark.seq == mark.seq:
                return not describe_difference(mark, waiting_mark)
            if waiting_mark.seq > mark.seq:
                return False
        return False

    def record_written(self, domain: str, mark: Mark) -> None:
        """The writer of the record has waited for new segments."""
        mark_before = self.last.get(domain, mark)
        self.last[domain] = mark
        if mark_before.seq <= mark.seq:
            waiting_marks = self.waiting[domain]
        else:
            waiting_marks = []
        self.waiting[domain] = [
            waiting_mark for waiting_mark in waiting_marks if waiting_mark.seq > mark.seq
        ]
        self._seen.update(
            (segment, ALWAYS_SEEN) for segment, offset in mark.cut.offsets.items() if offset
        )

    def due(self, now_ms: int) -> list[tuple[str, Mark]]:
        """Return the marks that may be written now, each with its domain."""
        seen_before_ms = now_ms - self._new_segment_ms
        due_marks: list[tuple[str, Mark]] = []
        for domain, marks in self.waiting.items():
            for mark in marks:
                if not self._is_ready(mark, seen_before_ms):
                    break
                due_marks.append((domain, mark))
        return due_marks

    def _is_ready(self, mark: Mark, seen_before_ms: int) -> bool:
        if self.find_lacking(mark):
            return False
        segments = [segment for segment, offset in mark.cut.offsets.items() if offset]
        return all(self._seen[segment] <= seen_before_ms for segment in segments)

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
    if is_same and written_mark.lower != kept_mark.lower:
        return f"the lower {written_mark.lower} there, and {kept_mark.lower} at the controller"
    if not is_same and written_mark.lower >= kept_mark.lower:
        return (
            f"the lower {written_mark.lower} there, and below {kept_mark.lower} at the controller"
        )
    written_offsets = written_mark.cut.offsets
    kept_offsets = kept_mark.cut.offsets
    differences = find_missing_offsets(kept_offsets, written_offsets)
    if is_same:
        differences += find_missing_offsets(written_offsets, kept_offsets)
    if not differences:
        return ""
    segments = sorted({difference.segment for difference in differences})[:SEGMENTS_SHOWN]
    written_cut = {segment: written_offsets.get(segment, 0) for segment in segments}
    kept_cut = {segment: kept_offsets.get(segment, 0) for segment in segments}
    return f"{written_cut} of its cut there, and {kept_cut} at the controller"
