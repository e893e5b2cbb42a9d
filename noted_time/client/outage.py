"""What a client says of answers that stay away: each kind once, and once that they are back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.values import Rejected, UnexpectedAnswer, Unreachable

if TYPE_CHECKING:
    from noted_time.client.backoff import Backoff
    from noted_time.values import NotedTimeError


class Outage:
    """What keeps answers from the threads or tasks of a client, by their names.

    Each call returns the sentence to log, `None` if that was said already; `now` is in seconds
    of a clock that never goes back.

    >>> outage = Outage("the reader of stream 's'")
    >>> outage.failed(Unreachable("no route"), now=5.0)
    "the reader of stream 's': no response, retrying: no route"
    >>> outage.failed(Unreachable("no route"), now=6.0)
    >>> outage.answered(now=7.0)
    "the reader of stream 's': the controller responds again, after 2.0 s"
    """

    def __init__(self, who: str) -> None:
        """Begin well; `who` begins each sentence."""
        self._who = who
        self._since: dict[str, float] = {}
        self._told: set[str] = set()

    def failed(self, error: NotedTimeError, *, now: float, asker: str = "") -> str | None:
        """Learn that this asker was refused, or not answered."""
        self._since.setdefault(asker, now)
        kind = kind_of(error)
        if kind in self._told:
            return None
        self._told.add(kind)
        if isinstance(error, UnexpectedAnswer):
            return f"{self._who}: retrying after an unexpected answer: {error}"
        what = "refused" if isinstance(error, Rejected) else "no response"
        return f"{self._who}: {what}, retrying: {error}"

    def answered(self, *, now: float, asker: str = "") -> str | None:
        """Learn that this asker was answered; it is over once all are."""
        since = self._since.pop(asker, None)
        if since is None or self._since:
            return None
        self._told.clear()
        return f"{self._who}: the controller responds again, after {now - since:.1f} s"


def kind_of(error: NotedTimeError) -> str:
    """Return what makes two errors the same one to a reader of the log.

    >>> kind_of(Unreachable("no route")), kind_of(Rejected("no such domain"))
    ('Unreachable', 'Rejected no such domain')
    """
    if isinstance(error, Unreachable):
        return type(error).__name__
    return f"{type(error).__name__} {getattr(error, 'status', error)}"


def delay_s(backoff: Backoff, failures: int, error: NotedTimeError, chance: float) -> float:
    """Return how long to wait after that many failures in a row, the last of them this one."""
    asked = error.retry_after_s if isinstance(error, Unreachable) else None
    return backoff.delay_s(failures, chance=chance, retry_after_s=asked)
