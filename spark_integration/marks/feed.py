"""Where marks come from: a controller, which may be unreachable."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from noted_time import Mark, Rejected, Succession, UnexpectedAnswer, UnknownDomain, Unreachable
from noted_time.client import Backoff, draw_chance
from noted_time.client.transport import Transport
from noted_time.reading import check_time
from noted_time.values import Time, choose_domain
from reader_client.background.repeating import Health, Repeating
from reader_client.background.wakeup import News
from reader_client.marks.follower import ALL_MARKS, Follower, StartMark
from reader_client.marks.following import Following
from reader_client.protocol.answers import StreamAnswer, decode_stream
from reader_client.protocol.questions import Steps, ask_stream
from spark_integration.marks.arguments import check_promised
from spark_integration.marks.released import Released

FEED_WAIT_MS = 10_000
CATCH_UP_S = 5.0
CLOSE_S = 2.0
FEED_BACKOFF = Backoff(cap_s=2.0)


@dataclass(frozen=True, slots=True)
class NewMarks:
    """Marks in the order of their seq, of the stream with that creation id, `""` if unknown.

    `succession` has the scale events that their cuts may rest on. `final_cut` is where the stream
    ends, once it is sealed and all its marks are known. `is_quiet`: no writer was waited for at the
    last look. `logs` are the ids of the logs that cuts are of, empty if not known.
    """

    stream_id: str = ""
    marks: Sequence[Mark] = ()
    succession: Succession = field(default_factory=Succession)
    final_cut: Mapping[int, int] | None = None
    is_quiet: bool = False
    logs: Sequence[str] = ()


class MarksFeed(Protocol):
    """Where a source gets its marks; while the controller is unreachable, none are new."""

    @property
    def subject(self) -> str:
        """Stream and domain, for people."""

    def begin(self, released: Released) -> None:
        """Follow the marks after the one last let in; wait briefly for all that exist by now.

        Raises `Rejected` if a controller answers that there is no such stream or domain, and as
        `take`.
        """

    def take(self) -> NewMarks:
        """Return the marks that arrived since the last call, at once.

        Another creation id than before means that the stream was recreated: its marks start from
        the first. Raises `ClientFailed` if the thread that follows them ended by a fault.
        """

    def close(self) -> None:
        """Stop following."""


class ControllerFeed:
    """The marks of one (stream, domain) of a controller, followed in a thread as a reader does.

    An unnamed domain is the only one the stream declares, or `default`.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        domain: str | None,
        *,
        token: str | None = None,
        wait_ms: int = FEED_WAIT_MS,
    ) -> None:
        """Connect only in `begin`; `wait_ms` is how long one poll may wait."""
        self._transport = Transport(url, token=token)
        self._stream = stream
        self._domain = domain
        self._wait_ms = wait_ms
        self._news = News()
        self._health = Health(
            f"the marks of {stream!r}", FEED_BACKOFF, draw_chance, self._news.notify
        )
        self._thread = Repeating("noted marks", self._step, self._transport.ask, self._health)
        self._begun = ALL_MARKS
        self._poll: Callable[[], Steps] | None = None
        self._follower: Follower | None = None
        self._changed = threading.Condition()
        self._known = NewMarks()
        self._chain = 0
        self._caught_up = False

    @property
    def subject(self) -> str:
        """See `MarksFeed`."""
        return f"stream {self._stream!r}, domain {self._domain!r}"

    def begin(self, released: Released) -> None:
        """See `MarksFeed`."""
        self._begun = StartMark(released.stream_id, released.seq)
        self._news.listen(self._learn)
        self._thread.start()
        with self._changed:
            self._changed.wait_for(self._has_begun, CATCH_UP_S)
        failure = self._thread.attempts.failure
        if isinstance(failure, Rejected):
            self.close()
            raise failure
        self._health.check()

    def take(self) -> NewMarks:
        """See `MarksFeed`."""
        self._health.check()
        with self._changed:
            known = self._known
            self._known = replace(known, marks=())
        return known

    def close(self) -> None:
        """See `MarksFeed`."""
        self._thread.stop()
        self._transport.hang_up()
        self._thread.join(CLOSE_S)
        self._transport.close()

    def _has_begun(self) -> bool:
        failure, fault = self._thread.attempts.failure, self._health.fault
        return self._caught_up or failure is not None or fault is not None

    # The thread

    def _step(self) -> Steps:
        if self._poll is None:
            if self._domain is None:
                domains = decode_stream((yield ask_stream(self._stream))).domains
                self._domain = choose_domain(domains)
                check_promised(self._domain, None)
            following = Following(
                self._stream,
                [self._domain],
                keep_last=sys.maxsize,
                wait_ms=self._wait_ms,
                news=self._news,
                on_stream=lambda _: None,
                since=self._begun,
            )
            following.start(self._create_thread)
            self._follower = following.get_follower(self._domain)
        return (yield from self._poll()) if self._poll else True

    def _create_thread(self, _: str, poll: Callable[[], Steps]) -> Repeating:
        self._poll = poll
        return self._thread

    def _learn(self) -> None:
        """Keep the follower's new marks."""
        follower = self._follower
        with self._changed:
            if follower is not None and follower.stream_id is not None:
                known = self._known.marks if follower.chain == self._chain else ()
                self._chain = follower.chain
                self._caught_up = follower.caught_up and follower.was_at_end
                self._known = NewMarks(
                    follower.stream_id,
                    [*known, *follower.take_new()],
                    follower.succession,
                    follower.final_cut,
                    follower.is_quiet,
                    follower.logs,
                )
            self._changed.notify_all()


def check_known(
    transport: Transport, name: str, domain: str | None, event_time: str, end_at: Time | None = None
) -> StreamAnswer | None:
    """Return the stream, `None` if the controller is unreachable.

    Raises if the controller knows no such stream or domain.

    Raises `UnexpectedAnswer` if it is not a controller. Raises `Rejected` if the domain that nobody
    named is one of ingestion, and `event_time` a column of which it promises nothing. Raises
    `ImplausibleTime` for an `end_at` in seconds: the query would end at once, without a row.
    """
    try:
        stream = transport.ask(ask_stream(name))
        found = decode_stream(stream)
    except UnexpectedAnswer:
        raise
    except Unreachable:
        return None
    chosen = domain or choose_domain(found.domains)
    if chosen not in found.domains:
        raise UnknownDomain(chosen, found.domains)
    if domain is None:
        check_promised(chosen, event_time)
    last = stream["marks"].get(chosen)
    if isinstance(end_at, int) and last and found.are_unix_ms:
        check_time(end_at, last["lower"])
    return found
