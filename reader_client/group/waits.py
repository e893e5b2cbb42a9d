"""The conditions that a reader can wait for."""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from noted_time.values import Mark, NotCompleteYet, Rejected, Unreachable, format_time
from reader_client.background.repeating import Repeated
from reader_client.background.wakeup import News
from reader_client.group.reporting import Reporting
from reader_client.marks.cursors import Cursor
from reader_client.marks.following import Following

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Wait(Generic[Found]):
    """A condition to wait for."""

    look: Callable[[], Found | None]  # `None` to continue waiting; it raises if this is useless
    give_up: Callable[[float], Found]


def until_found(
    wait: Wait[Found], timeout_s: float | None, news: News, wake: Callable[[], None]
) -> Generator[float | None, object, Found]:
    """Yield the seconds to wait for the next `wake`."""
    deadline = None if timeout_s is None else clocks.monotonic() + timeout_s
    news.listen(wake)
    try:
        while (result := wait.look()) is None:
            remaining_s = None if deadline is None else deadline - clocks.monotonic()
            if timeout_s is not None and remaining_s is not None and remaining_s <= 0:
                return wait.give_up(timeout_s)
            yield remaining_s
    finally:
        news.forget(wake)
    return result


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits of one reader.

    A wait fails at once if the controller refuses, and asks again if it refused earlier.
    """

    following: Following
    reporting: Reporting | None
    where: str
    check: Callable[[], None]

    def wait_for_time(self, time: int, domain: str | None) -> Wait[Mark]:
        patience = self._create_patience(lambda: self.following.get_steps(domain))

        def look() -> Mark | None:
            follower = self.following.get_follower(domain)
            last = None if follower is None else follower.last
            if follower is None or not (follower.is_sealed or (last and last.lower >= time)):
                return patience.look(None)
            return follower.complete_to(time)

        def give_up(timeout_s: float) -> Mark:
            patience.end(f"time {format_time(time)} is not known to be complete", timeout_s)
            follower = self.following.get_follower(domain)
            last = None if follower is None else follower.last
            raise NotCompleteYet(time, None if last is None else last.lower)

        return Wait(look, give_up)

    def wait_for_marks(self) -> Wait[bool]:
        patience = self._create_patience(self.following.get_all_steps)
        return Wait(
            lambda: patience.look(self.following.is_caught_up or None),
            lambda timeout_s: patience.end("the marks are not known", timeout_s, must_answer=True),
        )

    def wait_for_items(self, cursor: Cursor[Any], domain: str | None) -> Wait[bool]:
        patience = self._create_patience(lambda: self.following.get_steps(domain))
        return Wait(
            lambda: patience.look(cursor.has_more() or (False if cursor.is_over() else None)),
            lambda timeout_s: patience.end(f"no new {cursor.what} is known", timeout_s),
        )

    def wait_for_leave(self, position: Mapping[int, int]) -> Wait[bool]:
        reporting = self.reporting
        if reporting is None:
            raise Rejected("this reader does not belong to a group, so it cannot go offline")
        self.check()
        patience = self._create_patience(reporting.get_steps)
        leaving = reporting.leave(position)
        what = f"{reporting.reader} may still be online"
        return Wait(
            lambda: patience.look(leaving.is_done or None),
            lambda timeout_s: patience.end(what, timeout_s, must_answer=True),
        )

    def wait_for_reports(self) -> Wait[bool]:
        reporting = self.reporting
        patience = self._create_patience(lambda: [] if reporting is None else reporting.get_steps())
        return Wait(
            lambda: patience.look(reporting is None or reporting.is_reported or None),
            lambda timeout_s: patience.end("not all is reported", timeout_s, must_answer=True),
        )

    def _create_patience(self, steps: Callable[[], Sequence[Repeated[Any]]]) -> _Patience:
        return _Patience(steps, self.where, self.check)


class _Patience:
    def __init__(
        self, steps: Callable[[], Sequence[Repeated[Any]]], where: str, check: Callable[[], None]
    ) -> None:
        self._steps = steps
        self._where = where
        self._check = check
        self._seen = {id(step): step.attempts.refusals for step in steps()}
        for step in steps():
            if isinstance(step.attempts.failure, Rejected):
                step.retry()

    def look(self, result: Found | None) -> Found | None:
        if result is not None:
            return result
        self._check()
        for step in self._steps():
            attempts = step.attempts
            failure = attempts.failure
            if isinstance(failure, Rejected) and attempts.refusals > self._seen.get(id(step), 0):
                raise failure
        return None

    def end(self, what: str, timeout_s: float, *, must_answer: bool = False) -> bool:
        """When the time is up, raise if answers are missing; otherwise return false.

        Without `must_answer`, one answer is enough.
        """
        steps = self._steps()
        failures = (step.attempts.failure for step in steps)
        failure = next((each for each in failures if each is not None), None)
        if isinstance(failure, Rejected):
            raise failure
        is_silent = must_answer or not all(step.attempts.had_answer for step in steps)
        if failure is None and not is_silent:
            return False
        why = failure or "no answer yet"
        message = f"{what}: {self._where} did not answer within {timeout_s:g} s: {why}"
        raise Unreachable(message) from failure
