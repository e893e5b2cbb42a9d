"""Every error of noted-time, sorted by what the caller should do.

::

    NotedTimeError
    ├── Rejected            don't retry: the request itself is wrong
    │   ├── InvalidName     a stream, writer, key or reader name outside [A-Za-z0-9._-]{1,249}
    │   ├── InvalidNote     a writer's note was refused; `status` and `last` say why
    │   ├── InvalidScale    a scale event names an unknown or sealed segment
    │   ├── LimitReached    the controller takes on no more of these
    │   ├── NotAllowed      the token is missing, counts no more, or lacks the right
    │   ├── SharedName      another process notes under the writer's name
    │   ├── UnknownStream   there is no stream of that name
    │   ├── UnknownKey      the stream does not declare that key
    │   └── UnknownReader   the group or its reader never reported
    ├── Conflict            read again, then retry
    │   ├── MarkConflict    another owner appended the mark with that seq first
    │   └── NotCompleteYet  no mark is complete to the time asked for; `lower` says how far it is
    └── Unreachable         the outcome is unknown: retry with backoff
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class NotedTimeError(Exception):
    """Root of the tree."""


class Rejected(NotedTimeError):
    """The request is wrong and would be wrong again: don't retry."""


class InvalidName(Rejected):
    """A name is not of the form ``[A-Za-z0-9._-]{1,249}``."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(f"{what} {name[:260]!r} is not 1 to 249 characters of A-Z a-z 0-9 . _ -")
        self.what = what
        self.name = name


class InvalidNote(Rejected):
    """A note was refused.

    `status` is the wire word: ``invalid_time``, ``invalid_position``, ``unknown_key`` and
    ``superseded``, where `last` is the stored value the note fell behind; ``too_far_ahead``,
    ``too_many_segments`` and ``too_many_writers``, where it is the bound that the note goes beyond.
    """

    def __init__(self, writer: str, status: str, last: int | Mapping[int, int] | None) -> None:
        super().__init__(f"note of writer {writer!r} refused as {status}: last is {last}")
        self.writer = writer
        self.status = status
        self.last = last


class InvalidScale(Rejected):
    """A scale event contradicts what is known of the stream's segments."""

    def __init__(self, segment: int, reason: str) -> None:
        super().__init__(f"segment {segment}: {reason}")
        self.segment = segment
        self.reason = reason


class LimitReached(Rejected):
    """The controller takes on no more of `what` than `limit`."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"there are {limit} {what} already, and no more are taken on")
        self.what = what
        self.limit = limit


class NotAllowed(Rejected):
    """No token was shown that counts, or it has not the right; another one may be let in."""


class SharedName(Rejected):
    """Another process notes under the writer's name: each calls the other's requests old."""

    def __init__(self, writer: str) -> None:
        super().__init__(
            f"requests of writer {writer!r} are overtaken again and again: "
            "another process notes under its name"
        )
        self.writer = writer


class UnknownStream(Rejected):
    """There is no stream of that name."""

    def __init__(self, stream: str) -> None:
        super().__init__(f"there is no stream {stream!r}; create it with PUT /v1/streams/{stream}")
        self.stream = stream


class UnknownKey(Rejected):
    """The stream does not declare that key."""

    def __init__(self, key: str, declared: Iterable[str]) -> None:
        self.key = key
        self.declared = tuple(declared)
        super().__init__(f"the stream has no key {key!r}; it declares {', '.join(self.declared)}")


class UnknownReader(Rejected):
    """The reader group, or the reader in it, never reported a position."""

    def __init__(self, group: str, reader: str | None = None) -> None:
        who = f"reader group {group!r}" if reader is None else f"reader {reader!r} of {group!r}"
        super().__init__(f"{who} is not online: it has reported no position")
        self.group = group
        self.reader = reader


class Conflict(NotedTimeError):
    """What was read has changed since: read again, then retry."""


class MarkConflict(Conflict):
    """A mark with that seq is already there, appended by another owner."""

    def __init__(self, stream: str, key: str, seq: int) -> None:
        super().__init__(f"mark {seq} of stream {stream!r}, key {key!r} was appended by another")
        self.stream = stream
        self.key = key
        self.seq = seq


class NotCompleteYet(Conflict):
    """No mark is complete to the time asked for."""

    def __init__(self, time: int, lower: int | None) -> None:
        now = "there is no mark yet" if lower is None else f"the lower is {lower}"
        super().__init__(f"time {time} is not complete yet: {now}")
        self.time = time
        self.lower = lower


class Unreachable(NotedTimeError):
    """The controller did not answer; whether it acted is unknown.

    `retry_after_s` is how long it asked to be left alone, where it said so.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
