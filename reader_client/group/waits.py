"""The conditions that a reader can wait for."""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from noted_time.values import Mark, NotCompleteYet, Rejected, Unreachable, format_time
from reader_client.background.news import News
from reader_client.background.repeating import Repeated
from reader_client.group.reporting import Reporting
from reader_client.marks.cursors import Cursor
from reader_client.marks.following import Following

Found = TypeVar("Found")


@dataclass(slots=True)
class Wait(Generic[Found]):
    """A wait until `find` returns a result, while `steps` ask the controller.

    It fails at once if the controller refuses, and asks again if it refused earlier. When the time
    is up, `give_up` gives the result if all steps had an answer. Without it, the wait fails.
    """

    steps: Callable[[], Sequence[Repeated[Any]]]
    find: Callable[[], Found | None]
    what: str
    give_up: Callable[[], Found] | None = None
    _refusals: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._refusals = {id(step): step.refusals for step in self.steps()}
        for step in self.steps():
            if isinstance(step.failure, Rejected):
                step.retry()

    def check(self) -> None:
        for step in self.steps():
            failure = step.failure
            has_new_refusal = step.refusals > self._refusals.get(id(step), 0)
            if isinstance(failure, Rejected) and has_new_refusal:
                raise failure

    def end(self, url: str, timeout_s: float) -> Found:
        steps = self.steps()
        failure = next((step.failure for step in steps if step.failure is not None), None)
        if isinstance(failure, Rejected):
            raise failure
        if self.give_up and failure is None and all(step.had_answer for step in steps):
            return self.give_up()
        outage = f"{url} did not answer within {timeout_s:g} s"
        raise Unreachable(f"{self.what}: {outage}: {failure or 'no answer yet'}") from failure


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits of one reader."""

    following: Following
    reporting: Reporting | None
    news: News
    url: str
    check: Callable[[], None]

    def until_found(
        self, wait: Wait[Found], timeout_s: float | None, wake: Callable[[], None]
    ) -> Generator[float | None, object, Found]:
        """Yield the seconds to wait for the next `wake`."""
        deadline = None if timeout_s is None else clocks.monotonic() + timeout_s
        self.news.listen(wake)
        try:
            while (result := wait.find()) is None:
                self.check()
                wait.check()
                remaining_s = None if deadline is None else deadline - clocks.monotonic()
                if timeout_s is not None and remaining_s is not None and remaining_s <= 0:
                    return wait.end(self.url, timeout_s)
                yield remaining_s
        finally:
            self.news.forget(wake)
        return result

    def wait_for_time(self, time: int, domain: str | None) -> Wait[Mark]:
        def find() -> Mark | None:
            follower = self.following.get_follower(domain)
            if follower is None:
                return None
            last_mark = follower.last
            has_passed = last_mark is not None and last_mark.lower >= time
            if not follower.is_sealed and not has_passed:
                return None
            return follower.complete_to(time)

        def give_up() -> Mark:
            follower = self.following.get_follower(domain)
            last_mark = None if follower is None else follower.last
            raise NotCompleteYet(time, None if last_mark is None else last_mark.lower)

        steps = partial(self.following.get_steps, domain)
        return Wait(steps, find, f"time {format_time(time)} is not known to be complete", give_up)

    def wait_for_marks(self) -> Wait[bool]:
        following = self.following
        return Wait(
            following.get_all_steps,
            lambda: following.is_caught_up or None,
            "the marks are not known",
        )

    def wait_for_items(self, cursor: Cursor[Any], domain: str | None) -> Wait[bool]:
        def find() -> bool | None:
            if cursor.has_more():
                return True
            return False if cursor.is_over() else None

        steps = partial(self.following.get_steps, domain)
        return Wait(steps, find, f"no new {cursor.what} is known", lambda: False)

    def wait_for_leave(self, position: Mapping[int, int]) -> Wait[bool]:
        reporting = self.reporting
        if reporting is None:
            raise Rejected("this reader does not belong to a group, so it cannot go offline")
        self.check()
        leaving = reporting.leave(position)
        return Wait(
            reporting.get_steps,
            lambda: leaving.is_done or None,
            f"{reporting.reader} may still be online",
        )

    def wait_for_reports(self) -> Wait[bool]:
        def find() -> bool | None:
            return self.reporting is None or self.reporting.is_reported or None

        steps = list if self.reporting is None else self.reporting.get_steps
        return Wait(steps, find, "not all is reported")
