"""The backlog that a reader reports, that of its group, and the callbacks at changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from noted_time.progress import UNKNOWN, BacklogState, with_reason

logger = logging.getLogger("noted_time.reader")

Callback = Callable[[BacklogState], object]


@dataclass(slots=True, eq=False)
class Said:
    """A report of the reader's backlog; compared by identity, not by value."""

    backlog: bool | None


@dataclass(slots=True)
class _Listener:
    callback: Callback
    flag: bool = False


class ReportedBacklog:
    """The backlog of a group as far as one reader knows; no thread, no clock, no network.

    The caller sets the reader's, and one thread or task reports it; neither takes a lock, since
    each replaces what it owns as a whole.

    >>> backlog = ReportedBacklog()
    >>> backlog.say(backlog=True)
    >>> backlog.state.backlog, backlog.due, backlog.take()
    (True, True, {'backlog': True})
    >>> backlog.answered(BacklogState(backlog=True, because=("reported",), since=7))
    >>> backlog.due, backlog.take()
    (False, {})
    """

    def __init__(self) -> None:
        self._said: Said | None = None
        self._acknowledged: Said | None = None
        self._under_way: Said | None = None
        self._answered = UNKNOWN
        self._listeners: list[_Listener] = []

    # The caller

    def say(self, *, backlog: bool | None) -> None:
        """Set whether the reader has a backlog; `None` withdraws it."""
        self._said = Said(backlog)

    @property
    def state(self) -> BacklogState:
        """The group's backlog as of the last answer, with what was set since."""
        said, answered = self._said, self._answered
        return with_reason(answered, reported=said.backlog if said is not None else None)

    def listen(self, callback: Callback) -> None:
        """Call `callback` at each change of the flag."""
        self._listeners.append(_Listener(callback))

    # The thread or task that reports

    @property
    def due(self) -> bool:
        """Whether there is something to report."""
        return self._said is not self._acknowledged

    def take(self) -> dict[str, bool | None]:
        """Return the backlog's part of a report."""
        self._under_way = said = self._said
        return {} if said is None or said is self._acknowledged else {"backlog": said.backlog}

    def answered(self, state: BacklogState) -> None:
        """Record the state of the group, which includes the report under way."""
        self._acknowledged = self._under_way
        self._answered = state

    def refreshed(self, state: BacklogState) -> None:
        """Record the state of the group, with nothing under way."""
        self._answered = state

    def announce(self) -> None:
        """Report it again: the controller does not know the reader."""
        self._acknowledged = None

    def left(self) -> None:
        """Withdraw what was set, as the controller does for a reader that goes offline."""
        self._said = self._acknowledged = None

    def tell(self) -> None:
        """Call the callbacks for which the flag changed; what they raise is logged."""
        state = self.state
        for listener in tuple(self._listeners):
            if listener.flag != state.backlog:
                listener.flag = state.backlog
                try:
                    listener.callback(state)
                except Exception:
                    logger.exception("a callback of on_backlog failed; the reader continues")
