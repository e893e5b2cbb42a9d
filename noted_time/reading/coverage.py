"""What a window or a cut does not cover, although it is complete: missing writers and late rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from noted_time.reading.late import LateReports
from noted_time.reading.missing import MissingWriters
from noted_time.values import MIN_INT64, WRITERS_NAMED, Late, Mark, Missing


class Uncovered(NamedTuple):
    """What a complete window may lack.

    `before_first_mark`: it begins below the first mark of the stream, so nobody vouches for its
    beginning, and it is not known who is missing.
    """

    missing: Missing
    late: Late
    before_first_mark: bool


@dataclass(frozen=True, slots=True)
class Coverage:
    """What is known of one domain; `first_lower` is that of the first mark there ever was.

    `newcomers` are the writers that no mark counts yet; below the time `newcomers_from` they may
    have been counted before they were forgotten.
    """

    missing: MissingWriters
    late: LateReports
    first_lower: int | None
    newcomers: Missing = Missing()  # noqa: RUF009 - frozen
    newcomers_from: int = MIN_INT64

    def at_mark(self, mark: Mark, since: int | None, complete_to: int) -> Uncovered:
        """Return what the cut of a mark may lack of the times from `since` to `complete_to`.

        Without `since`, all late rows below `complete_to` count, and only a first mark above
        `complete_to` makes it `before_first_mark`.
        """
        late = self.late.between(MIN_INT64 if since is None else since, complete_to)
        first = complete_to if since is None else since
        return self._of(first, mark.lower - 1, self.missing.at_mark(mark), late)

    def in_windows(self, starts: Sequence[int], size: int) -> Iterator[Uncovered]:
        """Yield what each of consecutive windows of one size may lack."""
        missing, late = self.missing.in_windows(starts, size), self.late.in_windows(starts, size)
        return map(self._of, starts, starts, missing, late)

    def _of(self, start: int, newest: int, missing: Missing, late: Late) -> Uncovered:
        """Return what is lacking from a time on; `newest` is one that newcomers may lack."""
        is_before = self.first_lower is not None and start < self.first_lower
        new = self.newcomers if newest >= self.newcomers_from else Missing()
        found = Missing(
            (*missing.writers, *new.writers)[:WRITERS_NAMED],
            missing.count + new.count,
            missing.is_known and not is_before,
            missing.joined_later + new.joined_later,
        )
        return Uncovered(found, late, is_before)
