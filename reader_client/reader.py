"""The calls of a reader that ask no controller."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import tzinfo
from operator import index
from typing import Any, Generic, TypeVar

from noted_time.client import Backoff
from noted_time.client.arguments import refuse_url
from noted_time.progress import BacklogState, Lag, SegmentTimes
from noted_time.reading import Tiling
from noted_time.values import (
    DAY_MS,
    Mark,
    NotCompleteYet,
    Rejected,
    Time,
    TimeWindow,
    Unreadable,
    convert_position,
    parse_duration,
    parse_zone,
    unix_ms_of,
    validate_name,
)
from reader_client.background.news import News
from reader_client.background.repeating import Begin, Health, Repeated
from reader_client.group.reporting import ReaderName, Reporting
from reader_client.group.reports import drop_segments
from reader_client.group.waits import Wait, Waits
from reader_client.marks.cursors import Cursor, WindowCursor
from reader_client.marks.follower import NO_WINDOW, Follower
from reader_client.marks.following import Following

Network = TypeVar("Network")
Found = TypeVar("Found")


class Reader(ABC, Generic[Network]):
    """The base of the reader clients; its public calls do not wait."""

    @refuse_url("stream, controller=URL")
    def __init__(  # noqa: PLR0913 - one keyword for each choice
        self,
        stream: str,
        *,
        controller: str,
        token: str | None = None,
        group: str | None = None,
        reader: str | None = None,
        domains: Sequence[str] | None = None,
        keep_last: int = 1_000_000,
        wait_ms: int = 25_000,
        refresh_ms: int = 500,
        backoff: Backoff | None = None,
        transport: Network | None = None,
    ) -> None:
        """Create a client that follows `domains`, by default every declared domain.

        `controller` is the controller's URL, or several, separated by commas. The client uses one
        as long as it answers.
        The default `token` is the environment variable NOTED_TIME_TOKEN. `wait_ms` is the longest
        time of one long poll, at most 30000. `refresh_ms` is the longest time between requests for
        a group's position.
        """
        if (group is None) != (reader is None):
            raise Rejected("a reader of a group needs both names: group= and reader=")
        self._stream = stream
        self._position: dict[int, int] = {}
        self._advancing = threading.RLock()
        self._closing = False
        self._closed = False
        self._pid = os.getpid()
        self._news = News()
        self._reporting: Reporting | None = None
        if group is not None and reader is not None:
            reader_name = ReaderName(
                stream, validate_name("group", group), validate_name("reader", reader)
            )
            self._reporting = Reporting(reader_name, refresh_s=refresh_ms / 1000, news=self._news)
        suffix = f" ({self._reporting.reader})" if self._reporting is not None else ""
        client = f"the reader of stream {stream!r}{suffix}"
        self._health = Health(client, backoff or Backoff(), self._news.notify)
        self._following = Following(
            stream,
            domains,
            keep_last=keep_last,
            wait_ms=wait_ms,
            news=self._news,
            on_stream=self._reporting.learn if self._reporting else lambda _: None,
        )
        self._waits = Waits(
            self._following, self._reporting, self._news, url=controller, check=self._check_usable
        )
        self._open(controller, token, transport)

    @abstractmethod
    def _open(self, url: str, token: str | None, network: Network | None) -> None: ...

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self._stream

    @property
    def position(self) -> dict[int, int]:
        """The reader's own position: segment → exclusive offset."""
        return dict(self._position)

    def advance(self, position: Mapping[int, int]) -> None:
        """Set how far this reader has read in the given segments; other offsets do not change.

        An offset may be lower than before. In a group, raises `Rejected` after `close`.
        """
        offsets = convert_position(position)
        self._health.check()
        with self._advancing:
            self._position = {**self._position, **offsets}
            if self._reporting is not None:
                self._check_usable()
                self._reporting.report(offsets)

    def release(self, segments: Iterable[int]) -> None:
        """Remove the segments from the reader's position, because another reader now reads them.

        The group keeps their offsets until the other reader reports its own.
        """
        released_segments = frozenset(segments)
        with self._advancing:
            self._position = drop_segments(self._position, released_segments)
            if self._reporting is not None:
                self._reporting.release(released_segments)

    def set_backlog(self, backlog: bool | None) -> None:  # noqa: FBT001 - the only argument
        """Report whether this reader has a backlog; `None` withdraws the report (FLIP-309).

        The group has a backlog while any of its online readers reports one. `offline` withdraws it.
        Raises `Rejected` without a group.
        """
        reporting = self._get_reporting()
        self._check_usable()
        reporting.backlog.set_backlog(backlog=backlog)
        reporting.wake()

    def backlog(self) -> BacklogState:
        """Return whether the group has a backlog, why, and since when (Unix ms).

        Combines the controller's last answer with later calls of `set_backlog`.
        """
        self._health.check()
        return self._get_reporting().backlog.state

    def on_backlog(self, callback: Callable[[BacklogState], object]) -> None:
        """Call `callback` with the state each time the group's backlog begins or ends.

        It is called soon if there is a backlog now. It runs in the reporting thread or the loop, so
        it must be quick; its errors are logged.
        """
        reporting = self._get_reporting()
        self._check_usable()
        reporting.backlog.listen(callback)
        reporting.wake()

    def get_time_window(self, domain: str | None = None) -> TimeWindow:
        """Return the time window of this reader's position, or of its group's position.

        Both bounds are `None` until the marks, and in a group its position, are known. If the
        controller refuses, raises its error: `UnknownStream`, `UnknownDomain`, `NotAllowed`, or
        `Rejected` for a full group.
        """
        follower = self._get_follower(domain)
        position = self._get_read_position()
        if follower is None or position is None:
            return NO_WINDOW
        return follower.window(position)

    def window_at(self, position: Mapping[int, int], domain: str | None = None) -> TimeWindow:
        """Return the time window of a position."""
        follower = self._get_follower(domain)
        return NO_WINDOW if follower is None else follower.window(position)

    def cut_at(self, time: Time, domain: str | None = None) -> Mark:
        """Return the first known mark with lower >= `time`.

        All events before `time` are below its cut. Raises `NotCompleteYet` if none is known, and
        `ImplausibleTime` for seconds in a stream of ms.
        """
        time_ms = unix_ms_of(time, up=True)
        follower = self._get_follower(domain)
        if follower is None:
            raise NotCompleteYet(time_ms, None)
        return follower.complete_to(time_ms)

    def last_mark(self, domain: str | None = None) -> Mark | None:
        """Return the last known mark, if any."""
        follower = self._get_follower(domain)
        return None if follower is None else follower.last

    def segment_times(self, domain: str | None = None) -> dict[int, int | None]:
        """Return how far this reader, or its group, has read each segment, in event time.

        All events of a segment below its time were read; `None` is before all marks. The smallest
        time is the lower of `get_time_window`.
        """
        times = self._find_times(domain)
        return {} if times is None else dict(times.lowers)

    def lag(self, domain: str | None = None) -> Lag:
        """Return how far this reader, or its group, is behind the last known mark, in event time.

        The result has the lag of each segment, too. A lag is `None` if unknown.
        """
        times = self._find_times(domain)
        return Lag(None, {}) if times is None else times.lag()

    def next_segment(
        self, among: Collection[int] | None = None, domain: str | None = None
    ) -> int | None:
        """Return the segment to read next, so that segments are read nearly in order of time.

        Chooses from `among`, by default from all known segments, in this order:

        1. a segment before all marks;
        2. the segment with the smallest time;
        3. of several with the same time, the segment with most unread offsets, then the lowest id.

        Leaves out sealed segments that were read, and successors of unread ones. Returns `None`
        without a segment or marks.
        """
        times = self._find_times(domain)
        return None if times is None else times.next_segment(among)

    def _create_window_cursor(
        self, size_ms: int, grid: tuple[Time, str | tzinfo], after: Time | None, domain: str | None
    ) -> WindowCursor:
        tiling = Tiling(_read_size(size_ms), unix_ms_of(grid[0]), parse_zone(grid[1]))
        begin = None if after is None else unix_ms_of(after)
        return WindowCursor(self._following, tiling, begin, domain)

    def _wait_for_page(
        self, cursor: Cursor[Found], domain: str | None, wait: float | None
    ) -> Generator[Wait[bool], bool, list[Found]]:
        while True:
            self._health.check()
            page = cursor.take_page()
            if page or self._closed or wait == 0:
                return page
            try:
                if not (yield self._waits.wait_for_items(cursor, domain)):
                    return []
            except Rejected:
                if self._closed:
                    return []
                raise

    def _find_times(self, domain: str | None) -> SegmentTimes | None:
        follower = self._get_follower(domain)
        position = self._get_read_position()
        if follower is None or position is None:
            return None
        return follower.times(position)

    def _get_read_position(self) -> Mapping[int, int] | None:
        if self._reporting is None:
            return self._position
        position = self._reporting.position
        if position is None:
            _raise_refusal(self._reporting.get_steps())
        return position

    def _start(self, begin: Begin) -> None:
        self._following.start(begin)
        if self._reporting is not None:
            self._reporting.start(begin)

    def _get_reporting(self) -> Reporting:
        if self._reporting is None:
            raise Rejected(
                "this reader does not belong to a group: create it with group= and reader="
            )
        return self._reporting

    def _get_follower(self, domain: str | None) -> Follower | None:
        self._health.check()
        follower = self._following.get_follower(domain)
        if follower is None or follower.stream_id is None:
            _raise_refusal(self._following.get_steps(domain))
        return follower

    def _check_usable(self) -> None:
        self._health.check()
        if self._closed:
            raise Rejected(f"the reader of stream {self._stream!r} is closed; create a new one")
        if self._pid != os.getpid():
            message = (
                f"the reader of stream {self._stream!r} belongs to the process that created it"
            )
            raise Rejected(f"{message}: create one in the child")


def is_in_group(reader: Reader[Any]) -> bool:
    return reader._reporting is not None  # noqa: SLF001 - only the consumer of Kafka asks


def find_logs(reader: Reader[Any]) -> tuple[str, ...]:
    """Return the ids of the logs that the stream's positions refer to, empty if unknown."""
    for follower in reader._following.followers.values():  # noqa: SLF001 - as above
        if follower.logs:
            return follower.logs
    return ()


def _raise_refusal(steps: Sequence[Repeated[Any]]) -> None:
    for step in steps:
        if isinstance(step.failure, Rejected):
            raise step.failure


def _read_size(size_ms: object) -> int:
    """Return the size of windows, or raise `Rejected` with the ms of a duration as text."""
    with suppress(TypeError):
        return index(size_ms)  # type: ignore[arg-type]
    example = f", such as {DAY_MS} for a day"
    with suppress(Unreadable):
        if isinstance(size_ms, str):
            example = f": use {parse_duration(size_ms)}"
    fault = f"size_ms is {size_ms!r:.40}, but a size is a whole number of milliseconds"
    raise Rejected(fault + example)
