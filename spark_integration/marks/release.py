"""Chooses the mark that a micro-batch applies: the last one whose cut it reads.

It keeps invariant 6 of docs/explain/theory.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress

from noted_time import Mark, NotCompleteYet, NotedTimeError, Rejected
from noted_time.reading import MarkHistory
from noted_time.values import MIN_INT64, State, format_time, reaches
from spark_integration.marks.arguments import OnSeal
from spark_integration.marks.feed import FeedMarks, MarksFeed
from spark_integration.marks.released import Released
from spark_integration.marks.watermark import LAST_MS, is_watermark

log = logging.getLogger("noted_time.spark")

LEFT_OUT_WARNING = (
    "%s: mark %d%s is left out, because Spark's timestamps are Unix ms of the years 1 to 9999; the "
    "watermark advances with the next mark in this range"
)

NO_MARK_WARNING = (
    "%s: the query has read rows, and no mark covers them yet, so the watermark is not set and no "
    "window closes. %s"
)
UNMARKED_PLANS = 2  # the first mark comes with the second micro-batch at the latest


class Releaser:
    """The known marks from the last applied one on."""

    def __init__(self, feed: MarksFeed, on_seal: OnSeal = "close") -> None:
        self._feed = feed
        self._on_seal = on_seal
        self._last_cut: Mapping[int, int] = {}
        self._is_following = False
        self._has_left_out = False
        self._unmarked_plans = 0
        self._is_explained = False
        self.stream = FeedMarks()
        self.history = MarkHistory()
        self.last_lower: int | None = None

    @property
    def final_state(self) -> State:
        if self.stream.final_cut is not None:
            return "finished"
        return "idle" if self.stream.is_quiet else "live"

    @property
    def final(self) -> Mapping[int, int]:
        return {**self.stream.succession.final, **(self.stream.final_cut or {})}

    def follow(self, applied_mark: Released) -> None:
        """Take new marks, and leave out those outside Spark's range of time."""
        if not self._is_following:
            self._feed.begin(applied_mark)
            self._is_following = True
            if applied_mark.seq and applied_mark.lower is None:
                log.warning(
                    LEFT_OUT_WARNING, self._feed.subject, applied_mark.seq, " of the offset log"
                )
        former_stream = self.stream
        self.stream = self._feed.take()
        if self.stream.stream_id != former_stream.stream_id:
            self._has_left_out = False
            self.history = MarkHistory()
            self.last_lower = None
        for mark in self.stream.marks:
            if is_watermark(mark.lower):
                self._append(mark)
            else:
                self._leave_out(mark)

    def release(self, applied_mark: Released, position: Mapping[int, int]) -> Released:
        """Return the mark to apply at `position`, or `applied_mark` if none is newer.

        `position` must have all segments: predecessors are not inferred. The lower never goes back,
        even if the stream was recreated.
        """
        final_cut = self.stream.final_cut if self._on_seal == "close" else None
        seal_release = find_seal_release(applied_mark, self.stream.stream_id, final_cut, position)
        if seal_release is not None:
            return seal_release
        window = self.history.window(position)
        if window.lower is None or window.lower_seq is None:
            if applied_mark.lower is None:
                self._warn_of_wait(position)
            return applied_mark
        if applied_mark.lower is not None and window.lower <= applied_mark.lower:
            return applied_mark
        self._last_cut = self.history.mark(window.lower_seq).cut.offsets
        self.history.forget_through(window.lower_seq)
        return Released(self.stream.stream_id, window.lower_seq, window.lower)

    def find_lower(self, position: Mapping[int, int]) -> int | None:
        """Return the lower at a position, or else the first lower after it."""
        lower = self.history.window(position).lower
        first_mark = self.history.first
        if lower is None and first_mark:
            return first_mark.lower
        return lower

    def find_first_lower(self, applied_mark: Released, known_lower: int | None) -> int | None:
        """Return the lower of the first mark, by default the `known_lower` one.

        The final mark is complete to any time, so after it this is the least time.
        """
        last_mark = self.history.last
        if applied_mark.sealed or (
            last_mark is not None and last_mark.final and last_mark.seq == applied_mark.seq
        ):
            return MIN_INT64
        if self.stream.first_lower is None:
            return known_lower
        return self.stream.first_lower

    def has_more(self, applied_mark: Released) -> bool:
        """Return whether there is a later mark, or a seal, whose cut may be read next."""
        if applied_mark.sealed:
            return False
        if self.stream.final_cut is not None and self._on_seal == "close":
            return True
        last_lower = self.history.last_lower
        if last_lower is None:
            return False
        return applied_mark.lower is None or last_lower > applied_mark.lower

    def get_cut(self, applied_mark: Released) -> Mapping[int, int]:
        """Return the cut of the mark that `release` has returned."""
        if applied_mark.sealed:
            return self.stream.final_cut or {}
        return self._last_cut

    def find_cut(self, time: int, applied_mark: Released) -> Mapping[int, int]:
        """Return the cut of the first mark with lower >= `time`, or until then the last cut.

        Raises `Rejected` if the controller may have dropped the first such mark.
        """
        marks = self.history
        try:
            mark = marks.complete_to(time)
        except NotCompleteYet:
            last_mark = marks.last
            if self.stream.final_cut or last_mark is None:
                return self.stream.final_cut or {}
            return last_mark.cut.offsets
        last_applied_seq = 0
        if applied_mark.stream_id == self.stream.stream_id:
            last_applied_seq = applied_mark.seq
        if mark.seq == last_applied_seq + 1 or mark.seq > marks.first_seq:
            return mark.cut.offsets
        raise Rejected(
            f"{self._feed.subject}: marks {last_applied_seq + 1} to {mark.seq - 1} are no longer "
            f"kept, so it is not known how much of the log is complete to {format_time(time)}; the "
            f"first mark that is kept has the lower {format_time(mark.lower)}"
        )

    def close(self) -> None:
        self._feed.close()

    def _warn_of_wait(self, position: Mapping[int, int]) -> None:
        self._unmarked_plans += 1
        is_due = self._unmarked_plans >= UNMARKED_PLANS and any(position.values())
        if self._is_explained or not is_due:
            return
        self._is_explained = True
        with suppress(NotedTimeError):
            log.warning(NO_MARK_WARNING, self._feed.subject, self._feed.explain(position))

    def _leave_out(self, mark: Mark) -> None:
        if not self._has_left_out:
            self._has_left_out = True
            log.warning(
                LEFT_OUT_WARNING,
                self._feed.subject,
                mark.seq,
                f" with lower {format_time(mark.lower)}",
            )

    def _append(self, mark: Mark) -> None:
        self._has_left_out = False
        if len(self.history) and mark.seq != self.history.last_seq + 1:
            # retention deleted marks before they were read
            self.history = MarkHistory()
        self.history.append(mark)
        self.last_lower = mark.lower


def find_seal_release(
    applied_mark: Released,
    stream_id: str,
    final_cut: Mapping[int, int] | None,
    position: Mapping[int, int],
) -> Released | None:
    """Return the release at the end of a sealed stream, or `None` before the end.

    >>> find_seal_release(Released("a", 3, 30), "a", {0: 9}, {0: 8}) is None
    True
    >>> find_seal_release(Released("a", 3, 30), "a", {0: 9}, {0: 9})
    Released(stream_id='a', seq=3, lower=253402300799999, sealed=True)
    """
    if applied_mark.sealed:
        if stream_id not in {"", applied_mark.stream_id}:
            raise Rejected(
                "the stream was recreated after its seal had closed all windows of this query, "
                "which would drop the new rows: start a query with a new checkpoint"
            )
        return applied_mark
    if final_cut is None or not reaches(position, final_cut):
        return None
    return Released(stream_id, applied_mark.seq, LAST_MS, sealed=True)
