"""What a look at a whole log found, of whatever kind the log and the look are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from noted_time.values import LogFact


@dataclass(frozen=True, slots=True)
class Seen:
    """The exclusive end offset of each segment, and how far the times of rows have come, in ms.

    `newest` has the newest time of each segment with new rows, `None` if that is not known. No row
    below the ends has a larger time than `largest`, which is `None` if no such bound is known.
    `because` are the open transactions, and the records whose times are ahead of the clock.
    """

    ends: Mapping[int, int]
    newest: Mapping[int, int | None] = field(default_factory=dict)
    largest: int | None = None
    because: Sequence[LogFact] = ()


def find_log_id(look: Callable[[], Seen]) -> str | None:
    """Return the `log_id` of what looks at a log; `None` if that has none, or none yet."""
    found: str | None = getattr(look, "log_id", None)
    return found


def count_unusable(look: object) -> int:
    """Return how many records were passed over by what looks at a log, because of their times."""
    unusable: int = getattr(look, "unusable", 0)
    return unusable
