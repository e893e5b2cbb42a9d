"""How far the members of an alignment may be ahead of the slowest."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import LimitReached, Rejected
from noted_time.values import MAX_INT64, MIN_INT64
from noted_time.wing import Alignment, AlignmentSettings
from noted_time.wing.alignment import MOST_MEMBERS

GOLDEN = Path(__file__).parents[1] / "golden" / "flink.json"
CASES: list[dict[str, Any]] = [
    case for case in json.loads(GOLDEN.read_text(encoding="utf-8")) if case["kind"] == "alignment"
]
TIMEOUT_MS = 100

TIMES = st.integers(MIN_INT64 + 1, MAX_INT64 - 1)
REPORTS = st.tuples(
    st.sampled_from("abc"),
    st.none() | st.integers(-50, 50) | TIMES,
    st.sampled_from(("live", "idle", "finished")),
    st.integers(0, TIMEOUT_MS + 10),
)
DRIFTS = st.integers(1, 60) | st.integers(1, MAX_INT64)


def played(case: dict[str, Any]) -> list[int | None]:
    """Play the steps of a case; returns the bound of the step's group after each."""
    groups: dict[str, Alignment] = {}
    bounds = []
    for step in case["steps"]:
        group = groups.setdefault(step["group"], Alignment(AlignmentSettings(case["max_drift"])))
        group.report(f"subtask-{step['subtask']}", step["value"], now=0)
        bounds.append(group.at(0).bound)
    return bounds


def test_the_cases_of_alignment_are_there() -> None:
    """A case that is lost from the file is missed."""
    assert [case["name"] for case in CASES] == ["min_plus_drift", "groups_do_not_mix"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_bound_is_where_other_engines_have_it(case: dict[str, Any]) -> None:
    """After every step."""
    expected = [step["expect"]["max_allowed"] for step in case["steps"]]

    assert played(case) == expected


def after(reports: list[Any], drift: int) -> tuple[Alignment, int]:
    """Return an alignment after reports, each that long after the previous one, and the time."""
    alignment, now = Alignment(AlignmentSettings(drift, TIMEOUT_MS)), 0
    for member, time, state, wait in reports:
        now += wait
        alignment.report(member, time, state, now=now)
    return alignment, now


def counted(reports: list[Any], now: int) -> dict[str, int]:
    """Return the times of the members that count, by going through all reports."""
    at, last = 0, {}
    for member, time, state, wait in reports:
        at += wait
        last[member] = (time, state, at)
    return {
        member: time
        for member, (time, state, when) in last.items()
        if time is not None and state == "live" and now - when < TIMEOUT_MS
    }


@given(reports=st.lists(REPORTS, max_size=12), drift=DRIFTS, later=st.integers(0, 2 * TIMEOUT_MS))
def test_the_bound_is_the_least_time_counted_plus_the_drift(
    reports: list[Any], drift: int, later: int
) -> None:
    """Of the live members with a time that were heard of within the timeout, and no others."""
    alignment, now = after(reports, drift)
    times = counted(reports, now + later)
    found = alignment.at(now + later)
    bound = min(min(times.values()) + drift, MAX_INT64) if times else None

    assert (found.bound, {n for n, each in found.members.items() if each.counted}) == (
        bound,
        set(times),
    )


@given(reports=st.lists(REPORTS, max_size=12), drift=DRIFTS)
def test_the_slowest_member_is_never_above_the_bound(reports: list[Any], drift: int) -> None:
    """So one member may always read: the one that holds the bound, and it has the least time."""
    alignment, now = after(reports, drift)
    found = alignment.at(now)
    times = counted(reports, now)

    least = min(times.values(), default=None)
    holder = times.get(found.held_by or "")
    is_below = least is None or (found.bound is not None and least < found.bound)
    assert (holder, is_below) == (least, True)


@pytest.mark.parametrize("wrong", [0, -1, MAX_INT64 + 1])
def test_a_drift_and_a_timeout_are_above_zero(wrong: int) -> None:
    """Neither is there without."""
    with pytest.raises(Rejected, match="max_drift"):
        AlignmentSettings(wrong)
    with pytest.raises(Rejected, match="member_timeout_ms"):
        AlignmentSettings(1, wrong)


@pytest.mark.parametrize("end", [MIN_INT64, MAX_INT64])
def test_the_ends_of_int64_are_no_times(end: int) -> None:
    """As in a note."""
    with pytest.raises(Rejected, match="ends"):
        Alignment(AlignmentSettings(1)).report("a", end, now=0)


def test_silent_members_make_room_for_new_ones() -> None:
    """While all of them report, no further member fits."""
    alignment = Alignment(AlignmentSettings(1, TIMEOUT_MS))
    for member in range(MOST_MEMBERS):
        alignment.report(f"m{member}", 1, now=0 if member else 1)

    with pytest.raises(LimitReached):
        alignment.report("new", 1, now=TIMEOUT_MS - 1)
    alignment.report("new", 1, now=TIMEOUT_MS)
    assert sorted(alignment.at(TIMEOUT_MS).members) == ["m0", "new"]
