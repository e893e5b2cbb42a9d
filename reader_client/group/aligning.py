"""Routines without I/O that keep a reader within the bound of an alignment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from noted_time.progress import HeldBound
from noted_time.values import checked_name
from reader_client.asking import questions
from reader_client.asking.answers import alignment_answer
from reader_client.asking.questions import Json, Pause, Steps
from reader_client.running.repeating import Begin, Repeated

SIGNS_OF_LIFE = 4
"""Number of reports within the time after which a silent member is not counted."""


class Aligning:
    """Reports the member's time each `refresh_s`, and keeps the bound in the answer.

    `where` returns the body of a report. While no answer comes, the last bound holds for the
    alignment's timeout; after that there is no bound, because the controller no longer counts this
    member either.
    """

    def __init__(
        self, alignment: str, member: str, where: Callable[[], Json], *, refresh_s: float
    ) -> None:
        """Report nothing before `start`; raises `InvalidName`."""
        self._alignment = checked_name("alignment", alignment)
        self._member = checked_name("member", member)
        self._where = where
        self._refresh_s = refresh_s
        self._held = HeldBound()
        self._thread: Repeated[Any] | None = None
        self.was_answered = False

    def start(self, begin: Begin) -> None:
        """Join."""
        self._thread = begin("alignment", self._step)

    def steps(self) -> list[Repeated[Any]]:
        """Return what has to succeed for the bound to be known."""
        return [] if self._thread is None else [self._thread]

    def allows(self, segment_time: int | None) -> bool:
        """Whether to read on in a segment that was read up to this time."""
        return self._held.allows(segment_time, now=_now_ms())

    def _step(self) -> Steps:
        question = questions.align(self._alignment, self._member, self._where())
        answer = alignment_answer((yield question))
        self._held.take(answer.bound, timeout_ms=answer.member_timeout_ms, now=_now_ms())
        self.was_answered = True
        yield Pause(min(self._refresh_s, answer.member_timeout_ms / 1000 / SIGNS_OF_LIFE))
        return True


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
