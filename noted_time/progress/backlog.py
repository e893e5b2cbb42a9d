"""Decides whether a reader has a backlog, by how far its lower is behind (FLIP-327, 328, 309).

A reader of old events may use large batches. Each of three reasons is enough:

- Its lower is behind the wall clock by more than a threshold (FLIP-328). This does not apply if no
  writer is live, or if times are not in Unix ms.
- Its lower is behind the stream's last lower by more than another threshold. This also works for
  replays of old streams.
- The application reported a backlog (FLIP-309).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from noted_time.open_enum import OpenEnum, list_names
from noted_time.values import UNIX_MS, PositiveInt64, Rejected, check_least

Rule = OpenEnum["two_way", "sticky"]
Reason = OpenEnum["reported", "watermark_lag", "reader_lag"]


class BacklogPolicy(Struct, frozen=True):
    """The conditions for a backlog.

    `watermark_lag_ms` is the largest lag behind the wall clock without a backlog, and
    `reader_lag_ms` the largest lag behind the stream's last lower. With the rule `sticky`, a reader
    that once caught up has a backlog only by a report. Raises `Rejected` for a threshold below 1.
    """

    watermark_lag_ms: Annotated[
        PositiveInt64 | None,
        Meta(
            description="the group has a backlog if its lower is behind the wall clock by more "
            "than this"
        ),
    ] = None
    reader_lag_ms: Annotated[
        PositiveInt64 | None,
        Meta(
            description="the group has a backlog if its lower is behind the stream's last lower "
            "by more than this"
        ),
    ] = None
    rule: Annotated[
        Rule,
        Meta(description="sticky: once it has caught up, a group never has a backlog by lag again"),
    ] = "two_way"

    def __post_init__(self) -> None:
        for name in ("watermark_lag_ms", "reader_lag_ms"):
            check_least(name, getattr(self, name), 1)
        if self.rule not in list_names(Rule):
            raise Rejected(f"rule is {self.rule!r}; it is one of {', '.join(list_names(Rule))}")
        if self.rule == "sticky" and self.is_never:
            raise Rejected("rule 'sticky' needs watermark_lag_ms or reader_lag_ms")

    @property
    def is_never(self) -> bool:
        """Whether only a report can cause a backlog."""
        return self.watermark_lag_ms is None and self.reader_lag_ms is None


class BacklogState(Struct, frozen=True):
    """Whether there is a backlog; `caught_up` is true once no lag exceeded its threshold."""

    backlog: bool = False
    backlog_causes: tuple[Reason, ...] = ()
    backlog_began_at: int | None = None
    caught_up: bool = False


UNKNOWN_BACKLOG = BacklogState()


class Backlog:
    """The backlog of one reader of one domain, as of the last evaluation.

    >>> backlog = Backlog(BacklogPolicy(reader_lag_ms=1000))
    >>> backlog.look(now_ms=7, lower=5000, last_lower=9000)
    BacklogState(backlog=True, backlog_causes=('reader_lag',), backlog_began_at=7, caught_up=False)
    >>> backlog.look(now_ms=8, lower=8000, last_lower=9000).backlog  # at the threshold
    False
    """

    def __init__(self, policy: BacklogPolicy, last: BacklogState = UNKNOWN_BACKLOG) -> None:
        self._policy = policy
        self.state = last

    def look(  # noqa: PLR0913 - the facts about a reader
        self,
        now_ms: int,
        lower: int | None,
        last_lower: int | None,
        *,
        idle: bool = False,
        is_reported: bool | None = None,
        first_lower: int | None = None,
    ) -> BacklogState:
        """Return whether there is a backlog now, and store the result.

        - `idle`: whether no writer is live. The lag behind the wall clock then does not count.
        - `first_lower`: the lower that a reader without a lower reaches first.
        """
        reader_lower = first_lower if lower is None else lower
        lag_flags: dict[Reason, bool | None] = {}
        if self._policy.watermark_lag_ms is not None:
            lag_flags["watermark_lag"] = _is_lagging(
                self._policy.watermark_lag_ms, now_ms, reader_lower, idle=idle
            )
        if self._policy.reader_lag_ms is not None:
            lag_flags["reader_lag"] = _exceeds_reader_lag(
                self._policy.reader_lag_ms, lower, last_lower
            )
        state_before = self.state
        causes: list[Reason] = ["reported"] if is_reported else []
        if not (state_before.caught_up and self._policy.rule == "sticky"):
            causes += [reason for reason, is_lagging in lag_flags.items() if is_lagging]
        caught_up = state_before.caught_up or combine_flags(lag_flags.values()) is False
        self.state = update_state(state_before, now_ms, causes, caught_up=caught_up)
        return self.state


def update_state(
    state_before: BacklogState, now_ms: int, causes: Iterable[Reason], *, caught_up: bool = False
) -> BacklogState:
    reasons = tuple(causes)
    is_new = state_before.backlog_began_at is None or state_before.backlog != bool(reasons)
    began_at = now_ms if is_new else state_before.backlog_began_at
    return BacklogState(bool(reasons), reasons, began_at, caught_up)


def combine_flags(flags: Iterable[bool | None]) -> bool | None:
    """Return the combined flag of several sources (Flink's combiner), `None` without a report.

    >>> combine_flags([None, True]), combine_flags([None, False]), combine_flags([False, False])
    (True, None, False)
    """
    known_flags = list(flags)
    if any(known_flags):
        return True
    if None in known_flags or not known_flags:
        return None
    return False


def _is_lagging(threshold_ms: int, now_ms: int, lower: int | None, *, idle: bool) -> bool | None:
    if lower is None or idle:
        return None
    return lower in UNIX_MS and now_ms - lower > threshold_ms


def _exceeds_reader_lag(
    threshold_ms: int, lower: int | None, last_lower: int | None
) -> bool | None:
    if last_lower is None:
        return None
    return lower is None or last_lower - lower > threshold_ms


def add_reported(state: BacklogState, *, is_reported: bool | None) -> BacklogState:
    if not is_reported or "reported" in state.backlog_causes:
        return state
    return replace(state, backlog=True, backlog_causes=("reported", *state.backlog_causes))
