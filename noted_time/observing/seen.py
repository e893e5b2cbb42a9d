"""Describe the state of a log of any kind, as a poll finds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from noted_time.values import LogFact


@dataclass(frozen=True, slots=True)
class Seen:
    """The ends of a log's segments, and the times of its rows in ms."""

    ends: Mapping[int, int]
    """The exclusive end offset of each segment."""
    newest: Mapping[int, int | None] = field(default_factory=dict)
    """The newest time of each segment with new rows, `None` if it is not known."""
    largest: int | None = None
    """An upper bound of the times of rows below the ends, `None` if it is not known."""
    because: Sequence[LogFact] = ()
    """The open transactions, and the records whose times are ahead of the clock."""


def find_log_id(look: Callable[[], Seen]) -> str | None:
    found: str | None = getattr(look, "log_id", None)
    return found


def count_unusable(look: object) -> int:
    unusable: int = getattr(look, "unusable", 0)
    return unusable
