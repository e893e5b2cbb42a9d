"""How far a source may read ahead of the other members of an alignment.

`clip` is pure: marks and a bound go in, a cut comes out. A batch that is run again is not planned
again: it has the offsets of its first run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from noted_time import MarkHistory, NotCompleteYet, NotedTimeError, Rejected
from noted_time.client.transport import Transport
from noted_time.progress import HeldBound
from noted_time.values import State
from spark_integration.log.plan import Plan

if TYPE_CHECKING:
    Where = dict[str, int | str | None]

ASK_EVERY_MS = 100
"""How often the controller is asked at most: Spark asks for an end a hundred times a second."""

SIGNS_OF_LIFE = 4
"""Number of reports within the time after which a silent member is not counted."""

LEAVE_ALONE_MS = 1000
"""How long to wait before asking a controller again that did not answer."""


def clip(marks: MarkHistory, lower: int | None, bound: int | None) -> Mapping[int, int] | None:
    """Return the cut up to which to read, `None` if nothing limits.

    `lower` is that of the last mark let in, and `marks` those known after it. With a bound it is
    the cut of the first mark with lower >= bound, so a source is ahead by the drift and one mark at
    most; at the bound it reads nothing. The member that holds the bound is below it, so its next
    mark is always within. Before a source has a lower it reads to its first mark, which gives it
    one.

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


class Aligner:
    """One member of an alignment: reports how far the source is, and knows how far it may read.

    While Spark asks for nothing, as during a batch, a thread repeats the last report.
    """

    def __init__(self, transport: Transport, alignment: str, member: str) -> None:
        """Report nothing yet; the transport is closed with this object."""
        self._transport = transport
        self._alignment = alignment
        self._member = member
        self._held = HeldBound()
        self._said: Where = {}
        self._ask_at = self._asked_at = 0
        self._has_asked = False
        self._repeat_s = LEAVE_ALONE_MS / 1000
        self._closing, self._asking = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._repeat, name="noted alignment", daemon=True)

    def bound(self, lower: int | None, state: State = "live", *, anew: bool = False) -> int | None:
        """Report and return the bound now, `None` if there is none.

        The controller is asked if the report differs from the last one, with `again`, and otherwise
        ten times a second at most. While it is unreachable the last bound holds for the alignment's
        timeout. Raises `Rejected` if it refuses the first report, such as `UnknownAlignment`.
        """
        now = _now_ms()
        said: Where = {"time": lower, "state": state}
        with self._asking:
            if anew or said != self._said or now >= self._ask_at:
                self._ask(said, now)
        if self._has_asked and self._thread.ident is None:
            self._thread.start()
        return self._held.at(now)

    def __call__(self, plan: Plan) -> Plan:
        """Read no further than the alignment allows, and report how far the query is.

        A query that has to end reports when it has read everything.
        """
        marks, lower = plan.marks.history, plan.released.lower
        said = lower if lower is not None or marks.first is None else marks.first.lower
        at_end: State = "finished" if plan.is_to_end else plan.marks.at_end
        state = at_end if plan.unread.is_empty else "live"
        cut = clip(marks, lower, self.bound(said, state, anew=plan.is_to_end))
        return plan if cut is None else plan.upto(cut)

    def close(self) -> None:
        """Stop reporting; the member is silent from now on."""
        self._closing.set()
        self._transport.hang_up()
        if self._thread.ident is not None:
            self._thread.join()
        self._transport.close()

    def _repeat(self) -> None:
        while not self._closing.wait(self._repeat_s):
            with self._asking:
                now = _now_ms()
                if now - self._asked_at >= self._repeat_s * 1000:
                    self._ask(self._said, now)

    def _ask(self, said: Where, now: int) -> None:
        # Only the planning process talks HTTP; workers are spared the import.
        from reader_client.asking import questions  # noqa: PLC0415
        from reader_client.asking.answers import alignment_answer  # noqa: PLC0415

        self._asked_at = now
        try:
            question = questions.align(self._alignment, self._member, dict(said))
            answer = alignment_answer(self._transport.ask(question))
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
