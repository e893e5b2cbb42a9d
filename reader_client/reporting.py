"""The thread that reports a reader's position to its group and learns where the group stands."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noted_time.errors import NotAllowed, Rejected, UnknownStream, Unreachable
from noted_time.wire import position_from_wire
from reader_client.reports import Reports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reader_client.connection import Connection
    from reader_client.repeating import Repeat, Repeating


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader of one group, by name."""

    group: str
    name: str


class Reporting:
    """Reports in the background, and asks for the group's position each `refresh_s`."""

    def __init__(
        self,
        connection: Connection,
        reader: Reader,
        *,
        refresh_s: float,
        repeating: Repeat,
    ) -> None:
        """Announce the reader."""
        self._connection = connection
        self._reader = reader
        self._refresh_s = refresh_s
        self._changed = threading.Condition()
        self._reports = Reports()
        self._offline: Mapping[int, int] | None = None
        self._busy = False
        self._next_refresh = 0.0
        self._thread: Repeating = repeating("group", self._step, self._notify)
        self._thread.start()

    @property
    def position(self) -> Mapping[int, int] | None:
        """The position of the group as far as it is known, `None` before the first answer."""
        return self._reports.position

    def report(self, position: Mapping[int, int]) -> None:
        """Report how far the reader has read; returns at once."""
        with self._changed:
            self._offline = None
            self._reports.report(position)
            self._changed.notify_all()

    def go_offline(self, position: Mapping[int, int], timeout_s: float) -> None:
        """Put the reader's segments back to `position`; raises `Unreachable` when time is up."""
        with self._changed:
            self._offline = position
            self._changed.notify_all()
        self._wait(lambda: self._offline is None, timeout_s)

    def flush(self, timeout_s: float) -> None:
        """Wait until all reports have arrived; raises `Unreachable` when time is up."""
        self._wait(lambda: not self._busy and not self._reports.due, timeout_s)

    def stop(self) -> None:
        """Tell the thread to end."""
        self._thread.stop()
        self._notify()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(timeout_s)

    def _wait(self, done: Callable[[], bool], timeout_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(done, timeout_s):
                failure = self._thread.failure
                message = f"the group was not told within {timeout_s:g} s: {failure or 'no answer'}"
                raise Unreachable(message) from failure

    # The thread

    def _step(self) -> bool:
        with self._changed:
            self._changed.wait_for(self._has_work, self._next_refresh - time.monotonic())
            if self._thread.is_stopping:
                return False
            due, offline = self._reports.due, self._offline
        if due:
            self._report()
        if offline is not None:
            self._go_offline(offline)
        elif not due:
            self._refresh()
        self._next_refresh = time.monotonic() + self._refresh_s
        return True

    def _has_work(self) -> bool:
        return self._reports.due or self._offline is not None or self._thread.is_stopping

    def _report(self) -> None:
        with self._changed:
            position = self._reports.take()
            self._busy = True
        try:
            answer = self._connection.report(self._reader.group, self._reader.name, position)
        except BaseException:
            with self._changed:
                self._reports.put_back()
                self._busy = False
            raise
        self._answered(answer)

    def _go_offline(self, position: Mapping[int, int]) -> None:
        try:
            answer = self._connection.offline(self._reader.group, self._reader.name, position)
            self._answered(answer)
        except (UnknownStream, NotAllowed):
            raise
        except Rejected:
            pass  # no such reader is online, which is what was asked for
        with self._changed:
            if self._offline is position:
                self._offline = None
            self._changed.notify_all()

    def _refresh(self) -> None:
        try:
            answer = self._connection.group(self._reader.group)
        except (UnknownStream, NotAllowed):
            raise
        except Rejected:
            # The stream was made again and knows no readers.
            with self._changed:
                self._reports.announce()
            return
        self._answered(answer)

    def _answered(self, answer: Mapping[str, Mapping[str, int]]) -> None:
        position = position_from_wire(answer["position"])
        with self._changed:
            self._reports.answered(position)
            self._busy = False
            self._changed.notify_all()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
