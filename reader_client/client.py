"""A reader's side of noted time: its position goes in, a time window comes out, all locally."""

from __future__ import annotations

import contextlib
import random
import threading
import time as clocks
from operator import index
from typing import TYPE_CHECKING, Self

from noted_time.backoff import Backoff
from noted_time.cut import StreamCut
from noted_time.errors import NotCompleteYet, Rejected, Unreachable
from noted_time.settings import checked_name
from reader_client.connection import Connection
from reader_client.follower import NO_WINDOW
from reader_client.following import Following
from reader_client.repeating import Repeating
from reader_client.reporting import Reader, Reporting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    import httpx

    from noted_time.mark import Mark, TimeWindow
    from reader_client.follower import Follower
    from reader_client.repeating import Step

PAGE = 1000


class ReaderClient:
    """Follows the marks of a stream and turns positions into time windows.

    One daemon thread a key follows by long poll, so `get_time_window` asks nobody: it is a search
    that takes microseconds. A controller that is away is tried again with backoff, and the
    last known history goes on answering meanwhile: a window may be behind, never wrong. A stream
    that was made again under its name is noticed by its id; its windows begin anew.

    With a `group`, the reader's positions are reported in the background, and the window is that of
    the whole group: its last known position against the marks followed here.

    The history takes 8 bytes a mark for each segment and three more numbers: 155 bytes a mark
    measured at 16 segments. `keep_last` bounds it, to an eighth more; a position behind the marks
    that are kept has no lower.

    Threads end with `close`; they are daemons, so a process need not wait for them. A client does
    not survive a fork: make one in the child.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        url: str,
        stream: str,
        *,
        token: str | None = None,
        group: str | None = None,
        reader: str | None = None,
        keys: Sequence[str] | None = None,
        keep_last: int = 1_000_000,
        wait_ms: int = 25_000,
        refresh_ms: int = 500,
        backoff: Backoff | None = None,
        chance: Callable[[], float] = random.random,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Begin to follow `keys`, by default every declared one.

        `url` may be several with commas between: one is asked as long as it answers.
        `token` is shown to the controller, by default that of the variable NOTED_TIME_TOKEN.
        `wait_ms` (at most 30000) is how long one poll may wait; `refresh_ms` how often a group's
        position is asked for when there is nothing to report. Raises `InvalidName`, or `Rejected`
        where only one of `group` and `reader` is given.
        """
        _check_names(stream, group, reader, keys)
        self._position: dict[int, int] = {}
        self._advancing = threading.Lock()
        self._closed = False
        self._connection = Connection(url, stream, transport, token)

        def repeating(name: str, step: Step, on_failure: Callable[[], None]) -> Repeating:
            named = f"noted-time reader {stream} {name}"
            return Repeating(named, step, backoff or Backoff(), chance, on_failure)

        self._following = Following(
            self._connection, keys, keep_last=keep_last, wait_ms=wait_ms, repeating=repeating
        )
        self._reporting: Reporting | None = None
        if group is not None and reader is not None:
            self._reporting = Reporting(
                self._connection,
                Reader(group, reader),
                refresh_s=refresh_ms / 1000,
                repeating=repeating,
            )

    # Where I am

    @property
    def position(self) -> dict[int, int]:
        """This reader's own position: segment → exclusive offset."""
        return dict(self._position)

    def advance(self, position: Mapping[int, int]) -> None:
        """Set how far I have read in these segments; others keep their offsets.

        A segment may be set back. Raises `Rejected` for numbers outside int64.
        """
        offsets = _plain(position)
        with self._advancing:
            self._position = {**self._position, **offsets}
        if self._reporting is not None:
            self._reporting.report(offsets)

    def offline(self, position: Mapping[int, int] | None = None, *, timeout: float = 10.0) -> None:
        """Leave the group's readers, with my segments put back to `position` (default: mine).

        Waits for the controller; raises `Unreachable` after `timeout` seconds, `Rejected` without
        a group. `advance` brings the reader back.
        """
        if self._reporting is None:
            message = "this reader belongs to no group to go offline from"
            raise Rejected(message)
        put_back = _plain(self._position if position is None else position)
        self._reporting.go_offline(put_back, timeout)

    # What time it is there

    def get_time_window(self, key: str | None = None) -> TimeWindow:
        """Return the time window of my position, or of my group's; asks nobody.

        Both bounds are `None` until the first marks (and, in a group, its position) are known.
        Raises `UnknownKey` where the key is not followed.
        """
        follower = self._following.follower(key)
        if self._reporting is None:
            return NO_WINDOW if follower is None else follower.window(self._position)
        position = self._reporting.position
        return NO_WINDOW if follower is None or position is None else follower.window(position)

    def window_at(self, position: Mapping[int, int], key: str | None = None) -> TimeWindow:
        """Return the time window of any position; raises as `get_time_window`."""
        follower = self._following.follower(key)
        return NO_WINDOW if follower is None else follower.window(position)

    def cut_at(self, time: int, key: str | None = None) -> Mark:
        """Return the first mark with lower >= `time`: whoever reaches its cut has it all.

        Raises `NotCompleteYet` where no such mark is known here.
        """
        follower = self._following.follower(key)
        if follower is None:
            raise NotCompleteYet(time, None)
        return follower.complete_to(time)

    def last_mark(self, key: str | None = None) -> Mark | None:
        """Return the last mark known here."""
        follower = self._following.follower(key)
        return None if follower is None else follower.last

    def marks(
        self, after: int = 0, key: str | None = None, *, wait: float | None = 0.0
    ) -> Iterator[Mark]:
        """Yield the marks with a seq above `after` that are kept here, in order.

        Waits up to `wait` seconds for each further one; `None` waits until the client is closed.
        When the stream is made again, its marks follow from seq 1.
        """
        stream_id: str | None = None
        while True:
            found, stream_id_now = self._marks_after(after, key)
            if stream_id is not None and stream_id_now != stream_id:
                after, stream_id = 0, stream_id_now
                continue
            stream_id = stream_id_now
            for mark in found:
                yield mark
                after = mark.seq
            if not found and not self._news_within(wait, key, after, stream_id):
                return

    def wait_for(self, time: int, timeout: float, key: str | None = None) -> Mark:
        """Return `cut_at(time)` as soon as it is known.

        Raises `NotCompleteYet` after `timeout` seconds, from what kept the answers away, if it did.
        """
        self._wait(lambda: self._is_complete(time, key), timeout)
        try:
            return self.cut_at(time, key)
        except NotCompleteYet as error:
            raise error from self._following.failure

    def catch_up(self, timeout: float = 10.0) -> None:
        """Wait until the marks there were when the client began (or the stream) are known.

        Raises what the controller refused, or `Unreachable` after `timeout` seconds.
        """
        self._wait(lambda: self._is_caught_up() or self._refusal() is not None, timeout)
        refusal = self._refusal()
        if refusal is not None:
            raise refusal
        if not self._is_caught_up():
            failure = self._following.failure
            message = f"the marks are not known within {timeout:g} s: {failure or 'no answer'}"
            raise Unreachable(message) from failure

    def close(self, timeout: float = 5.0) -> None:
        """Report what is left to report, for at most `timeout` seconds, and end the threads.

        The reader stays in its group; `offline` leaves it. A second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        if self._reporting is not None:
            with contextlib.suppress(Unreachable):
                self._reporting.flush(timeout)
            self._reporting.stop()
        self._following.stop()
        self._connection.hang_up()
        self._following.join(timeout)
        if self._reporting is not None:
            self._reporting.join(timeout)
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Waiting

    def _marks_after(self, seq: int, key: str | None) -> tuple[list[Mark], str | None]:
        follower = self._following.follower(key)
        if follower is None:
            return [], None
        return follower.marks_after(seq, PAGE), follower.stream_id

    def _news_within(
        self, wait: float | None, key: str | None, after: int, stream_id: str | None
    ) -> bool:
        def has_more() -> bool:
            follower = self._following.follower(key)
            return follower is not None and _is_news(follower, after, stream_id)

        return self._wait(has_more, wait)

    def _is_complete(self, time: int, key: str | None) -> bool:
        follower = self._following.follower(key)
        last = None if follower is None else follower.last
        return last is not None and last.lower >= time

    def _is_caught_up(self) -> bool:
        followers = self._following.followers
        return bool(followers) and all(each.caught_up for each in followers.values())

    def _refusal(self) -> Rejected | None:
        failure = self._following.failure
        return failure if isinstance(failure, Rejected) else None

    def _wait(self, done: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for news until `done`; false when time is up or the client is closed."""
        deadline = None if timeout is None else clocks.monotonic() + timeout
        with self._following.news:
            while not done():
                left = None if deadline is None else deadline - clocks.monotonic()
                if self._closed or (left is not None and left <= 0):
                    return False
                self._following.news.wait(left)
        return True


def _plain(position: Mapping[int, int]) -> Mapping[int, int]:
    """Return the position in plain ints, as JSON takes no others; raises `Rejected`."""
    return StreamCut({index(s): index(offset) for s, offset in position.items()}).offsets


def _is_news(follower: Follower, after: int, stream_id: str | None) -> bool:
    last = follower.last
    made_again = stream_id is not None and follower.stream_id != stream_id
    return made_again or (last is not None and last.seq > after)


def _check_names(
    stream: str, group: str | None, reader: str | None, keys: Sequence[str] | None
) -> None:
    checked_name("stream", stream)
    if (group is None) != (reader is None):
        message = "a reader of a group has both: the name of the group and its own"
        raise Rejected(message)
    for what, name in (("group", group), ("reader", reader), *(("key", k) for k in keys or ())):
        if name is not None:
            checked_name(what, name)
