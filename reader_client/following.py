"""The threads that follow the marks of a stream's keys by long polls."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from noted_time.errors import UnknownKey, UnknownStream
from reader_client.follower import Follower

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from noted_time.errors import NotedTimeError
    from reader_client.connection import Connection
    from reader_client.repeating import Repeat, Repeating

AT_ONCE_S = 0.05


class Following:
    """Follows each key in a thread of its own; the last known history stays when answers stop.

    Whatever waits for news waits on `news`.
    """

    def __init__(
        self,
        connection: Connection,
        keys: Sequence[str] | None,
        *,
        keep_last: int,
        wait_ms: int,
        repeating: Repeat,
    ) -> None:
        """Begin to follow `keys`, or every declared key once the controller names them."""
        self.news = threading.Condition()
        self.followers: dict[str, Follower] = {}
        self._connection = connection
        self._keep_last = keep_last
        self._wait_ms = wait_ms
        self._repeating = repeating
        self._threads: list[Repeating] = []
        if keys is None:
            self._start("keys", self._learn_keys)
        else:
            self._follow(keys)

    def follower(self, key: str | None) -> Follower | None:
        """Return the follower of `key`, `None` while the keys are not known.

        An unnamed key is the only one followed, or `default`. Raises `UnknownKey`.
        """
        followers = self.followers
        if not followers:
            return None
        name = key or (next(iter(followers)) if len(followers) == 1 else "default")
        try:
            return followers[name]
        except KeyError:
            raise UnknownKey(name, followers) from None

    @property
    def failure(self) -> NotedTimeError | None:
        """Why an answer is missing at the moment, `None` where none is."""
        failures = (thread.failure for thread in self._threads)
        return next((failure for failure in failures if failure is not None), None)

    def stop(self) -> None:
        """Tell the threads to end, and wake whoever waits for news."""
        for thread in self._threads:
            thread.stop()
        self._notify()

    def join(self, timeout_s: float) -> None:
        """Wait for the threads to end."""
        for thread in self._threads:
            thread.join(timeout_s)

    def _follow(self, keys: Sequence[str]) -> None:
        followers = {key: Follower(key, keep_last=self._keep_last) for key in keys}
        self.followers = followers
        for follower in followers.values():
            self._start(follower.key, partial(self._poll, follower))

    def _start(self, name: str, step: Callable[[], bool]) -> None:
        thread = self._repeating(name, step, self._notify)
        self._threads.append(thread)
        thread.start()

    def _learn_keys(self) -> bool:
        self._follow(self._connection.stream()["keys"])
        return False

    def _poll(self, follower: Follower) -> bool:
        try:
            if follower.needs_stream:
                follower.take_stream(self._connection.stream())
                self._notify()
            asked_at = time.monotonic()
            answer = self._connection.marks(
                follower.key, after=follower.after, wait_ms=self._wait_ms
            )
        except UnknownStream:
            follower.needs_stream = True
            raise
        follower.take_marks(answer)
        self._notify()
        if not answer["marks"] and time.monotonic() - asked_at < AT_ONCE_S:
            # It did not wait: a controller about to stop, or something that knows no long poll.
            time.sleep(AT_ONCE_S)
        return True

    def _notify(self) -> None:
        with self.news:
            self.news.notify_all()
