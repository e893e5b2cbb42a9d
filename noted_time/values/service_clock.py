"""The service clock, which runs only while a controller serves, and how it is shown as Unix ms.

Reports of late rows are found by the service clock, which never steps. People and repair loops know
only Unix ms. If a loop hands a shown moment back, `ReportClock.find_served` returns this moment or
an earlier one, however the wall clock was set in between. So the loop misses no report.
"""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from noted_time.values.times import HOUR_MS, MAX_INT64, MIN_INT64

TAKEOVER_LOSS_MS = 3_000
"""The service clock of a stream may go back by so much when another controller takes it over."""

CLOCK_STEP_MS = 5_000
"""A wall clock that moves by less against the other clocks has not stepped."""

_SHIFTS_KEPT = 32
_STEPS_KEPT = 10


class ServiceClock(Struct):
    """Milliseconds during which a controller was serving.

    Each step is capped, so a pause of machine or process is not silence of the writers:

    >>> clock = ServiceClock(now=5000, step_cap_ms=1000)
    >>> clock.serve(250), clock.serve(3_600_000), clock.serve(-4)
    (5250, 6250, 6250)
    """

    now: int = 0
    step_cap_ms: int = 1000

    def serve(self, elapsed_ms: int) -> int:
        """Add `elapsed_ms`, at most `step_cap_ms`, and return `now`."""
        self.now += min(max(elapsed_ms, 0), self.step_cap_ms)
        return self.now


class ClockShift(Struct, frozen=True):
    """By how much Unix time was ahead of the service clock from `from_served_ms` to the next shift.

    It rose from `first_ms` to `last_ms`: by at most `CLOCK_STEP_MS`, or shifts were joined.
    """

    from_served_ms: int
    first_ms: int
    last_ms: int

    @property
    def first_at(self) -> int:
        return self.from_served_ms + self.first_ms

    def join(self, following: ClockShift) -> ClockShift:
        """Return a shift that finds each moment no later than both."""
        first_ms = min(self.first_ms, following.first_ms)
        return ClockShift(self.from_served_ms, first_ms, max(self.last_ms, following.last_ms))


class ReportClock(Struct, frozen=True):
    """The service clock of one stream's reports, and the Unix ms that it was shown as.

    The shift follows the wall clock at each report. After a downtime it is larger, because the
    service clock stood:

    >>> clock = ReportClock.begin(1_000, 1_700_000_000_000)
    >>> clock.show(61_000), clock.find_served(1_700_000_060_000)
    (1700000060000, 61000)
    >>> restarted = clock.follow(62_000, 1_700_009_000_000)
    >>> restarted.show(62_500), restarted.find_served(1_700_000_060_000)
    (1700009000500, 61000)

    If the wall clock steps back, the shift stays until reports have found it behind for an hour:

    >>> stepped = clock.follow(62_000, 1_600_000_000_000)
    >>> stepped.show(62_000), stepped.is_near_step(60_000)
    (1700000061000, True)
    >>> corrected = stepped.follow(3_700_000, 1_600_003_638_000)
    >>> corrected.show(3_700_000), corrected.find_served(1_700_000_060_000)
    (1600003638000, 61000)

    `steps_served_ms` are the moments of the last reports that found a step of the wall clock. Since
    `behind_from_served_ms`, reports have found the wall clock behind the last shift.
    """

    shifts: tuple[ClockShift, ...]
    steps_served_ms: tuple[int, ...] = ()
    behind_from_served_ms: int | None = None

    @classmethod
    def begin(cls, served_ms: int, wall: int) -> ReportClock:
        """Return the clock of a new stream, whose first look is before its creation."""
        shift_ms = wall - served_ms
        return cls((ClockShift(served_ms - TAKEOVER_LOSS_MS, shift_ms, shift_ms),))

    def show(self, served_ms: int) -> int:
        """Return a moment of the service clock as Unix ms."""
        shift = self.shifts[0]
        for later_shift in self.shifts:
            if later_shift.from_served_ms <= served_ms:
                shift = later_shift
        return served_ms + shift.first_ms  # it stays if the commit of a rise fails

    def find_served(self, shown_at: int) -> int:
        """Return the earliest moment that may have been shown as `shown_at` (Unix ms).

        If no moment was, it is the last one that was shown before then, and `MIN_INT64` before the
        first shift.
        """
        last_shown_at = last_served_ms = MIN_INT64
        is_in_gap = False
        for shift, end_served_ms in zip(self.shifts, self._list_ends(), strict=True):
            end_at = end_served_ms + shift.last_ms
            if shown_at < shift.first_at:
                is_in_gap = True  # later shifts count only if they were shown as `shown_at`
            elif shown_at <= end_at:
                return max(shown_at - shift.last_ms, shift.from_served_ms)
            elif end_at > last_shown_at and not is_in_gap:
                last_shown_at = end_at
                last_served_ms = end_served_ms
        return last_served_ms

    def is_behind(self, served_ms: int, wall: int) -> bool:
        """Return whether the wall clock is behind the time that this clock shows."""
        return wall < served_ms + self.shifts[-1].last_ms - CLOCK_STEP_MS

    def is_near_step(self, served_ms: int) -> bool:
        """Return whether a moment is within an hour of a report that found a step."""
        return any(abs(served_ms - step) <= HOUR_MS for step in self.steps_served_ms)

    def follow(self, served_ms: int, wall: int, *, has_stepped: bool = False) -> ReportClock:
        """Return the clock after a report.

        `has_stepped` means that the wall clock moved against the monotonic clock since the last
        report of this process.
        """
        if served_ms < self.shifts[-1].from_served_ms:
            earlier_clock = replace(self, shifts=self._put_back(served_ms))
            return earlier_clock.follow(served_ms, wall, has_stepped=has_stepped)
        if self.is_behind(served_ms, wall):
            return self._fall_behind(served_ms, wall)
        steps_served_ms = self.steps_served_ms
        if has_stepped or self.behind_from_served_ms is not None:
            steps_served_ms = self._add_step(served_ms)
        return ReportClock(self._raise(served_ms, wall - served_ms), steps_served_ms)

    def _list_ends(self) -> list[int]:
        ends = [following.from_served_ms for following in self.shifts[1:]]
        # so late that no time is after it
        return [*ends, MAX_INT64 - MIN_INT64]

    def _put_back(self, served_ms: int) -> tuple[ClockShift, ...]:
        """Return shifts that begin no later, because a takeover lost service time."""
        shifts = [*self.shifts]
        while len(shifts) > 1 and shifts[-2].from_served_ms >= served_ms:
            shifts[-2:] = [shifts[-2].join(shifts[-1])]
        last = shifts[-1]
        shifts[-1] = replace(last, from_served_ms=min(last.from_served_ms, served_ms))
        return tuple(shifts)

    def _raise(self, served_ms: int, shift_ms: int) -> tuple[ClockShift, ...]:
        last = self.shifts[-1]
        if shift_ms <= last.last_ms:
            return self.shifts
        if shift_ms <= last.first_ms + CLOCK_STEP_MS:
            return (*self.shifts[:-1], replace(last, last_ms=shift_ms))
        return self._append(served_ms, shift_ms)

    def _fall_behind(self, served_ms: int, wall: int) -> ReportClock:
        """Return the clock after a report that found the wall clock behind.

        Shown times go back only after an hour, so that a short step changes none.
        """
        if self.behind_from_served_ms is None:
            return ReportClock(self.shifts, self._add_step(served_ms), served_ms)
        if served_ms - self.behind_from_served_ms < HOUR_MS:
            return self
        shifts = self._append(served_ms, wall - served_ms)
        return ReportClock(shifts, self._add_step(served_ms))

    def _append(self, served_ms: int, shift_ms: int) -> tuple[ClockShift, ...]:
        """Add a shift. If there are too many, join the two adjacent former ones most alike."""
        shifts = [*self.shifts]
        if len(shifts) == _SHIFTS_KEPT:
            joined_shifts = [shift.join(next_shift) for shift, next_shift in pairwise(shifts)]
            differences = [shift.last_ms - shift.first_ms for shift in joined_shifts]
            place = differences.index(min(differences))
            shifts[place : place + 2] = [joined_shifts[place]]
        return (*shifts, ClockShift(served_ms, shift_ms, shift_ms))

    def _add_step(self, served_ms: int) -> tuple[int, ...]:
        return (*self.steps_served_ms, served_ms)[-_STEPS_KEPT:]
