"""What a reader knows, and answers without asking a controller."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from noted_time.client import Backoff, draw_chance
from noted_time.progress import BacklogState, Lag, SegmentTimes
from noted_time.reading import Tiling
from noted_time.values import (
    Mark,
    NotCompleteYet,
    Rejected,
    Time,
    TimeWindow,
    convert_position,
    unix_ms_of,
    validate_name,
)
from reader_client.background.repeating import Begin, Health, Repeated
from reader_client.background.wakeup import News
from reader_client.group.reporting import ReaderName, Reporting
from reader_client.group.waits import Wait, Waits
from reader_client.marks.cursors import Cursor, WindowCursor
from reader_client.marks.follower import NO_WINDOW, Follower
from reader_client.marks.following import Following
from reader_client.protocol.answers import StreamAnswer

Network = TypeVar("Network")
Found = TypeVar("Found")


class Reader(ABC, Generic[Network]):
    """The position of a reader, and the marks and the group that it follows in the background.

    The base of `ReaderClient` and `AsyncReaderClient`: no call here waits.
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
        backoff: Backoff | None = None,
        transport: Network | None = None,
    ) -> None:
        """Choose what to follow: `domains`, by default every declared one.

        `url` may be several, separated by commas: one is asked as long as it answers. `token` is
        sent to the controller; by default it is that of the variable NOTED_TIME_TOKEN. `wait_ms`
        (at most 30000) is how long one poll may wait; `refresh_ms` is how often a group's position
        is asked for when there is nothing to report. Raises `InvalidName`, or `Rejected` if a URL
        is invalid, or only one of `group` and `reader` is given.
        """
        if (group is None) != (reader is None):
            raise Rejected("a reader of a group needs both names: group= and reader=")
        self._stream = stream
        self._position: dict[int, int] = {}
        self._advancing = threading.RLock()
        self._closing = self._closed = False
        self._pid = os.getpid()
        self._news = News()
        self._reporting: Reporting | None = None
        if group is not None and reader is not None:
            named = ReaderName(
                stream, validate_name("group", group), validate_name("reader", reader)
            )
            self._reporting = Reporting(named, refresh_s=refresh_ms / 1000, news=self._news)
        of = f" ({self._reporting.reader})" if self._reporting is not None else ""
        who = f"the reader of stream {stream!r}{of}"
        self._health = Health(who, backoff or Backoff(), draw_chance, self._news.notify)
        self._following = Following(
            stream,
            domains,
            keep_last=keep_last,
            wait_ms=wait_ms,
            news=self._news,
            on_stream=self._learn,
        )
        self._waits = Waits(self._following, self._reporting, where=url, check=self._check_usable)
        self._open(url, token, transport)

    @abstractmethod
    def _open(self, url: str, token: str | None, network: Network | None) -> None:
        """Connect with the first question; a given `network` replaces the real one."""

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self._stream

    @property
    def logs(self) -> tuple[str, ...]:
        """The ids of the logs that the stream's positions are of, empty if none is known."""
        followers = self._following.followers.values()
        return next((each.logs for each in followers if each.logs), ())

    @property
    def group(self) -> str | None:
        """The group that the reader belongs to, if any."""
        return None if self._reporting is None else self._reporting.reader.group

    # The position

    @property
    def position(self) -> dict[int, int]:
        """This reader's own position: segment → exclusive offset."""
        return dict(self._position)

    def advance(self, position: Mapping[int, int]) -> None:
        """Set how far this reader has read in these segments; others keep their offsets.

        A segment may be set back. Raises `Rejected` for numbers outside int64, and in a group once
        the client is closed, because it could no longer be reported.
        """
        offsets = convert_position(position)
        if self._health.fault is not None:
            self._health.check()
        with self._advancing:
            self._position = {**self._position, **offsets}
            if self._reporting is not None:
                self._check_usable()
                self._reporting.report(offsets)

    def release(self, segments: Iterable[int]) -> None:
        """Stop counting these segments as this reader's: another of its group reads them now.

        They leave its position, and are not reported again, also if the controller forgets the
        reader. The group keeps what was reported of them until the other reader reports.
        """
        gone = frozenset(segments)
        with self._advancing:
            self._position = {s: o for s, o in self._position.items() if s not in gone}
            if self._reporting is not None:
                self._reporting.release(gone)

    # Whether there is a backlog

    def set_backlog(self, backlog: bool | None) -> None:  # noqa: FBT001 - the only argument
        """Report whether this reader has a backlog; `None` withdraws the report (FLIP-309).

        The group has a backlog while any of its online readers reports one, whatever its policy;
        `offline` withdraws it. Returns at once. Raises `Rejected` without a group, and once the
        client is closed.
        """
        reporting = self._get_reporting()
        self._check_usable()
        reporting.backlog.set_backlog(backlog=backlog)
        reporting.wake()

    def backlog(self) -> BacklogState:
        """Return whether the group has a backlog, why, and since when (Unix ms), without asking.

        It is the controller's last answer, with what `set_backlog` reported since: no backlog until
        it has answered. Raises `Rejected` without a group.
        """
        if self._health.fault is not None:
            self._health.check()
        return self._get_reporting().backlog.state

    def on_backlog(self, callback: Callable[[BacklogState], object]) -> None:
        """Call `callback` with the state at each change of the flag, starting when it is true.

        It is called by the thread (or in the loop) that reports, so it has to return soon; what it
        raises is logged. Raises as `set_backlog`.
        """
        reporting = self._get_reporting()
        self._check_usable()
        reporting.backlog.listen(callback)
        reporting.wake()

    # Time at the position

    def get_time_window(self, domain: str | None = None) -> TimeWindow:
        """Return the time window of this reader's position, or its group's; asks no controller.

        Both bounds are `None` until the first marks (and, in a group, its position) are known.
        Raises `UnknownDomain` if the domain is not followed. If nothing is known because the
        controller refused, raises its refusal: `UnknownStream`, `UnknownDomain`, `NotAllowed`, or
        `Rejected` if the group takes no more readers.
        """
        follower, position = self._get_follower(domain), self._get_read_position()
        return NO_WINDOW if follower is None or position is None else follower.window(position)

    def window_at(self, position: Mapping[int, int], domain: str | None = None) -> TimeWindow:
        """Return the time window of any position; raises as `get_time_window`."""
        follower = self._get_follower(domain)
        return NO_WINDOW if follower is None else follower.window(position)

    def cut_at(self, time: Time, domain: str | None = None) -> Mark:
        """Return the first mark with lower >= `time`: all events below that time lie below its cut.

        `time` is an integer, or an aware `datetime`. Raises `NotCompleteYet` if no such mark is
        known here, `ImplausibleTime` for a time in seconds of a stream in ms, and as
        `get_time_window`.
        """
        wanted = unix_ms_of(time, up=True)
        follower = self._get_follower(domain)
        if follower is None:
            raise NotCompleteYet(wanted, None)
        return follower.complete_to(wanted)

    def last_mark(self, domain: str | None = None) -> Mark | None:
        """Return the last mark known here; raises as `get_time_window`."""
        follower = self._get_follower(domain)
        return None if follower is None else follower.last

    # Which segment to read next

    def segment_times(self, domain: str | None = None) -> dict[int, int | None]:
        """Return by segment the time below which this reader, or its group, has read all events.

        A segment before all marks has `None`. The least is the lower of `get_time_window`, and this
        raises as that does; empty until marks (and, in a group, its position) are known.
        """
        times = self._find_times(domain)
        return {} if times is None else dict(times.lowers)

    def lag(self, domain: str | None = None) -> Lag:
        """Return how far this reader, or its group, is behind the last known mark, in event time.

        It has each segment as well. `None` if it is not known, as before all marks; raises as
        `get_time_window`. A reader that stopped falls further behind with each mark.
        """
        times = self._find_times(domain)
        return Lag(None, {}) if times is None else times.lag()

    def next_segment(
        self, among: Collection[int] | None = None, domain: str | None = None
    ) -> int | None:
        """Return which segment to read next, to read all of them nearly in the order of time.

        It is one of `among`, or of all known segments: one before all marks if any, otherwise the
        one with the least time; of several, the one with most unread, then the least id. Sealed
        segments that were read are left out, and successors until their predecessors were read.
        `None` if no segment is left, and while no marks are known. Raises as `get_time_window`.
        """
        times = self._find_times(domain)
        return None if times is None else times.next_segment(among)

    # For the clients

    def _create_window_cursor(
        self, tiling: Tiling, after: Time | None, domain: str | None
    ) -> WindowCursor:
        begin = None if after is None else unix_ms_of(after)
        return WindowCursor(self._following, tiling, begin, domain)

    def _wait_for_page(
        self, cursor: Cursor[Found], domain: str | None, wait: float | None
    ) -> Generator[Wait[bool], bool, list[Found]]:
        """Return the next page, waiting for it; empty when time is up."""
        while True:
            self._health.check()
            found = cursor.take_page()
            if found or self._closed or wait == 0:
                return found
            try:
                if not (yield self._waits.wait_for_items(cursor, domain)):
                    return []
            except Rejected:
                if self._closed:
                    return []
                raise

    def _find_times(self, domain: str | None) -> SegmentTimes | None:
        follower, position = self._get_follower(domain), self._get_read_position()
        return None if follower is None or position is None else follower.times(position)

    def _get_read_position(self) -> Mapping[int, int] | None:
        """Return this reader's position or its group's; raises why it cannot be known."""
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
        """Return the follower of a domain; raises why it cannot exist."""
        if self._health.fault is not None:
            self._health.check()
        follower = self._following.get_follower(domain)
        if follower is None or follower.stream_id is None:
            _raise_refusal(self._following.get_steps(domain))
        return follower

    def _check_usable(self) -> None:
        """Raise if the client no longer follows and reports."""
        self._health.check()
        if self._closed:
            raise Rejected(f"the reader of stream {self._stream!r} is closed; create a new one")
        if self._pid != os.getpid():
            message = (
                f"the reader of stream {self._stream!r} belongs to the process that created it"
            )
            raise Rejected(f"{message}: create one in the child")

    def _learn(self, stream: StreamAnswer) -> None:
        if self._reporting is not None:
            self._reporting.learn(stream)


def _raise_refusal(steps: Sequence[Repeated[Any]]) -> None:
    """Raise the controller's refusal, if that is why nothing is known."""
    for step in steps:
        if isinstance(step.attempts.failure, Rejected):
            raise step.attempts.failure
