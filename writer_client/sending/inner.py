"""The calls of a writer client that only this project's observers, logs and producers make."""

from __future__ import annotations

import threading
import time as clocks
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from noted_time.values import LogFact, Rejected
from writer_client.sending.notices import Notices
from writer_client.sending.outbox import Outbox
from writer_client.sending.posting import Posting


class InnerWriter:
    """The inner calls of one writer; as its public methods, they are thread-safe and never wait.

    `lock_for_note` locks the writer for a call that notes.
    """

    def __init__(  # noqa: PLR0913 - the parts of a writer
        self,
        outbox: Outbox,
        posting: Posting,
        notices: Notices,
        *,
        lock: threading.RLock,
        lock_for_note: Callable[[], AbstractContextManager[None]],
        resolve_domain: Callable[[str | None], str | None],
        timeout_ms: int | None,
    ) -> None:
        self._outbox = outbox
        self._posting = posting
        self._notices = notices
        self._lock = lock
        self._lock_for_note = lock_for_note
        self._resolve_domain = resolve_domain
        self._timeout_ms = timeout_ms
        self.is_fenced = False  # cheaper than `WriterClient.check`

    def report_facts(self, facts: Sequence[LogFact]) -> None:
        """Report facts about the log that explain an observer's time."""
        with self._lock_for_note():
            self._outbox.report_facts(facts)

    def pop_refused(self) -> Rejected | None:
        """Remove and return the oldest refusal that `flush` would raise."""
        with self._lock:
            return self._outbox.pop_refused()

    @property
    def takes_over(self) -> bool:
        """Whether no note was accepted yet."""
        return self._outbox.takes_over

    def find_noted_time(self, domain: str | None = None) -> int | None:
        """Return the last time noted here that was not too far ahead."""
        return self._outbox.vouched.get_time(self._resolve_domain(domain))

    def find_known_time(self, domain: str | None = None) -> int | None:
        """Return the writer's time at the controller as of its last join."""
        return self._outbox.vouched.get_known_time(self._resolve_domain(domain))

    @property
    def known_timeout_ms(self) -> int | None:
        """The timeout in force at the last join, or before it that of the client."""
        return self._outbox.vouched.known_timeout_ms or self._timeout_ms

    @property
    def silent_s(self) -> float:
        """How long ago all notes of an answer were accepted, in seconds."""
        return clocks.monotonic() - self._posting.accepted_at

    def warn_of_clock(self, behind_ms: int) -> None:
        """Warn once if the clock is behind the last noted time."""
        self._notices.warn_of_clock(behind_ms)
