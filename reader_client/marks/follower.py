"""Keeps the known marks of one domain up to date, without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from noted_time.answers import MarksAnswer
from noted_time.progress import SegmentTimes
from noted_time.reading import (
    CompleteWindow,
    MarkHistory,
    Tiling,
    check_time,
    check_windows,
    find_complete_windows,
)
from noted_time.values import Mark, Succession, TimeWindow, UnknownDomain
from reader_client.protocol.answers import StreamReply

NO_WINDOW = TimeWindow(None, None)


class StartMark(NamedTuple):
    """The first mark to follow, in a stream with this creation id."""

    stream_id: str
    seq: int


ALL_MARKS = StartMark("", 0)


class Follower:
    """The known marks of one domain: one thread applies answers, any thread may read.

    If the stream is recreated, all marks are dropped.

    >>> from noted_time import Mark, StreamCut
    >>> from noted_time.answers import MarksAnswer
    >>> from reader_client.protocol.answers import StreamReply
    >>> settings = {"reader_timeout_ms": 60_000, "writer_retention_ms": 1, "max_time_ahead_ms": 1}
    >>> stream = StreamReply(
    ...     id="a",
    ...     domains=("default",),
    ...     scale_events=(),
    ...     marks={"default": None},
    ...     seal=None,
    ...     logs=(),
    ...     **settings,
    ... )
    >>> mark = Mark(1, lower=10, upper=14, cut=StreamCut({0: 100}))
    >>> follower = Follower("default", keep_last=1000)
    >>> follower.take_stream(stream)
    >>> follower.take_marks(MarksAnswer(stream_id="a", scale_events=0, marks=(mark,)))
    >>> follower.window({0: 150})
    TimeWindow(lower=10, upper=None, lower_seq=1, upper_seq=None, sealed=False)
    """

    def __init__(self, domain: str, *, keep_last: int, since: StartMark = ALL_MARKS) -> None:
        self.domain = domain
        self.needs_stream = True
        self.stream_id: str | None = None
        self.caught_up = False
        self.was_at_end = False
        self.chain = 0
        self.restarted_at = 0
        self._keep_last = keep_last
        self._since = since
        self._taken = 0
        # Replaced or appended to, so that threads can search without a lock.
        self._history = MarkHistory()
        self.succession = Succession()
        self._scale_events = 0
        self._are_unix_ms = False
        self._after = 0
        self._last_known = 0
        self.is_quiet = False
        self.logs: tuple[str, ...] = ()
        self.first_lower: int | None = None

    @property
    def after(self) -> int:
        return max(self._after, self._history.last_seq)

    def take_stream(self, stream: StreamReply) -> None:
        if self.domain not in stream.domains:
            raise UnknownDomain(self.domain, stream.domains)
        self._last_known = stream.last_seqs.get(self.domain, 0)
        if stream.id != self.stream_id:
            self._replace(MarkHistory())
            self._after = self._first_of_interest(stream)
            self.restarted_at = self._last_known
            self.caught_up = self.was_at_end = False
            self.stream_id = stream.id
        self.succession = stream.build_succession()
        self._scale_events = len(stream.scale_events)
        self._are_unix_ms = stream.are_unix_ms
        self.needs_stream = False
        self._notice_caught_up()

    def take_marks(self, answer: MarksAnswer) -> None:
        if (answer.stream_id, answer.scale_events) != (self.stream_id, self._scale_events):
            self.needs_stream = True
            return
        if not self._continue(answer):
            # The database was restored from a copy.
            self._replace(MarkHistory())
            self._after = 0
            self.stream_id = None
            self._since = ALL_MARKS
            self.needs_stream = True
            self.caught_up = False
            return
        self.is_quiet = answer.quiet
        self.logs = answer.logs
        self.first_lower = answer.first_lower
        if answer.final_cut is not None and (not answer.marks or answer.marks[-1].final):
            self._history.seal(answer.final_cut)
        self.was_at_end = self.was_at_end or not answer.marks or self.is_sealed
        self._forget()
        self._notice_caught_up()

    def window(self, position: Mapping[int, int]) -> TimeWindow:
        if self.succession:
            position = self.succession.normalise(position)
        return self._history.window(position)

    def times(self, position: Mapping[int, int]) -> SegmentTimes:
        return SegmentTimes(self._history, self.succession, position)

    def complete_to(self, time: int) -> Mark:
        if self._are_unix_ms:
            check_time(time, self._history.last_lower)
        return self._history.complete_to(time)

    def marks_after(self, seq: int, limit: int) -> list[Mark]:
        return self._history.after(seq, limit)

    def complete_windows(
        self, tiling: Tiling, after: int | None, limit: int
    ) -> list[CompleteWindow]:
        if self._are_unix_ms:
            check_windows(after, tiling, self._history)
        return list(find_complete_windows(self._history, tiling, after=after, limit=limit))

    def take_new(self) -> list[Mark]:
        """Return the marks since the last call, and keep only the last one."""
        history = self._history
        new_marks = history.after(self._taken, len(history))
        self._taken = history.last_seq
        if len(history) > 1:
            self._history = history.latest(1)
        return new_marks

    @property
    def last(self) -> Mark | None:
        return self._history.last

    @property
    def final_cut(self) -> Mapping[int, int] | None:
        return self._history.final_cut

    @property
    def is_sealed(self) -> bool:
        return self.final_cut is not None

    # The history

    def _continue(self, answer: MarksAnswer) -> bool:
        try:
            for mark in answer.marks:
                self._append(mark)
        except ValueError:
            return False
        return not answer.ahead_of_stream

    def _replace(self, history: MarkHistory) -> None:
        self._history = history
        self.chain += 1
        self._taken = 0

    def _first_of_interest(self, stream: StreamReply) -> int:
        first_seq = max(0, self._last_known - self._keep_last)
        if stream.id != self._since.stream_id:
            return first_seq
        return max(first_seq, self._since.seq)

    def _append(self, mark: Mark) -> None:
        history = self._history
        if mark.seq <= history.last_seq:
            return
        if len(history) and mark.seq != history.last_seq + 1:
            # Retention deleted marks that were not followed. Windows need marks without gaps, so
            # the history restarts: older positions have no lower.
            history = self._history = MarkHistory()
        history.append(mark)

    def _forget(self) -> None:
        limit = self._keep_last
        if len(self._history) > limit + limit // 8:
            self._history = self._history.latest(limit)

    def _notice_caught_up(self) -> None:
        if self.after >= self._last_known:
            self.caught_up = True
