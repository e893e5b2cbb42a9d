"""Follows the marks of a stream's domains, without I/O."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from noted_time.answers import MarksAnswer
from noted_time.values import (
    NotedTimeError,
    Rejected,
    UnknownDomain,
    UnknownStream,
    check_least,
    choose_domain,
    validate_name,
)
from reader_client.background.news import News
from reader_client.background.repeating import Begin, Repeated
from reader_client.marks.follower import ALL_MARKS, Follower, StartMark
from reader_client.protocol.answers import StreamReply
from reader_client.protocol.questions import Pause, Steps, ask_marks, ask_stream

logger = logging.getLogger("noted_time.reader")

AT_ONCE_S = 0.05

SEALED_S = 10.0


class Following:
    """Follows each domain in a thread or task, and keeps the known marks if answers stop."""

    def __init__(  # noqa: PLR0913 - one keyword for each choice
        self,
        stream: str,
        domains: Sequence[str] | None,
        *,
        keep_last: int,
        wait_ms: int,
        news: News,
        on_stream: Callable[[StreamReply], None],
        since: StartMark = ALL_MARKS,
    ) -> None:
        if isinstance(domains, str):
            raise Rejected(f"domains must be a list of names: use domains=[{domains!r}]")
        for domain in domains or ():
            validate_name("domain", domain)
        check_least("keep_last", keep_last, 1)
        self.followers: dict[str, Follower] = {}
        self.stream = validate_name("stream", stream)
        self._domains = domains
        self._keep_last = keep_last
        self._since = since
        self._wait_ms = wait_ms
        self._news = news
        self._on_stream = on_stream
        self._stream_id: str | None = None
        self._failing: set[str] = set()
        self._steps: dict[str | None, Repeated[Any]] = {}

    def start(self, begin: Begin) -> None:
        if self._domains is None:
            self._steps[None] = begin("domains", lambda: self._learn_domains(begin))
        else:
            self._follow(self._domains, begin)

    def get_follower(self, domain: str | None) -> Follower | None:
        """Return the follower of `domain`, or `None` while the domains are unknown."""
        followers = self.followers
        if not followers:
            return None
        name = domain or choose_domain(followers)
        try:
            return followers[name]
        except KeyError:
            raise UnknownDomain(name, followers) from None

    def get_steps(self, domain: str | None) -> list[Repeated[Any]]:
        follower = self.get_follower(domain)
        step = self._steps.get(None if follower is None else follower.domain)
        return [] if step is None else [step]

    @property
    def is_caught_up(self) -> bool:
        if self._domains is None and not self.followers:
            return False
        return all(follower.caught_up for follower in self.followers.values())

    def get_all_steps(self) -> list[Repeated[Any]]:
        return list(self._steps.values())

    def _learn_domains(self, begin: Begin) -> Steps:
        stream: StreamReply = yield ask_stream(self.stream)
        self._on_stream(stream)
        self._follow(stream.domains, begin)
        self._news.notify()
        return False

    def _follow(self, domains: Iterable[str], begin: Begin) -> None:
        followers = {
            domain: Follower(domain, keep_last=self._keep_last, since=self._since)
            for domain in domains
        }
        for domain, follower in followers.items():
            self._steps[domain] = begin(domain, partial(self._poll, follower))
        self.followers = followers

    def _poll(self, follower: Follower) -> Steps:
        try:
            yield from self._ask(follower)
        except NotedTimeError as error:
            if isinstance(error, UnknownStream | UnknownDomain):
                follower.needs_stream = True
            self._failing.add(follower.domain)
            raise
        self._failing.discard(follower.domain)
        return True

    def _ask(self, follower: Follower) -> Steps:
        if follower.needs_stream:
            stream: StreamReply = yield ask_stream(self.stream)
            self._take_stream(follower, stream)
        # Ask without waiting after a failure, to see the controller's return, and until the last
        # mark, to see a seal.
        asks_at_once = follower.domain in self._failing or not follower.was_at_end
        wait_ms = 0 if asks_at_once else self._wait_ms
        asked_at = time.monotonic()
        answer: MarksAnswer
        answer = yield ask_marks(self.stream, follower.after, follower.domain, wait_ms)
        self._take_marks(follower, answer)
        if follower.is_sealed:
            yield Pause(SEALED_S)
        elif wait_ms and not answer.marks and time.monotonic() - asked_at < AT_ONCE_S:
            # The controller is stopping, or a proxy does not support long polls.
            yield Pause(AT_ONCE_S)
        return True

    def _take_stream(self, follower: Follower, stream: StreamReply) -> None:
        if self._stream_id not in {None, stream.id}:
            logger.warning(
                "stream %r was deleted and recreated: its marks start from the beginning",
                self.stream,
            )
        self._stream_id = stream.id
        self._on_stream(stream)
        follower.take_stream(stream)
        self._news.notify()

    def _take_marks(self, follower: Follower, answer: MarksAnswer) -> None:
        old_id = follower.stream_id
        follower.take_marks(answer)
        if old_id is not None and follower.stream_id is None:
            logger.warning(
                "the marks of stream %r, domain %r, do not continue those known here, as after a "
                "restored backup: they are read from the beginning",
                self.stream,
                follower.domain,
            )
        self._news.notify()
