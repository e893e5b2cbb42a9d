"""What a reader knows of one key's marks, and what it must ask next.

Values in, values out: the answers of the controller go in, a `MarkHistory` and the stream's
`Succession` come of it. A stream made again under its name has another id: all that was known of
the old one is dropped, as its times and offsets mean nothing in the new one.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from noted_time.errors import Rejected
from noted_time.history import MarkHistory
from noted_time.mark import TimeWindow
from noted_time.succession import ScaleEvent, Succession
from noted_time.wire import mark_from_wire, position_from_wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from noted_time.mark import Mark

Json = dict[str, Any]
NO_WINDOW = TimeWindow(None, None)


class Follower:
    """The followed marks of one key; one thread takes answers in, any may ask.

    >>> follower = Follower("default", keep_last=1000)
    >>> follower.take_stream({"id": "a", "scale_events": [], "marks": {"default": None}})
    >>> mark = {"seq": 1, "lower": 10, "upper": 14, "cut": {"0": 100}, "written_at": 0}
    >>> follower.take_marks(
    ...     {"stream_id": "a", "scale_events": 0, "marks": [{**mark, "left_out": []}]}
    ... )
    >>> follower.window({0: 150})
    TimeWindow(lower=10, upper=None, lower_seq=1, upper_seq=None)

    Until the controller is asked about the stream, and again whenever it was made anew or scaled:

    >>> follower.take_marks({"stream_id": "b", "scale_events": 0, "marks": []})
    >>> follower.needs_stream
    True
    """

    def __init__(self, key: str, *, keep_last: int) -> None:
        """Begin with nothing known; at most an eighth more than `keep_last` marks are kept."""
        if keep_last < 1:
            message = f"keep_last is {keep_last}; at least the last mark is kept"
            raise Rejected(message)
        self.key = key
        self.needs_stream = True
        self.stream_id: str | None = None
        self.caught_up = False
        self._keep_last = keep_last
        self._history = MarkHistory()
        self._succession = Succession()
        self._scale_events = 0
        self._after = 0
        self._last_known = 0
        # Searches may run while marks are appended, but not while old ones are forgotten.
        self._searching = threading.Lock()

    @property
    def after(self) -> int:
        """The seq after which to ask for marks."""
        return max(self._after, self._history.last_seq)

    # Answers

    def take_stream(self, stream: Json) -> None:
        """Take in the answer of ``GET /streams/{stream}``."""
        succession = _succession(stream["scale_events"])
        last = stream["marks"].get(self.key)
        self._last_known = last["seq"] if last else 0
        if stream["id"] != self.stream_id:
            self._history = MarkHistory()
            self._after = max(0, self._last_known - self._keep_last)
            self.caught_up = False
            self.stream_id = stream["id"]
        self._succession = succession
        self._scale_events = len(stream["scale_events"])
        self.needs_stream = False
        self._notice_caught_up()

    def take_marks(self, answer: Json) -> None:
        """Take in the answer of ``GET /streams/{stream}/marks`` after `after`.

        Marks of another stream, or with scale events that are not known yet, are not taken: ask
        about the stream first, then again for the marks.
        """
        if (answer["stream_id"], answer["scale_events"]) != (self.stream_id, self._scale_events):
            self.needs_stream = True
            return
        try:
            for wire in answer["marks"]:
                self._append(mark_from_wire(wire))
        except ValueError:
            # Another chain under the same id: a database restored from a copy.
            self._history, self._after, self.stream_id = MarkHistory(), 0, None
            self.needs_stream = True
            return
        self._forget()
        self._notice_caught_up()

    # Questions

    def window(self, position: Mapping[int, int]) -> TimeWindow:
        """Return the time window of a position."""
        if self._succession:
            position = self._succession.normalise(position)
        with self._searching:
            return self._history.window(position)

    def complete_to(self, time: int) -> Mark:
        """Return the first known mark with lower >= `time`; raises `NotCompleteYet`."""
        with self._searching:
            return self._history.complete_to(time)

    def marks_after(self, seq: int, limit: int) -> list[Mark]:
        """Return at most `limit` known marks with a seq above `seq`, in order."""
        with self._searching:
            return self._history.after(seq, limit)

    @property
    def last(self) -> Mark | None:
        """The last known mark."""
        with self._searching:
            return self._history.last

    # How it comes about

    def _append(self, mark: Mark) -> None:
        history = self._history
        if mark.seq <= history.last_seq:
            return
        if len(history) and mark.seq != history.last_seq + 1:
            # The controller forgot marks that were never followed (retention); a window needs a
            # gapless run, so it begins again here. Older positions then have no lower, never a
            # wrong one.
            self._history = history = MarkHistory()
        history.append(mark)

    def _forget(self) -> None:
        history, keep = self._history, self._keep_last
        if len(history) > keep + keep // 8:
            with self._searching:
                history.forget_through(history.last_seq - keep)

    def _notice_caught_up(self) -> None:
        if self.after >= self._last_known:
            self.caught_up = True


def _succession(events: list[Json]) -> Succession:
    succession = Succession()
    for event in events:
        sealed = position_from_wire(event["sealed"])
        created = {int(s): tuple(before) for s, before in event["created"].items()}
        # The controller has checked it; what it knew of the segments then is not told.
        succession.scale(ScaleEvent(sealed, created), known=set(sealed))
    return succession
