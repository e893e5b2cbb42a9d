"""How far a source may read ahead of the other members of an alignment.

`clip` is pure: marks and a bound go in, a cut comes out. A batch that is run again does not ask
here: it has the offsets that were planned before.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from noted_time import NotCompleteYet, NotedTimeError, Rejected
from noted_time.wing import HeldBound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from noted_time import MarkHistory
    from noted_time.values import State
    from reader_client.connection import Connection
    from spark_integration.log_files import LogFile

    Files = dict[int, list[LogFile]]
    Json = dict[str, int | str | None]

ASK_EVERY_MS = 100
"""Spark asks for the end of the next batch a hundred times a second where there is none."""

SIGNS_OF_LIFE = 4
"""So many reports fit into the time after which a silent member is not counted."""

LEAVE_ALONE_MS = 1000
"""How long a controller that did not answer is left alone."""


def clip(marks: MarkHistory, lower: int | None, bound: int | None) -> Mapping[int, int] | None:
    """Return the cut up to which to read, `None` where nothing limits.

    `lower` is that of the last mark let in, and `marks` those known after it. With a bound it is
    the cut of the first mark with lower >= bound, so a source is ahead by the drift and one mark at
    most; at the bound it reads nothing. Whoever holds the bound is below it, so its next mark is
    always within. Before a source has a lower it reads to its first mark, which gives it one.

    >>> from noted_time import Mark, MarkHistory, StreamCut
    >>> cuts = {10: {0: 20}, 20: {0: 40, 1: 10}, 30: {0: 80, 1: 90}}
    >>> marks = MarkHistory(Mark(n, t, t, StreamCut(cuts[t])) for n, t in enumerate(cuts, 1))
    >>> clip(marks, None, None), clip(marks, 10, 15), clip(marks, 20, 20)
    ({0: 20}, {0: 40, 1: 10}, {})
    >>> clip(marks, 10, None), clip(marks, 10, 31), clip(MarkHistory(), None, 5)
    (None, None, None)
    """
    if not len(marks):
        return None if lower is None or bound is None or lower < bound else {}
    if lower is None:
        return marks.mark(marks.first_seq).cut.offsets
    if bound is None:
        return None
    if lower >= bound:
        return {}
    try:
        return marks.complete_to(bound).cut.offsets
    except NotCompleteYet:
        return None


def clipped(files: Files, start: Mapping[int, int], cut: Mapping[int, int]) -> Files:
    """Return the files of each segment up to the cut, and no less than is read already."""
    found: Files = {}
    for segment, run in files.items():
        end = max(cut.get(segment, 0), start.get(segment, 0))
        found[segment] = [
            each if each.end <= end else replace(each, end=end) for each in run if each.start < end
        ]
    return found


def through_gaps(
    ends: Mapping[int, int], files: Files, below: Files, cut: Mapping[int, int]
) -> dict[int, int]:
    """Return the ends, at the cut where all rows below it are taken and the log goes on beyond.

    A cut may lie at offsets that no row has.
    """
    found = dict(ends)
    for segment, run in files.items():
        read = below[segment][-1].end if below[segment] else 0
        beyond = run[-1].end if run else 0
        if found.get(segment, 0) >= read and beyond > cut.get(segment, 0):
            found[segment] = max(found.get(segment, 0), cut.get(segment, 0))
    return found


def is_at_end(files: Files, ends: Mapping[int, int]) -> bool:
    """Whether there is nothing left to read."""
    return all(not run or ends.get(segment, 0) >= run[-1].end for segment, run in files.items())


class Reading(NamedTuple):
    """What there is to read: files, what was read of them, marks, the lower that was let in.

    `at_end` is what the member is once all of it was read.
    """

    files: Files
    start: Mapping[int, int]
    marks: MarkHistory
    lower: int | None
    at_end: State


class Aligned(Protocol):
    """What a query says of its alignment."""

    @property
    def controller_url(self) -> str:
        """Where the controller is."""

    @property
    def stream(self) -> str:
        """The stream that is read."""

    @property
    def align(self) -> str | None:
        """The alignment, if there is one."""

    @property
    def align_as(self) -> str | None:
        """The name of the member, by default that of the stream."""


class Aligner:
    """One member of an alignment: reports where the source is, and knows how far it may read.

    While Spark asks for nothing, as during a batch, a thread says again what was said last.
    """

    def __init__(self, connection: Connection, alignment: str, member: str) -> None:
        """Report nothing yet; `connection` becomes this object's own."""
        self._connection = connection
        self._alignment = alignment
        self._member = member
        self._held = HeldBound()
        self._said: Json = {}
        self._ask_at = self._asked_at = 0
        self._has_asked = False
        self._repeat_s = LEAVE_ALONE_MS / 1000
        self._closing, self._asking = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._repeat, name="noted alignment", daemon=True)

    @classmethod
    def of(cls, query: Aligned, token: str | None) -> Aligner | None:
        """Return the member that a query's source is, `None` where it is none."""
        from reader_client.connection import Connection  # noqa: PLC0415 - likewise

        if query.align is None:
            return None
        connection = Connection(query.controller_url, query.stream, None, token)
        return cls(connection, query.align, query.align_as or query.stream)

    def bound(self, lower: int | None, state: State = "live", *, anew: bool = False) -> int | None:
        """Report and return the bound now, `None` where there is none.

        The controller is asked where there is something to say, with `anew`, and ten times a second
        at most else. While it is away the last bound holds for the alignment's timeout. Raises
        `Rejected` where it refuses at first, such as `UnknownAlignment`.
        """
        now = _now_ms()
        said: Json = {"time": lower, "state": state}
        with self._asking:
            if anew or said != self._said or now >= self._ask_at:
                self._ask(said, now)
        if self._has_asked and self._thread.ident is None:
            self._thread.start()
        return self._held.at(now)

    def ends(
        self, reading: Reading, ends_in: Callable[[Files], dict[int, int]], *, is_to_end: bool
    ) -> dict[int, int]:
        """Return the end of the next batch, no further than the alignment allows.

        `ends_in` returns it for files of which all may be read. A query that is to end says when it
        has read all.
        """
        files, start, marks, lower, at_end = reading
        first = marks.mark(marks.first_seq).lower if len(marks) else None
        said = first if lower is None else lower
        end: State = "finished" if is_to_end else at_end
        bound = self.bound(said, end if is_at_end(files, start) else "live", anew=is_to_end)
        cut = clip(marks, lower, bound)
        below = files if cut is None else clipped(files, start, cut)
        ends = {**start, **ends_in(below)}
        if cut is not None:
            ends = through_gaps(ends, files, below, cut)
        if is_to_end and is_at_end(files, ends):
            self.bound(said, "finished")
        return ends

    def close(self) -> None:
        """Stop reporting; the member is silent from now on."""
        self._closing.set()
        self._connection.hang_up()
        if self._thread.ident is not None:
            self._thread.join()
        self._connection.close()

    def _repeat(self) -> None:
        while not self._closing.wait(self._repeat_s):
            with self._asking:
                now = _now_ms()
                if now - self._asked_at >= self._repeat_s * 1000:
                    self._ask(self._said, now)

    def _ask(self, said: Json, now: int) -> None:
        # Only the planning process talks HTTP; workers are spared the import.
        from reader_client import questions  # noqa: PLC0415
        from reader_client.answers import alignment_answer  # noqa: PLC0415

        self._asked_at = now
        try:
            question = questions.align(self._alignment, self._member, dict(said))
            answer = alignment_answer(self._connection.ask(question))
        except NotedTimeError as error:
            if isinstance(error, Rejected) and not self._has_asked:
                raise
            self._ask_at = now + LEAVE_ALONE_MS
        else:
            self._held.take(answer.bound, timeout_ms=answer.member_timeout_ms, now=now)
            self._said, self._ask_at, self._has_asked = said, now + ASK_EVERY_MS, True
            self._repeat_s = answer.member_timeout_ms / 1000 / SIGNS_OF_LIFE


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
