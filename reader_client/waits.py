"""What a reader may wait for, and when waiting is in vain: without a clock, a thread or a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from noted_time.values import NotCompleteYet, Rejected, Unreachable, unix_ms_of
from reader_client.window_cursor import WindowCursor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from noted_time.reading import Tiling
    from noted_time.values import Mark, Time
    from reader_client.following import Following, Repeated
    from reader_client.reporting import Reporting

Found = TypeVar("Found")
Item_co = TypeVar("Item_co", covariant=True)

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Wait(Generic[Found]):
    """What to do until something is found.

    `look` is called at first and at all news: it returns what was waited for, `None` to go on, or
    raises that it is vain. `give_up` is called when time is up.
    """

    look: Callable[[], Found | None]
    give_up: Callable[[float], Found]


class Pages(Protocol[Item_co]):
    """A place in something that goes on, called `what` for people."""

    @property
    def what(self) -> str:
        """What each item is."""

    def page(self) -> Sequence[Item_co]:
        """Return the next items that are known, and go past them."""

    def has_more(self) -> bool:
        """Whether the next page has items."""

    def is_over(self) -> bool:
        """Whether the stream is sealed, and no page has any more items."""


class Waits:
    """Makes the waits of one reader.

    A refusal ends a wait at once, as waiting does not help. One from before the wait may have been
    mended since: the controller is asked again, and only a fresh refusal counts. A controller that
    is away may come back, so that is an error when time is up.
    """

    def __init__(
        self,
        following: Following,
        reporting: Reporting | None,
        *,
        where: str,
        check: Callable[[], None],
    ) -> None:
        """Take what is waited for; `where` names the controllers, `check` raises that all ended."""
        self._following = following
        self._reporting = reporting
        self._where = where
        self._check = check

    def completeness(self, time: int, domain: str | None) -> Wait[Mark]:
        """Wait for the first mark with lower >= `time`."""
        patience = self._patience(lambda: self._following.steps(domain))

        def look() -> Mark | None:
            follower = self._following.follower(domain)
            last = None if follower is None else follower.last
            if follower is None or (last is None and not follower.is_sealed):
                return patience.look(None)
            if last is not None and last.lower < time and not follower.is_sealed:
                return patience.look(None)
            return follower.complete_to(time)

        def give_up(timeout_s: float) -> Mark:
            patience.end(f"time {time} is not known to be complete", timeout_s)
            follower = self._following.follower(domain)
            last = None if follower is None else follower.last
            raise NotCompleteYet(time, None if last is None else last.lower)

        return Wait(look, give_up)

    def catching_up(self) -> Wait[bool]:
        """Wait until the marks are known that there were when the reader asked first."""
        patience = self._patience(self._following.all_steps)
        return Wait(
            lambda: patience.look(self._following.is_caught_up or None),
            lambda timeout_s: patience.end("the marks are not known", timeout_s, must_answer=True),
        )

    def further(self, cursor: Pages[object], domain: str | None) -> Wait[bool]:
        """Wait for what comes after the cursor; false where nothing came, or nothing can come."""
        patience = self._patience(lambda: self._following.steps(domain))
        return Wait(
            lambda: patience.look(cursor.has_more() or (False if cursor.is_over() else None)),
            lambda timeout_s: patience.end(f"no further {cursor.what} is known", timeout_s),
        )

    def leaving(self, position: Mapping[int, int]) -> Wait[bool]:
        """Begin to go offline, and wait until the controller knows."""
        reporting = self._reporting
        if reporting is None:
            raise Rejected("this reader belongs to no group to go offline from")
        self._check()
        patience = self._patience(reporting.steps)
        leaving = reporting.leave(position)
        what = f"{reporting.reader} may still be online"
        return Wait(
            lambda: patience.look(leaving.is_done or None),
            lambda timeout_s: patience.end(what, timeout_s, must_answer=True),
        )

    def reporting(self) -> Wait[bool]:
        """Wait until all is reported, if there is a group to report to."""
        reporting = self._reporting
        patience = self._patience(lambda: [] if reporting is None else reporting.steps())
        return Wait(
            lambda: patience.look(reporting is None or reporting.is_reported or None),
            lambda timeout_s: patience.end("not all is reported", timeout_s, must_answer=True),
        )

    def cursor(self, after: int, domain: str | None) -> Cursor:
        """Return a place in the marks of a domain."""
        return Cursor(self._following, after, domain)

    def window_cursor(self, tiling: Tiling, after: Time | None, domain: str | None) -> WindowCursor:
        """Return a place in the complete windows of a domain."""
        begin = None if after is None else unix_ms_of(after)
        return WindowCursor(self._following, tiling, begin, domain)

    def _patience(self, steps: Callable[[], Sequence[Repeated]]) -> _Patience:
        return _Patience(steps, self._where, self._check)


class Cursor:
    """A place in the marks of a domain; of a stream made again, it begins at the first mark."""

    what = "mark"

    def __init__(self, following: Following, after: int, domain: str | None) -> None:
        """Begin after a seq."""
        self._following = following
        self._domain = domain
        self._after = after
        self._stream_id: str | None = None

    def page(self) -> list[Mark]:
        """Return the next marks that are known, and go past them."""
        follower = self._following.follower(self._domain)
        if follower is None:
            return []
        if self._stream_id not in {None, follower.stream_id}:
            self._after = 0
        self._stream_id = follower.stream_id
        found = follower.marks_after(self._after, PAGE)
        if found:
            self._after = found[-1].seq
        return found

    def has_more(self) -> bool:
        """Whether the next page has marks."""
        follower = self._following.follower(self._domain)
        if follower is None or follower.last is None:
            return False
        made_again = self._stream_id not in {None, follower.stream_id}
        return made_again or follower.last.seq > self._after

    def is_over(self) -> bool:
        """Whether the stream is sealed, and no page has any more marks."""
        follower = self._following.follower(self._domain)
        return follower is not None and follower.is_sealed and not self.has_more()


class _Patience:
    """When a wait for `steps`, which may become others meanwhile, is in vain."""

    def __init__(
        self, steps: Callable[[], Sequence[Repeated]], where: str, check: Callable[[], None]
    ) -> None:
        """Begin to wait: whatever was refused is asked again at once."""
        self._steps = steps
        self._where = where
        self._check = check
        self._seen = {id(step): step.attempts.refusals for step in steps()}
        for step in steps():
            if isinstance(step.attempts.failure, Rejected):
                step.retry()

    def look(self, found: Found | None) -> Found | None:
        """Return what was found; where nothing was, raises that waiting for it is in vain."""
        if found is not None:
            return found
        self._check()
        for step in self._steps():
            attempts = step.attempts
            failure = attempts.failure
            if isinstance(failure, Rejected) and attempts.refusals > self._seen.get(id(step), 0):
                raise failure
        return None

    def end(self, what: str, timeout_s: float, *, must_answer: bool = False) -> bool:
        """Raise what keeps the answers away when time is up; false where nothing does.

        `must_answer`: a controller that is just silent does. Otherwise one may be, after its first
        answer, as a long poll is.
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
