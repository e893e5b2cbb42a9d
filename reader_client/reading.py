"""What a reader knows, and what it may ask of itself without asking a controller."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from noted_time.client import Backoff, own_chance
from noted_time.values import NotCompleteYet, Rejected, checked_name, plain_position, unix_ms_of
from noted_time.wing import Lag
from reader_client.aligning import Aligning
from reader_client.cursors import WindowCursor
from reader_client.follower import NO_WINDOW
from reader_client.following import Following
from reader_client.repeating import Health
from reader_client.reporting import ReaderName, Reporting
from reader_client.waits import Waits
from reader_client.wakeup import News

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence

    from noted_time.reading import Tiling
    from noted_time.values import Mark, Time, TimeWindow
    from noted_time.wing import BacklogState, SegmentTimes
    from reader_client.answers import StreamRead
    from reader_client.cursors import Cursor
    from reader_client.follower import Follower
    from reader_client.following import Begin
    from reader_client.questions import Json
    from reader_client.repeating import Repeated
    from reader_client.waits import Wait


Network = TypeVar("Network")
Found = TypeVar("Found")


class Reader(ABC, Generic[Network]):
    """The position of a reader, and the marks and the group that are followed in the background.

    What `ReaderClient` and `AsyncReaderClient` have in common: no call here waits.
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
        transport: Network | None = None,
    ) -> None:
        """Choose what to follow: `domains`, by default every declared one.

        `url` may be several with commas between: one is asked as long as it answers.
        `token` is shown to the controller, by default that of the variable NOTED_TIME_TOKEN.
        `wait_ms` (at most 30000) is how long one poll may wait; `refresh_ms` how often a group's
        position is asked for when there is nothing to report. `align` names the alignment that
        `may_read` obeys; the reader is its member `align_as`, by default the name of the stream,
        with its own time or that of its group. Raises `InvalidName`, or `Rejected`
        if a URL is not one, or only one of `group` and `reader` is given.
        """
        if (group is None) != (reader is None):
            raise Rejected("a reader of a group has both: the name of the group and its own")
        self._stream = stream
        self._position: dict[int, int] = {}
        self._advancing = threading.RLock()
        self._closing = self._closed = False
        self._pid = os.getpid()
        self._news = News()
        self._reporting: Reporting | None = None
        if group is not None and reader is not None:
            named = ReaderName(stream, checked_name("group", group), checked_name("reader", reader))
            self._reporting = Reporting(named, refresh_s=refresh_ms / 1000, news=self._news)
        of = f" ({self._reporting.reader})" if self._reporting is not None else ""
        who = f"the reader of stream {stream!r}{of}"
        self._health = Health(who, backoff or Backoff(), chance, self._news.notify)
        self._following = Following(
            stream,
            domains,
            keep_last=keep_last,
            wait_ms=wait_ms,
            news=self._news,
            on_stream=self._learn,
        )
        self._domain_aligned = domains[0] if domains is not None and len(domains) == 1 else None
        self._aligning: Aligning | None = None
        if align is not None:
            self._aligning = Aligning(
                align, align_as or stream, self._where_aligned, refresh_s=refresh_ms / 1000
            )
        self._waits = Waits(self._following, self._reporting, where=url, check=self._check_usable)
        self._open(url, token, transport)

    @abstractmethod
    def _open(self, url: str, token: str | None, network: Network | None) -> None:
        """Connect with the first question; a `network` that is given takes the real one's place."""

    # Where I am

    @property
    def position(self) -> dict[int, int]:
        """This reader's own position: segment → exclusive offset."""
        return dict(self._position)

    def advance(self, position: Mapping[int, int]) -> None:
        """Set how far I have read in these segments; others keep their offsets.

        A segment may be set back. Raises `Rejected` for numbers outside int64, and in a group once
        the client is closed, as nothing would be reported.
        """
        offsets = plain_position(position)
        if self._health.fault is not None:
            self._health.check()
        with self._advancing:
            self._position = {**self._position, **offsets}
            if self._reporting is not None:
                self._check_usable()
                self._reporting.report(offsets)

    # Whether there is a backlog

    def set_backlog(self, backlog: bool | None) -> None:  # noqa: FBT001 - the one thing that is said
        """Say that this reader has a backlog, or that it has none; `None` takes it back (FLIP-309).

        The group has one while any of its readers online says so, whatever its policy; `offline`
        takes it back. Returns at once. Raises `Rejected` without a group, and once the client is
        closed.
        """
        reporting = self._grouped()
        self._check_usable()
        reporting.backlog.say(backlog=backlog)
        reporting.wake()

    def backlog(self) -> BacklogState:
        """Return whether my group has a backlog, why, and since when in Unix ms; asks nothing.

        It is what the controller answered last, with what I said since: no backlog until it has
        answered. Raises `Rejected` without a group.
        """
        if self._health.fault is not None:
            self._health.check()
        return self._grouped().backlog.state

    def on_backlog(self, callback: Callable[[BacklogState], object]) -> None:
        """Have `callback` called with the state at each change of the flag, first if it is true.

        It is called by the thread (or in the loop) that reports, so it has to return soon; what it
        raises is logged. Raises as `set_backlog`.
        """
        reporting = self._grouped()
        self._check_usable()
        reporting.backlog.listen(callback)
        reporting.wake()

    # What time it is there

    def get_time_window(self, domain: str | None = None) -> TimeWindow:
        """Return the time window of my position, or of my group's; asks no controller.

        Both bounds are `None` until the first marks (and, in a group, its position) are known.
        Raises `UnknownDomain` if the domain is not followed. If nothing is known because the
        controller refuses to say, raises its refusal: `UnknownStream`, `UnknownDomain`,
        `NotAllowed`, or `Rejected` if the group takes no further reader.
        """
        follower, position = self._follower(domain), self._position_read()
        return NO_WINDOW if follower is None or position is None else follower.window(position)

    def window_at(self, position: Mapping[int, int], domain: str | None = None) -> TimeWindow:
        """Return the time window of any position; raises as `get_time_window`."""
        follower = self._follower(domain)
        return NO_WINDOW if follower is None else follower.window(position)

    def cut_at(self, time: Time, domain: str | None = None) -> Mark:
        """Return the first mark with lower >= `time`: a reader that reaches its cut has it all.

        `time` is an integer, or an aware `datetime`. Raises `NotCompleteYet` if no such mark is
        known here, `ImplausibleTime` for a time in seconds of a stream in ms, and as
        `get_time_window`.
        """
        wanted = unix_ms_of(time, up=True)
        follower = self._follower(domain)
        if follower is None:
            raise NotCompleteYet(wanted, None)
        return follower.complete_to(wanted)

    def last_mark(self, domain: str | None = None) -> Mark | None:
        """Return the last mark known here; raises as `get_time_window`."""
        follower = self._follower(domain)
        return None if follower is None else follower.last

    # Which segment to read next

    def segment_times(self, domain: str | None = None) -> dict[int, int | None]:
        """Return how far I am, or my group is, in each segment: all events below were read.

        A segment before all marks has `None`. The least is the lower of `get_time_window`, and
        this raises as that does; empty until marks (and, in a group, its position) are known.
        """
        times = self._times(domain)
        return {} if times is None else dict(times.lowers)

    def lag(self, domain: str | None = None) -> Lag:
        """Return by how much I am, or my group is, behind the last mark known here, in its time.

        Also by segment. `None` if it is not known, as before all marks; raises as
        `get_time_window`. A reader that stopped falls behind with each mark, as the last one moves
        on whether it reads or not.
        """
        times = self._times(domain)
        return Lag(None, {}) if times is None else times.lag()

    def next_segment(
        self, among: Collection[int] | None = None, domain: str | None = None
    ) -> int | None:
        """Return which segment to read next, to read all of them nearly in the order of time.

        Of those in `among`, or of all that are known: the one that is least far, before it one that
        is before all marks. Of several, the one with most unread, then the least id. Sealed ones
        that were read are left out, and so are successors until their predecessors were read.
        `None` if none is left, and while nothing is known yet. Raises as `get_time_window`.
        """
        times = self._times(domain)
        return None if times is None else times.next_segment(among)

    def may_read(self, segment: int) -> bool:
        """Whether to read on in a segment, by the alignment of `align`; asks no controller.

        False iff my position in the segment is above the bound: the lower of the last mark whose
        cut it reaches. While the controller is away the last bound holds, for the alignment's
        timeout. Always true without `align`, and while the bound or the marks are not known yet.
        Raises what the controller refuses, such as `UnknownAlignment`, where it never said a bound,
        and as `get_time_window`.
        """
        if self._aligning is None:
            return True
        if not self._aligning.was_answered:
            _raise_refusal(self._aligning.steps())
        follower = self._follower(self._domain_aligned)
        if follower is None:
            return True
        return self._aligning.allows(follower.times(self._position).lowers.get(segment))

    # For the clients

    def _where_aligned(self) -> Json:
        """Return the body of a report to the alignment: my group, or my own time.

        At a sealed or quiet end there is nothing that others could wait for.
        """
        follower, reporting = self._following.follower(self._domain_aligned), self._reporting
        position = self._position if reporting is None else reporting.position
        if follower is None or position is None:
            return {"time": None}
        state = {"state": follower.state(position)}
        if reporting is None:
            return {"time": follower.window(position).lower} | state
        named = {"stream": self._stream, "group": reporting.reader.group} | state
        return named if self._domain_aligned is None else named | {"domain": self._domain_aligned}

    def _windows(self, tiling: Tiling, after: Time | None, domain: str | None) -> WindowCursor:
        begin = None if after is None else unix_ms_of(after)
        return WindowCursor(self._following, tiling, begin, domain)

    def _pages(
        self, cursor: Cursor[Found], domain: str | None, wait: float | None
    ) -> Generator[Wait[bool], bool, list[Found]]:
        """Return what comes next, asking to wait for it; nothing when time is up."""
        while True:
            self._health.check()
            found = cursor.page()
            if found or self._closed or wait == 0:
                return found
            try:
                if not (yield self._waits.further(cursor, domain)):
                    return []
            except Rejected:
                if self._closed:
                    return []
                raise

    def _times(self, domain: str | None) -> SegmentTimes | None:
        follower, position = self._follower(domain), self._position_read()
        return None if follower is None or position is None else follower.times(position)

    def _position_read(self) -> Mapping[int, int] | None:
        """Return my position or my group's; raises why that cannot be known."""
        if self._reporting is None:
            return self._position
        position = self._reporting.position
        if position is None:
            _raise_refusal(self._reporting.steps())
        return position

    def _start(self, begin: Begin) -> None:
        self._following.start(begin)
        if self._aligning is not None:
            self._aligning.start(begin)
        if self._reporting is not None:
            self._reporting.start(begin)

    def _grouped(self) -> Reporting:
        if self._reporting is None:
            raise Rejected("this reader belongs to no group: make it with group= and reader=")
        return self._reporting

    def _follower(self, domain: str | None) -> Follower | None:
        """Return the follower of a domain; raises why there can be none."""
        if self._health.fault is not None:
            self._health.check()
        follower = self._following.follower(domain)
        if follower is None or follower.stream_id is None:
            _raise_refusal(self._following.steps(domain))
        return follower

    def _check_usable(self) -> None:
        """Raise if nothing is followed or reported any more."""
        self._health.check()
        if self._closed:
            raise Rejected(f"the reader of stream {self._stream!r} is closed; make a new one")
        if self._pid != os.getpid():
            message = f"the reader of stream {self._stream!r} belongs to the process that made it"
            raise Rejected(f"{message}: make one in the child")

    def _learn(self, stream: StreamRead) -> None:
        if self._reporting is not None:
            self._reporting.learn(stream)


def _raise_refusal(steps: Sequence[Repeated[Any]]) -> None:
    """Raise why nothing is known, if the controller refuses to say it."""
    for step in steps:
        if isinstance(step.attempts.failure, Rejected):
            raise step.attempts.failure
