"""The readers' client: its position goes in, a time window comes out, all locally."""

from __future__ import annotations

import contextlib
import os
import time as clocks
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from noted_time.client import run
from noted_time.client.closing import Closing
from noted_time.client.transport import Transport
from noted_time.reading import CompleteWindow, Tiling
from noted_time.values import Mark, NotedTimeError, Time, convert_position, unix_ms_of
from reader_client.background.repeating import Repeating
from reader_client.background.wakeup import Wakeup
from reader_client.group.waits import Wait, until_found
from reader_client.marks.cursors import Cursor, MarkCursor
from reader_client.protocol.changes import ChangedWindows, collect_changed_windows
from reader_client.protocol.questions import Steps
from reader_client.reader import Reader

if TYPE_CHECKING:
    import httpx

Found = TypeVar("Found")


class ReaderClient(Closing, Reader["httpx.BaseTransport"]):
    """Follows the marks of a stream and turns positions into time windows.

    One daemon thread per domain follows by long poll, so `get_time_window` asks no controller: it
    is a search that takes microseconds. While the controller is unreachable, the client retries
    with backoff and answers from the last known history: a window may be behind, never wrong. A
    stream that was recreated under its name is noticed by its id; its windows start over.

    With a `group`, the reader's positions are reported in the background, and the window is that of
    the whole group: its last known position against the marks followed here. A reader that the
    controller no longer knows, because it was silent for too long or the group was deleted, reports
    again automatically.

    Calls that wait (`wait_for`, `catch_up`, `marks(wait=…)`, `offline`) raise refusals of the
    controller at once: `UnknownStream`, `UnknownDomain`, `NotAllowed`. An unreachable controller
    may come back, so they raise `Unreachable` when time is up, with the URL and the last error.
    Failures in the background are logged under `noted_time.reader`: outages and their ends,
    refusals, and recreated streams. After a fault of the client itself, every later call raises
    `ClientFailed`.

    The history takes 8 bytes per mark for each segment and three more numbers: 155 bytes per mark,
    measured at 16 segments. `keep_last` bounds it, with an eighth more at times; a position behind
    the marks that are kept has no lower.

    Threads end with `close`, which may be called from a signal handler; they are daemons, so a
    process need not wait for them. A client does not survive a fork: create one in the child.
    """

    def _open(self, url: str, token: str | None, network: httpx.BaseTransport | None) -> None:
        self._threads: list[Repeating] = []
        self._transport = Transport(url, token=token, transport=network)
        self._start(self._begin)

    def offline(self, position: Mapping[int, int] | None = None, *, timeout: float = 10.0) -> None:
        """Go offline, with this reader's segments reset to `position` (default: its own).

        Waits for the controller; raises its refusals, `Unreachable` after `timeout` seconds, or
        `Rejected` without a group. `advance` brings the reader back.
        """
        put_back = convert_position(self._position if position is None else position)
        self._wait(self._waits.wait_for_leave(put_back), timeout)

    def marks(
        self, after: int = 0, domain: str | None = None, *, wait: float | None = 0.0
    ) -> Iterator[Mark]:
        """Yield the marks with a seq above `after` that are kept here, in order.

        Waits up to `wait` seconds for each further mark; `None` waits until the client is closed.
        If the stream is recreated, its marks follow from seq 1. If it waits, it raises refusals of
        the controller, and `Unreachable` if the controller is unreachable when time is up.
        """
        cursor = MarkCursor(self._following, after, domain)
        while found := self._take_page(cursor, domain, wait):
            yield from found

    def windows(
        self,
        size_ms: int = 3_600_000,
        after: Time | None = None,
        domain: str | None = None,
        *,
        origin: Time = 0,
        wait: float | None = 0.0,
    ) -> Iterator[CompleteWindow]:
        """Yield the windows of `size_ms` that are complete, in order; one begins at `origin`.

        They begin with the window that `after` lies in; without it, with the last that was complete
        at the first mark kept here. Waits up to `wait` seconds for each further window, and raises
        as `marks`. If the stream is recreated, its windows follow from `after` on. Their `missing`
        writers are asked for, once per hundred windows; while the controller is unreachable they
        are not known.
        """
        cursor = self._create_window_cursor(Tiling(size_ms, unix_ms_of(origin)), after, domain)
        while found := self._take_page(cursor, domain, wait):
            answer = None
            with contextlib.suppress(NotedTimeError):
                answer = self._transport.ask(cursor.ask_missing(found))
            yield from cursor.add_missing(found, answer)

    def changed_windows(
        self, since: Time, size_ms: int = 3_600_000, domain: str | None = None, *, origin: Time = 0
    ) -> ChangedWindows:
        """Return the complete windows into which rows came late at or after a moment.

        `since` is a moment of the controller's clock, at which the rows were reported. Asks the
        controller, and raises its refusals, or `Unreachable`. One window begins at `origin`.
        """
        tiling = Tiling(size_ms, unix_ms_of(origin))
        steps = collect_changed_windows(self._stream, unix_ms_of(since), tiling, domain)
        return run(steps, self._transport.ask)

    def wait_for(self, time: Time, timeout: float, domain: str | None = None) -> Mark:
        """Return `cut_at(time)` as soon as it is known; `timeout` is in seconds.

        Raises refusals of the controller at once. When time is up: `Unreachable` if the controller
        is unreachable, otherwise `NotCompleteYet`, and as `cut_at` for a time in seconds.
        """
        return self._wait(self._waits.wait_for_time(unix_ms_of(time, up=True), domain), timeout)

    def catch_up(self, timeout: float = 10.0) -> None:
        """Wait until the marks that existed when the client (or the stream) began are known.

        Raises refusals of the controller, or `Unreachable` after `timeout` seconds.
        """
        self._wait(self._waits.wait_for_marks(), timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Report what is left to report, for at most `timeout` seconds, and end the threads.

        The reader stays in its group; `offline` leaves it. A second call does nothing. May be
        called from a signal handler.
        """
        if self._closing or self._pid != os.getpid():
            return
        self._closing = True
        deadline = clocks.monotonic() + timeout
        with contextlib.suppress(NotedTimeError):  # logged, and no caller could act upon it
            self._wait(self._waits.wait_for_reports(), timeout)
        self._closed = True
        for thread in self._threads:
            thread.stop()
        self._news.notify()
        self._transport.hang_up()
        for thread in self._threads:
            thread.join(max(0.0, deadline - clocks.monotonic()))
        self._transport.close()

    def _begin(self, name: str, step: Callable[[], Steps]) -> Repeating:
        of = f"noted-time reader {self._stream} {name}"
        thread = Repeating(of, step, self._transport.ask, self._health)
        self._threads.append(thread)
        thread.start()
        return thread

    def _take_page(
        self, cursor: Cursor[Found], domain: str | None, wait: float | None
    ) -> list[Found]:
        return run(self._wait_for_page(cursor, domain, wait), lambda each: self._wait(each, wait))

    def _wait(self, wait: Wait[Found], timeout: float | None) -> Found:
        wakeup = Wakeup()
        return run(until_found(wait, timeout, self._news, wakeup.wake), wakeup.wait)
