"""The synchronous client of readers, which turns positions into time windows."""

from __future__ import annotations

import contextlib
import os
import time as clocks
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, TypeVar

from noted_time.client import run
from noted_time.client.closing import Closing
from noted_time.client.transport import Transport
from noted_time.client.wakeup import Wakeup
from noted_time.reading import CompleteWindow
from noted_time.values import Mark, NotedTimeError, Time, convert_position, unix_ms_of
from reader_client.background.repeating import Repeating
from reader_client.group.waits import Wait
from reader_client.marks.cursors import Cursor, MarkCursor
from reader_client.protocol.questions import Steps
from reader_client.reader import Reader

if TYPE_CHECKING:
    import httpx

Found = TypeVar("Found")


class ReaderClient(Closing, Reader["httpx.BaseTransport"]):
    """Follows the marks of a stream, and turns positions into time windows.

    One daemon thread per domain receives new marks by long poll. `get_time_window` searches the
    known marks, which takes microseconds.

    If the controller is unreachable, the client retries with backoff and answers from the known
    marks. Its windows may be behind, but are never wrong. If the stream is recreated, its windows
    start over.

    With a `group`, the client reports the reader's position, and its window is the group's.

    Calls that wait raise the controller's refusals: `UnknownStream`, `UnknownDomain` or
    `NotAllowed`. They raise `Unreachable` when the time is up. Failures in the background are
    logged under `noted_time.reader`. After a fault of the client itself, every later call raises
    `ClientFailed`.

    `keep_last` limits the number of known marks, which take 155 bytes each at 16 segments. A
    position behind them has no lower.

    After a fork, create a new client in the child.
    """

    def _open(self, url: str, token: str | None, network: httpx.BaseTransport | None) -> None:
        self._threads: list[Repeating] = []
        self._transport = Transport(url, token=token, transport=network)
        self._start(self._begin)

    def offline(self, position: Mapping[int, int] | None = None, *, timeout: float = 10.0) -> None:
        """Leave the group's online readers, and reset the reader's segments to `position`.

        The default is the reader's own position. `advance` brings the reader back online. Raises
        `Rejected` without a group.
        """
        start_position = convert_position(self._position if position is None else position)
        self._wait(self._waits.wait_for_leave(start_position), timeout)

    def marks(
        self, after: int = 0, domain: str | None = None, *, wait: float | None = 0.0
    ) -> Iterator[Mark]:
        """Yield the known marks with a seq above `after`, in order.

        Waits up to `wait` seconds for each new mark; `None` waits until the client is closed. If
        the stream is recreated, its marks follow from seq 1.
        """
        cursor = MarkCursor(self._following, after, domain)
        while page := self._take_page(cursor, domain, wait):
            yield from page

    def windows(  # noqa: PLR0913 - one keyword per option
        self,
        size_ms: int = 3_600_000,
        after: Time | None = None,
        domain: str | None = None,
        *,
        origin: Time = 0,
        zone: str | tzinfo = UTC,
        wait: float | None = 0.0,
    ) -> Iterator[CompleteWindow]:
        """Yield the complete windows of `size_ms`, aligned to `origin`, in order.

        With a `zone`, such as Europe/Berlin, they are on its clock, so days last 23 to 25 hours.
        `origin` is then in ms after its 1970-01-01T00:00: 345,600,000 for a Monday.

        The first window contains `after`. By default, it is the last window complete at the first
        known mark. Waits as `marks`. If the stream is recreated, its windows follow from `after`
        on. The `missing` writers are unknown while the controller is unreachable.

        Raises `Rejected` if windows of this size would overlap in the zone.
        """
        cursor = self._create_window_cursor(size_ms, (origin, zone), after, domain)
        while page := self._take_page(cursor, domain, wait):
            answer = None
            with contextlib.suppress(NotedTimeError):
                answer = self._transport.ask(cursor.ask_missing(page))
            yield from cursor.add_missing(page, answer)

    def wait_for(self, time: Time, timeout: float, domain: str | None = None) -> Mark:
        """Wait for the mark of `cut_at(time)` and return it; `timeout` is in seconds.

        Raises `NotCompleteYet` when the time is up, and `ImplausibleTime` as `cut_at`.
        """
        return self._wait(self._waits.wait_for_time(unix_ms_of(time, up=True), domain), timeout)

    def catch_up(self, timeout: float = 10.0) -> None:
        """Wait until all marks are known that existed when the client began."""
        self._wait(self._waits.wait_for_marks(), timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Send unsent reports, for at most `timeout` seconds, and end the threads.

        The reader stays in its group: call `offline` to leave it. A signal handler may call it.
        """
        if self._closing or self._pid != os.getpid():
            return
        self._closing = True
        deadline = clocks.monotonic() + timeout
        with contextlib.suppress(NotedTimeError):
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
        full_name = f"noted-time reader {self._stream} {name}"
        thread = Repeating(full_name, step, self._transport.ask, self._health)
        self._threads.append(thread)
        if self._closed:  # meanwhile, perhaps after `close` stopped the others
            thread.stop()
        thread.start()
        return thread

    def _take_page(
        self, cursor: Cursor[Found], domain: str | None, wait: float | None
    ) -> list[Found]:
        pages = self._wait_for_page(cursor, domain, wait)
        return run(pages, lambda page_wait: self._wait(page_wait, wait))

    def _wait(self, wait: Wait[Found], timeout: float | None) -> Found:
        wakeup = Wakeup()
        return run(self._waits.until_found(wait, timeout, wakeup.wake), wakeup.wait)
