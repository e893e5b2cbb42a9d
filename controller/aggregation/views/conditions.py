"""The condition of a domain, as the dashboard, `explain` and `watch` show it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from noted_time.answers import Condition, Silence
from noted_time.reading import MarkHistory
from noted_time.values import DecisionName

GAPS_COMPARED = 20
USUAL_GAPS = 3
RECENT_MS = 5000


def is_recent(written_at: Sequence[int], now: int) -> bool:
    """Return whether the last mark is no older than three times the median gap of the last marks.

    A mark is recent for at least 5 s. A single mark never is.

    >>> hourly = [hour * 3_600_000 for hour in range(5)]
    >>> is_recent(hourly, hourly[-1] + 3 * 3_600_000), is_recent(hourly, hourly[-1] + 10_800_001)
    (True, False)
    """
    gaps = [later - earlier for earlier, later in pairwise(written_at)]
    return bool(gaps) and now - written_at[-1] <= max(RECENT_MS, USUAL_GAPS * median(gaps))


def classify_domain(
    history: MarkHistory, decision: DecisionName, silence: Silence | None, held_ms: int, now: int
) -> Condition:
    if silence is not None:
        return silence
    if decision in ("quiet", "sealed"):
        return decision
    is_late = held_ms > RECENT_MS
    if decision == "hold" and len(history):
        is_late = not is_recent(history.latest_written_at(GAPS_COMPARED + 1), now)
    if is_late:
        return "holds"
    return "advancing" if len(history) else "unmarked"
