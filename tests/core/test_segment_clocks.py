"""What a clock per segment gives, by the cases of other engines, see tests/golden/README.md."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Rejected
from noted_time.wing import Outcome, SegmentClocks

GOLDEN = Path(__file__).parents[1] / "golden"
JET: list[dict[str, Any]] = json.loads((GOLDEN / "hazelcast_source.json").read_text("utf-8"))
FLINK: list[dict[str, Any]] = json.loads((GOLDEN / "flink.json").read_text("utf-8"))
IDLE_TIMERS = [case for case in FLINK if case["kind"] == "idle_timer"]
COUNTED_OTHERWISE = "clock_starts_at_first_quiet_look_not_at_event"
WITHOUT_STEPS = "zero_timeout_refused"
TIMERS = [c for c in IDLE_TIMERS if c["name"] not in {COUNTED_OTHERWISE, WITHOUT_STEPS}]

steps = st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(0, 6))
"""A segment, the time of its event, and how long after the step before."""


def taken(clocks: SegmentClocks, step: dict[str, Any]) -> list[Outcome]:
    """Take one step of Jet's; segments are numbered as they are added."""
    now = step["now"]
    match step["op"]:
        case "add":
            return [each for n in range(step["n"]) for each in clocks.add(n, now=now)]
        case "event":
            return clocks.event(step["partition"], step["time"], now=now)
        case "remove":
            return clocks.remove(step["partition"], now=now)
        case _:
            return clocks.tick(now=now)


def idle_checks(case: dict[str, Any]) -> list[bool]:
    """Return what the checks of a case of Flink's find, of one segment added at 0."""
    clocks, now, found = SegmentClocks(case["timeout"] + 1, 0), 0, []
    clocks.add(0, now=now)
    for step in case["steps"]:
        if step["op"] == "advance":
            now += step["by"]
        elif step["op"] == "activity":
            clocks.event(0, 0, now=now)
        else:
            clocks.tick(now=now)
            found.append(clocks.is_idle)
    return found


def expected_checks(case: dict[str, Any]) -> list[bool]:
    """Return what they find in Flink."""
    return [step["expect"]["idle"] for step in case["steps"] if step["op"] == "check"]


def test_the_files_of_cases_are_whole() -> None:
    """A case that is lost from a file is missed."""
    assert (len(JET), len(IDLE_TIMERS), len(TIMERS)) == (7, 7, 5)


@pytest.mark.parametrize("case", JET, ids=lambda case: case["name"])
def test_time_comes_when_jet_emits_watermarks(case: dict[str, Any]) -> None:
    """After every step the times and the word idle are those of the case."""
    clocks = SegmentClocks(case["idle_timeout"], case["lag"])

    assert [taken(clocks, step) for step in case["steps"]] == [s["expect"] for s in case["steps"]]


@pytest.mark.parametrize("case", TIMERS, ids=lambda case: case["name"])
def test_a_segment_is_idle_when_it_is_in_flink(case: dict[str, Any]) -> None:
    """Idle is: silent for more than Flink's timeout, which is our timeout less 1 ms."""
    assert idle_checks(case) == expected_checks(case)


def test_silence_is_counted_from_the_last_event_and_not_from_the_next_look() -> None:
    """An event at 4, a look every 5, a timeout of 10: idle at 15, where Flink sees it at 25."""
    (case,) = (case for case in IDLE_TIMERS if case["name"] == COUNTED_OTHERWISE)

    assert idle_checks(case) == [False, False, True, True, True]
    assert expected_checks(case) == [False, False, False, False, True]


@pytest.mark.parametrize(("idle_timeout_ms", "delay_ms"), [(-1, 0), (0, -1)])
def test_a_duration_below_zero_is_refused(idle_timeout_ms: int, delay_ms: int) -> None:
    """The sentence names it."""
    with pytest.raises(Rejected, match=r"_ms must be 0 or more, not -1"):
        SegmentClocks(idle_timeout_ms, delay_ms)


@given(st.lists(steps), st.integers(0, 9))
def test_time_is_the_slowest_segments_newest_less_the_delay(
    events: list[tuple[int, int, int]], delay_ms: int
) -> None:
    """If no segment is ever idle, taking every step together: by brute force."""
    clocks, now = SegmentClocks(0, delay_ms), 0
    newest: dict[int, int] = {}
    for segment in range(3):
        clocks.add(segment, now=0)
    for segment, time, later in events:
        now += later
        newest[segment] = max(time, newest.get(segment, time))
        clocks.event(segment, time, now=now)
        clocks.tick(now=now)

    assert clocks.time == (min(newest.values()) - delay_ms if len(newest) == 3 else None)


@given(st.lists(steps, min_size=1), st.integers(0, 9), st.integers(0, 9))
def test_times_only_rise_and_idle_comes_last(
    events: list[tuple[int, int, int]], idle_timeout_ms: int, delay_ms: int
) -> None:
    """Whatever is fed in; and a step's time is never above its own event."""
    clocks, now, times = SegmentClocks(idle_timeout_ms, delay_ms), 0, []
    for segment, time, later in events:
        now += later
        quiet = clocks.tick(now=now)
        assert "idle" not in quiet[:-1]
        found = clocks.event(segment, time, now=now)
        assert all(isinstance(each, int) and each <= time for each in found)
        times += [each for each in (*quiet, *found) if isinstance(each, int)]

    assert times == sorted(set(times))


def test_events_that_are_all_handed_on_make_one_step() -> None:
    """The minimum over all of them, and no event in hand caps it."""
    clocks = SegmentClocks(0, 5)
    clocks.event(0, 100, now=0)

    assert clocks.events({0: 90, 1: 80}, now=1) == []
    assert clocks.events({1: 120}, now=2) == []
    assert clocks.time == 95
