"""Finds the reports of late rows that are new to a reader that looked before."""

from __future__ import annotations

from typing import NamedTuple

from controller.aggregation.views.view import View
from noted_time.values import HOUR_MS, MIN_INT64, TAKEOVER_LOSS_MS


class Look(NamedTuple):
    """The service moment where a look begins, and the time where the next look begins.

    `is_time_known` is false if the time that was asked for may be of another clock. `looked_at` is
    null if the stream has no clock for it.
    """

    since_served_ms: int
    is_time_known: bool
    looked_at: int | None


def look_for_reports(view: View, since_at: int, stored_ms: int) -> Look:
    """Look for reports since `since_at` (Unix ms).

    No later report can have a moment before `looked_at`: after a restart or a takeover, the service
    clock continues from `stored_ms`, which it was last stored as.
    """
    clock = view.stream.record.report_clock
    now = view.served_ms
    if clock is None:
        return Look(MIN_INT64, is_time_known=False, looked_at=None)
    since_served_ms = clock.find_served(since_at)
    latest_at = max(view.now.wall, clock.show(now)) + HOUR_MS
    is_behind = clock.is_behind(now, view.now.wall) and since_served_ms >= now - HOUR_MS
    is_in_doubt = since_at > latest_at or is_behind or clock.is_near_step(since_served_ms)
    looked_at = clock.show(min(now - TAKEOVER_LOSS_MS, stored_ms))
    return Look(since_served_ms, not is_in_doubt, looked_at)
