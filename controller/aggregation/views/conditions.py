"""The condition of a domain, as the dashboard, `explain` and `watch` show it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise
from operator import attrgetter
from statistics import median
from typing import NamedTuple

from controller.aggregation.views.view import View
from noted_time.answers import Condition, Silence
from noted_time.reading import MarkHistory
from noted_time.rules import Track
from noted_time.values import DecisionName, Overtaking

WRITERS_EXAMINED = 100

GAPS_COMPARED = 20
USUAL_GAPS = 3
RECENT_MS = 5000
WAITING_MS = 10_000


def is_recent(written_at: Sequence[int], now: int) -> bool:
    """Return whether the last mark is at most as old as three median gaps of the last marks.

    A mark is recent for at least 5 s. A single mark never is.

    >>> hourly = [hour * 3_600_000 for hour in range(5)]
    >>> is_recent(hourly, hourly[-1] + 3 * 3_600_000), is_recent(hourly, hourly[-1] + 10_800_001)
    (True, False)
    """
    gaps = [later_at - earlier_at for earlier_at, later_at in pairwise(written_at)]
    return bool(gaps) and now - written_at[-1] <= max(RECENT_MS, USUAL_GAPS * median(gaps))


class Assessment(NamedTuple):
    """A domain's condition, the first writer that holds it back, and the time noted beyond it."""

    decision: DecisionName
    condition: Condition
    longest: Track | None
    held_ms: int
    overtaking: Overtaking | None


def assess_domain(view: View, silence: Silence | None) -> Assessment:
    stream = view.stream
    history = view.history
    first = islice(view.running.find_holding_back().values(), WRITERS_EXAMINED)
    longest = min(first, key=attrgetter("waiting_served_ms", "member.writer"), default=None)
    decision: DecisionName = "wait"
    if longest is None:
        decision = "advance" if stream.aggregator.may_advance(view.domain) else "quiet"
    if stream.final_cut is not None:
        decision = "sealed"
    held_ms = view.served_ms - longest.waiting_served_ms if longest else 0
    overtaking = find_overtaking(view, longest)
    condition: Condition
    if silence is not None:
        condition = silence
    elif decision in ("quiet", "sealed"):
        condition = decision
    elif _is_late(history, decision, held_ms, view.now.wall):
        condition = "held_back"
    elif overtaking is not None:
        condition = "waiting"
    else:
        condition = "advancing" if len(history) else "unmarked"
    return Assessment(decision, condition, longest, held_ms, overtaking)


def _is_late(history: MarkHistory, decision: DecisionName, held_ms: int, now: int) -> bool:
    if decision == "wait" and len(history):
        return not is_recent(history.latest_written_at(GAPS_COMPARED + 1), now)
    return held_ms > RECENT_MS


def find_overtaking(view: View, longest: Track | None) -> Overtaking | None:
    """Return the time beyond the present lower, if another writer noted it 10 s ago or earlier."""
    running = view.running
    if longest is None or longest.overtaken_served_ms is None or running.highest <= running.lower:
        return None
    since = max(longest.waiting_served_ms, longest.overtaken_served_ms)
    if view.served_ms - since <= WAITING_MS:
        return None
    return Overtaking(since + view.stream.unix_shift(view.now), running.leader, running.highest)
