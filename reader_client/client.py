"""A reader's side of noted time: its position goes in, a time window comes out, all locally."""

from __future__ import annotations

import contextlib
import os
import time as clocks
from typing import TYPE_CHECKING, Self, TypeVar

from noted_time.client import Backoff, Question, run
from noted_time.client.transport import Transport
from noted_time.reading import Tiling
from noted_time.values import NotedTimeError, Rejected, plain_position, unix_ms_of
from reader_client.reading import Reading
from reader_client.repeating import Repeating, own_chance
from reader_client.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    import httpx

    from noted_time.reading import CompleteWindow
    from noted_time.values import Mark, Time
    from reader_client.questions import Json, Pause, Steps
    from reader_client.waits import Pages, Wait

Found = TypeVar("Found")


class ReaderClient(Reading):
    """Follows the marks of a stream and turns positions into time windows.

    One daemon thread a domain follows by long poll, so `get_time_window` asks nobody: it is a
    search that takes microseconds. A controller that is away is tried again with backoff, and the
    last known history goes on answering meanwhile: a window may be behind, never wrong. A stream
    that was made again under its name is noticed by its id; its windows begin anew.

    With a `group`, the reader's positions are reported in the background, and the window is that of
    the whole group: its last known position against the marks followed here. A reader that the
    controller no longer knows, as it was silent for too long or the group was deleted, reports
    again by itself.

    Calls that wait (`wait_for`, `catch_up`, `marks(wait=…)`, `offline`) raise at once what the
    controller refuses: `UnknownStream`, `UnknownDomain`, `NotAllowed`. A controller that is away
    may come back, so they raise `Unreachable` when time is up, with the URL and the last error.
    What goes wrong in the background is logged, under `noted_time.reader`: when answers stop and
    when they are back, refusals, and streams made again. A fault of the client itself raises
    `ClientFailed` from every later call.

    The history takes 8 bytes a mark for each segment and three more numbers: 155 bytes a mark
    measured at 16 segments. `keep_last` bounds it, to an eighth more; a position behind the marks
    that are kept has no lower.

    Threads end with `close`, which may be called from a signal handler; they are daemons, so a
    process need not wait for them. A client does not survive a fork: make one in the child.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        url: str,
        stream: str,
        *,
        token: str | None = None,
        group: str | None = None,
        reader: str | None = None,
        domains: Sequence[str] | None = None,
        keep_last: int = 1_000_000,
        wait_ms: int = 25_000,
        refresh_ms: int = 500,
        align: str | None = None,
        align_as: str | None = None,
        backoff: Backoff | None = None,
        chance: Callable[[], float] = own_chance,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Begin to follow `domains`, by default every declared one.

        `url` may be several with commas between: one is asked as long as it answers.
        `token` is shown to the controller, by default that of the variable NOTED_TIME_TOKEN.
        `wait_ms` (at most 30000) is how long one poll may wait; `refresh_ms` how often a group's
        position is asked for when there is nothing to report. `align` names the alignment that
        `may_read` obeys; the reader is its member `align_as`, by default the name of the stream,
        with its own time or that of its group. Raises `InvalidName`, or `Rejected`
        where a URL is none, or only one of `group` and `reader` is given.
        """
        super().__init__(
            url,
            stream,
            group=group,
            reader=reader,
            domains=domains,
            keep_last=keep_last,
            wait_ms=wait_ms,
            refresh_ms=refresh_ms,
            align=align,
            align_as=align_as,
        )
        self._backoff = backoff or Backoff()
        self._chance = chance
        self._threads: list[Repeating] = []
        self._transport = Transport(url, token=token, transport=transport)
        self._start(self._begin)

    def offline(self, position: Mapping[int, int] | None = None, *, timeout: float = 10.0) -> None:
        """Leave the group's readers, with my segments put back to `position` (default: mine).

        Waits for the controller; raises what it refuses, `Unreachable` after `timeout` seconds, or
        `Rejected` without a group. `advance` brings the reader back.
        """
        put_back = plain_position(self._position if position is None else position)
        self._wait(self._waits.leaving(put_back), timeout)

    def marks(
        self, after: int = 0, domain: str | None = None, *, wait: float | None = 0.0
    ) -> Iterator[Mark]:
        """Yield the marks with a seq above `after` that are kept here, in order.

        Waits up to `wait` seconds for each further one; `None` waits until the client is closed.
        When the stream is made again, its marks follow from seq 1. Where it waits, raises what the
        controller refuses, and `Unreachable` where it was away when time is up.
        """
        cursor = self._waits.cursor(after, domain)
        while found := self._next_page(cursor, domain, wait):
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

        They begin with the one that `after` lies in; without it, with the last that was complete at
        the first mark kept here. Waits up to `wait` seconds for each further one, and raises as
        `marks`. When the stream is made again, its windows follow from `after` on.

        The controller is asked once for each hundred who is `missing` from them; while it is away
        that is not known.
        """
        cursor = self._waits.window_cursor(Tiling(size_ms, unix_ms_of(origin)), after, domain)
        while found := self._next_page(cursor, domain, wait):
            answer = None
            with contextlib.suppress(NotedTimeError):
                answer = self._transport.ask(cursor.about_missing(found))
            yield from cursor.with_missing(found, answer)

    def wait_for(self, time: Time, timeout: float, domain: str | None = None) -> Mark:
        """Return `cut_at(time)` as soon as it is known; `timeout` is in seconds.

        Raises at once what the controller refuses. When time is up: `Unreachable` where the
        controller is away, else `NotCompleteYet`, and as `cut_at` for a time in seconds.
        """
        return self._wait(self._waits.completeness(unix_ms_of(time, up=True), domain), timeout)

    def catch_up(self, timeout: float = 10.0) -> None:
        """Wait until the marks there were when the client began (or the stream) are known.

        Raises what the controller refuses, or `Unreachable` after `timeout` seconds.
        """
        self._wait(self._waits.catching_up(), timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Report what is left to report, for at most `timeout` seconds, and end the threads.

        The reader stays in its group; `offline` leaves it. A second call does nothing. May be
        called from a signal handler.
        """
        if self._closing or self._pid != os.getpid():
            return
        self._closing = True
        deadline = clocks.monotonic() + timeout
        with contextlib.suppress(NotedTimeError):  # logged, and there is nobody to act upon it
            self._wait(self._waits.reporting(), timeout)
        self._closed = True
        for thread in self._threads:
            thread.stop()
        self._news.notify()
        self._transport.hang_up()
        for thread in self._threads:
            thread.join(max(0.0, deadline - clocks.monotonic()))
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Threads

    def _begin(self, name: str, step: Callable[[], Steps]) -> Repeating:
        def perform(effect: Question | Pause) -> Json:
            if isinstance(effect, Question):
                answer = self._transport.ask(effect)
                thread.attempts.had_answer = True
                return answer
            thread.pause(effect.seconds)
            return {}

        thread = Repeating(
            f"noted-time reader {self._stream} {name}",
            lambda: run(step(), perform),
            self._backoff,
            self._chance,
            self._news.notify,
            health=self._health,
        )
        self._threads.append(thread)
        thread.start()
        return thread

    # Waiting

    def _next_page(
        self, cursor: Pages[Found], domain: str | None, wait: float | None
    ) -> Sequence[Found]:
        """Return what comes next, waiting for it; nothing where time is up."""
        while True:
            self._health.check()
            found = cursor.page()
            if found or self._closed or wait == 0 or not self._further(cursor, domain, wait):
                return found

    def _further(self, cursor: Pages[object], domain: str | None, wait: float | None) -> bool:
        try:
            return self._wait(self._waits.further(cursor, domain), wait)
        except Rejected:
            if self._closed:
                return False
            raise

    def _wait(self, wait: Wait[Found], timeout: float | None) -> Found:
        deadline = None if timeout is None else clocks.monotonic() + timeout
        wakeup = Wakeup()
        self._news.listen(wakeup.wake)
        try:
            while (found := wait.look()) is None:
                left = None if deadline is None else deadline - clocks.monotonic()
                if timeout is not None and left is not None and left <= 0:
                    return wait.give_up(timeout)
                wakeup.wait(left)
        finally:
            self._news.forget(wakeup.wake)
        return found
