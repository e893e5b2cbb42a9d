"""Receives marks from a controller."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

from noted_time import Mark, Rejected, UnexpectedAnswer, UnknownDomain, Unreachable
from noted_time.client import Backoff, Question
from noted_time.client.transport import Transport
from noted_time.installation import name_program
from noted_time.reading import check_time
from noted_time.values import Succession, Time, choose_domain
from reader_client.background.news import News
from reader_client.background.repeating import Health, Repeating
from reader_client.marks.follower import ALL_MARKS, Follower, StartMark
from reader_client.marks.following import Following
from reader_client.protocol.answers import StreamReply
from reader_client.protocol.questions import Steps, ask_explanation, ask_stream
from spark_integration.marks.arguments import check_promised
from spark_integration.marks.released import Released

FEED_WAIT_MS = 10_000
CATCH_UP_S = 5.0
CLOSE_S = 2.0
EXPLAINED_SENTENCES = 3
FEED_BACKOFF = Backoff(cap_s=2.0)


@dataclass(frozen=True, slots=True)
class FeedMarks:
    """Marks in the order of their seq, and the facts of a `Follower` at the last one."""

    stream_id: str = ""
    marks: Sequence[Mark] = ()
    succession: Succession = field(default_factory=Succession)
    final_cut: Mapping[int, int] | None = None
    is_quiet: bool = False
    logs: Sequence[str] = ()
    domain: str | None = None
    first_lower: int | None = None


FOLLOWED_FIELDS = [fact.name for fact in fields(FeedMarks) if fact.name != "marks"]


class MarksFeed(Protocol):
    """A source of marks, without new ones while the controller is unreachable."""

    @property
    def subject(self) -> str: ...

    def begin(self, applied_mark: Released) -> None:
        """Follow the marks after `applied_mark`; wait briefly for existing ones."""

    def take(self) -> FeedMarks:
        """Return the marks since the last call, without waiting.

        Another creation id means a recreated stream.
        """

    def explain(self, position: Mapping[int, int]) -> str:
        """Return why no mark covers this position."""

    def close(self) -> None: ...


class ControllerFeed:
    """The marks of one domain of a stream, which a thread follows."""

    def __init__(
        self,
        url: str,
        stream: str,
        domain: str | None,
        *,
        token: str | None = None,
        wait_ms: int = FEED_WAIT_MS,
    ) -> None:
        self._transport = Transport(url, token=token)
        self._stream = stream
        self._domain = domain
        self._wait_ms = wait_ms
        self._news = News()
        self._health = Health(f"the marks of {stream!r}", FEED_BACKOFF, self._news.notify)
        self._thread = Repeating("noted marks", self._step, self._transport.ask, self._health)
        self._begun = ALL_MARKS
        self._poll: Callable[[], Steps] | None = None
        self._follower: Follower | None = None
        self._changed = threading.Condition()
        self._known = FeedMarks()
        self._chain = 0
        self._caught_up = False

    @property
    def subject(self) -> str:
        return f"stream {self._stream!r}, domain {self._domain!r}"

    def begin(self, applied_mark: Released) -> None:
        self._begun = StartMark(applied_mark.stream_id, applied_mark.seq)
        self._news.listen(self._learn)
        self._thread.start()
        with self._changed:
            self._changed.wait_for(self._has_begun, CATCH_UP_S)
        failure = self._thread.failure
        if isinstance(failure, Rejected):
            self.close()
            raise failure
        self._health.check()

    def take(self) -> FeedMarks:
        self._health.check()
        with self._changed:
            feed_marks = self._known
            self._known = replace(feed_marks, marks=())
        return feed_marks

    def ask_stream(self) -> StreamReply:
        """Return the stream as it is now. Raises `Unreachable`."""
        return self._transport.ask(ask_stream(self._stream))

    def explain(self, position: Mapping[int, int]) -> str:
        question = ask_explanation(self._stream, position, self._domain)
        answer = self._transport.ask(question)
        sentences = answer.sentences[:EXPLAINED_SENTENCES]
        return " ".join((*sentences, f"Ask again: {name_program()} explain {self._stream}"))

    def close(self) -> None:
        self._thread.stop()
        self._transport.hang_up()
        self._thread.join(CLOSE_S)
        self._transport.close()

    def _has_begun(self) -> bool:
        failure = self._thread.failure
        fault = self._health.fault
        return self._caught_up or failure is not None or fault is not None

    def _step(self) -> Steps:
        if self._poll is None:
            if self._domain is None:
                self._domain = yield from ask_event_domain(self._stream)
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
        if self._poll is None:
            return True
        return (yield from self._poll())

    def _create_thread(self, _: str, poll: Callable[[], Steps]) -> Repeating:
        self._poll = poll
        return self._thread

    def _learn(self) -> None:
        follower = self._follower
        with self._changed:
            if follower is not None and follower.stream_id is not None:
                former_marks = self._known.marks if follower.chain == self._chain else ()
                self._chain = follower.chain
                self._caught_up = follower.caught_up and follower.was_at_end
                facts = {name: getattr(follower, name) for name in FOLLOWED_FIELDS}
                self._known = FeedMarks(marks=[*former_marks, *follower.take_new()], **facts)
            self._changed.notify_all()


def ask_event_domain(stream: str) -> Generator[Question[StreamReply], StreamReply, str]:
    """Return the domain of a call that names none, or raise `Rejected` if it has no event times."""
    domain = choose_domain((yield ask_stream(stream)).domains)
    check_promised(domain)
    return domain


def check_known(
    transport: Transport, name: str, domain: str | None, end_at: Time | None = None
) -> StreamReply | None:
    """Return the stream, or `None` if the controller is unreachable."""
    try:
        reply = transport.ask(ask_stream(name))
    except UnexpectedAnswer:
        raise
    except Unreachable:
        return None
    chosen_domain = domain or choose_domain(reply.domains)
    if chosen_domain not in reply.domains:
        raise UnknownDomain(chosen_domain, reply.domains)
    if domain is None:
        check_promised(chosen_domain)
    last_mark = reply.marks.get(chosen_domain)
    if isinstance(end_at, int) and last_mark and reply.are_unix_ms:
        check_time(end_at, last_mark.lower)
    return reply
