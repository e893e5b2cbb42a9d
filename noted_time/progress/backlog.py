"""Whether a reader has a backlog: decided from how far its lower is behind (FLIP-327, 328, 309).

A reader that processes old events may as well work in large batches, since its results are not
awaited yet. There are three reasons, and any of them is enough:

* its lower is further behind the wall clock than a threshold (FLIP-328); this does not count for a
  stream without live writers, or if times are not in Unix ms;
* its lower is further behind the last lower of the stream than another threshold. No clock is
  asked: it distinguishes "I am behind" from "the writers are", and so suits replays of the past;
* the application reported one (FLIP-309).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from noted_time.values import UNIX_MS, Rejected, check_least

Rule = Literal["two_way", "sticky"]
Reason = Literal["reported", "watermark_lag", "behind"]


@dataclass(frozen=True, slots=True)
class BacklogPolicy:
    """When a reader has a backlog; durations in ms, `None` to disable, both thresholds exclusive.

    `watermark_lag_ms` is for how far the lower is behind the wall clock (FLIP-328), `behind_ms` for
    how far it is behind the stream's last lower. With `two_way` each look decides again; with
    `sticky` a reader that once caught up only has a backlog again if one is reported.

    Raises `Rejected` for a threshold below 1 or an unknown rule:

    >>> BacklogPolicy(behind_ms=0)
    Traceback (most recent call last):
        ...
    noted_time.Rejected: behind_ms must be 1 or more, not 0
    """

    watermark_lag_ms: int | None = None
    behind_ms: int | None = None
    rule: Rule = "two_way"

    def __post_init__(self) -> None:
        for name in ("watermark_lag_ms", "behind_ms"):
            check_least(name, getattr(self, name), 1)
        if self.rule not in get_args(Rule):
            raise Rejected(f"rule is {self.rule!r}; it is one of {', '.join(get_args(Rule))}")

    @property
    def is_never(self) -> bool:
        """Whether only a report makes a backlog."""
        return self.watermark_lag_ms is None and self.behind_ms is None


@dataclass(frozen=True, slots=True)
class BacklogState:
    """Whether there is a backlog, and all reasons for it.

    `since` is the time of the look that found it so, `None` before the first. `caught_up`: at least
    once no known lag exceeded its threshold.
    """

    backlog: bool = False
    because: tuple[Reason, ...] = ()
    since: int | None = None
    caught_up: bool = False


UNKNOWN_BACKLOG = BacklogState()


class Backlog:
    """The backlog of one reader of one domain, as of its last look.

    >>> backlog = Backlog(BacklogPolicy(behind_ms=1000))
    >>> backlog.look(now_ms=7, lower=5000, last_lower=9000)
    BacklogState(backlog=True, because=('behind',), since=7, caught_up=False)

    Exactly at the threshold there is no backlog:

    >>> backlog.look(now_ms=8, lower=8000, last_lower=9000)
    BacklogState(backlog=False, because=(), since=8, caught_up=True)
    """

    def __init__(self, policy: BacklogPolicy, last: BacklogState = UNKNOWN_BACKLOG) -> None:
        """Start with the last result."""
        self._policy = policy
        self.state = last

    def look(  # noqa: PLR0913 - what there is to know of a reader; all but two are named
        self,
        now_ms: int,
        lower: int | None,
        last_lower: int | None,
        *,
        idle: bool = False,
        reported: bool | None = None,
        first_lower: int | None = None,
    ) -> BacklogState:
        """Return whether there is a backlog now, and remember it.

        `now_ms` is the wall clock, `lower` the reader's own and `last_lower` the stream's last,
        each `None` if there is none. `idle`: no writer is live, so the lag behind the wall clock
        does not count. `first_lower` is the one that a reader without a lower comes to first: it is
        at least as far behind.

        >>> Backlog(BacklogPolicy(watermark_lag_ms=1000)).look(
        ...     1357034400000, None, 1357034400000, first_lower=1356998400000
        ... ).because
        ('watermark_lag',)
        """
        own = first_lower if lower is None else lower
        lags: dict[Reason, bool | None] = {}
        if self._policy.watermark_lag_ms is not None:
            lags["watermark_lag"] = _is_lagging(
                self._policy.watermark_lag_ms, now_ms, own, idle=idle
            )
        if self._policy.behind_ms is not None:
            lags["behind"] = _is_behind(self._policy.behind_ms, lower, last_lower)
        before = self.state
        because: list[Reason] = ["reported"] if reported else []
        if not (before.caught_up and self._policy.rule == "sticky"):
            because += [reason for reason, lag in lags.items() if lag]
        caught_up = before.caught_up or combine_flags(lags.values()) is False
        self.state = update_state(before, now_ms, because, caught_up=caught_up)
        return self.state


def update_state(
    before: BacklogState, now_ms: int, because: Iterable[Reason], *, caught_up: bool = False
) -> BacklogState:
    """Return the state after `before`: its `since` stays while the flag is what it was."""
    reasons = tuple(because)
    is_new = before.since is None or before.backlog != bool(reasons)
    since = now_ms if is_new else before.since
    return BacklogState(bool(reasons), reasons, since, caught_up)


def combine_flags(flags: Iterable[bool | None]) -> bool | None:
    """Return the combined flag of several sources.

    `None` stands for one that has not reported yet. One source with a backlog is enough; without
    one, all must have reported that they have none (Flink's combiner of record attributes).

    >>> combine_flags([None, True]), combine_flags([None, False])
    (True, None)
    >>> combine_flags([False, False]), combine_flags([])
    (False, None)
    """
    said = list(flags)
    if any(said):
        return True
    return None if None in said or not said else False


def _is_lagging(threshold_ms: int, now_ms: int, lower: int | None, *, idle: bool) -> bool | None:
    if lower is None or idle:
        return None
    return lower in UNIX_MS and now_ms - lower > threshold_ms


def _is_behind(threshold_ms: int, lower: int | None, last_lower: int | None) -> bool | None:
    if last_lower is None:
        return None
    return lower is None or last_lower - lower > threshold_ms


def add_reported(state: BacklogState, *, reported: bool | None) -> BacklogState:
    """Return the state with what a reader has reported since."""
    if not reported or "reported" in state.because:
        return state
    return replace(state, backlog=True, because=("reported", *state.because))
