"""The state of a log, as a poll finds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from noted_time.values import LogFact


@dataclass(frozen=True, slots=True)
class Seen:
    """The exclusive ends of a log's segments, and the times of its rows in ms.

    `newest` has the segments with new rows. `largest` bounds the times of all rows below the ends.
    """

    ends: Mapping[int, int]
    newest: Mapping[int, int | None] = field(default_factory=dict)
    largest: int | None = None
    because: Sequence[LogFact] = ()
