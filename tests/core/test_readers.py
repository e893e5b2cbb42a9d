"""How far readers are: groups, segments, and the members of an alignment."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import (
    Lag,
    LimitReached,
    Mark,
    MarkHistory,
    ReaderGroup,
    Rejected,
    ScaleEvent,
    SegmentTimes,
    StreamCut,
    StreamSettings,
    Succession,
)
from noted_time.progress import Alignment, AlignmentSettings
from noted_time.progress.alignment import MOST_MEMBERS
from noted_time.reading import reader_place
from noted_time.values import MAX_INT64, MIN_INT64
from tests.core.acts import DOMAINS, Act, histories, lived, streams
from tests.core.world import World

names = st.sampled_from(("a", "b", "c"))

reports = st.lists(
    st.tuples(st.booleans(), names, st.dictionaries(st.integers(0, 3), st.integers(0, 9))),
    max_size=12,
)


def group_of(acts: list[tuple[bool, str, dict[int, int]]]) -> ReaderGroup:
    """Return the group after the acts; each starts with whether the reader goes offline."""
    group = ReaderGroup()
    for offline, reader, position in acts:
        if offline:
            group.offline(reader, position)
        else:
            group.report(reader, position)
    return group


@given(acts=reports)
def test_each_segment_stands_where_its_last_reader_put_it(
    acts: list[tuple[bool, str, dict[int, int]]],
) -> None:
    """The last report of a segment owns it; only its owner puts it back."""
    expected: dict[int, tuple[int, str]] = {}
    for offline, reader, position in acts:
        for segment, offset in position.items():
            if not offline or (segment in expected and expected[segment][1] == reader):
                expected[segment] = (offset, reader)

    assert group_of(acts).position == {s: offset for s, (offset, _) in expected.items()}


@given(acts=reports)
def test_a_group_has_the_readers_that_reported_since_they_were_offline(
    acts: list[tuple[bool, str, dict[int, int]]],
) -> None:
    """With segments or without."""
    last = {reader: offline for offline, reader, _ in acts}

    assert group_of(acts).readers == {reader for reader, offline in last.items() if not offline}


def test_a_position_may_go_back_when_a_reader_goes_offline() -> None:
    """The next reader of the segment begins there."""
    group = group_of([(False, "a", {0: 10, 1: 4}), (True, "a", {0: 7})])

    assert (group.position, group.segments_of("a")) == ({0: 7, 1: 4}, {0: 7, 1: 4})


def test_a_reader_without_segments_belongs_to_the_group() -> None:
    """It gets the window of the group's position."""
    group = group_of([(False, "a", {0: 10}), (False, "b", {})])

    assert (group.position, group.readers, group.segments_of("b")) == ({0: 10}, {"a", "b"}, {})


def test_an_offline_reader_takes_back_nothing_that_another_took_over() -> None:
    """The one that reads on knows better."""
    group = group_of([(False, "a", {0: 10}), (False, "b", {0: 12}), (True, "a", {0: 8})])

    assert group.position == {0: 12}


# How far a position is in each segment, and which one to read next


ALL_TROUBLE = histories("waits", "scales", "restarts", "late")

READINGS = st.lists(st.dictionaries(st.integers(0, 8), st.integers(0, 12)), max_size=4)


def chains(world: World) -> dict[str, list[Mark]]:
    """Return the marks that a world has made, by domain."""
    return {
        domain: [made.mark for made in world.made if made.domain == domain] for domain in DOMAINS
    }


def places(world: World, readings: list[dict[int, int]]) -> list[dict[int, int]]:
    """Return the readings as normalised positions, and the cuts of all marks."""
    positions = [dict(world.stream.succession.normalise(reading)) for reading in readings]
    return positions + [dict(made.mark.cut.offsets) for made in world.made]


def scanned(marks: list[Mark], position: dict[int, int]) -> dict[int, int | None]:
    """Answer by looking at every mark."""
    segments = {segment for mark in marks for segment in mark.cut.offsets} | position.keys()
    times: dict[int, int | None] = {}
    for segment in segments:
        offset = position.get(segment, 0)
        below = [mark.lower for mark in marks if mark.cut.offsets.get(segment, 0) <= offset]
        times[segment] = below[-1] if below else None
    return times


def least(times: Mapping[int, int | None], otherwise: int | None) -> int | None:
    """Return the least of the times; `None` lies below all."""
    known = [time for time in times.values() if time is not None]
    return None if len(known) < len(times) else min(known, default=otherwise)


@given(settings=streams, history=ALL_TROUBLE, readings=READINGS, through=st.integers(0, 12))
def test_the_time_of_each_segment_is_what_a_scan_of_all_marks_finds(
    settings: StreamSettings, history: list[Act], readings: list[dict[int, int]], through: int
) -> None:
    """Across scaling, and once early marks are forgotten."""
    world = lived(settings, history)
    found, expected = [], []
    for marks in chains(world).values():
        kept = MarkHistory(marks)
        kept.forget_through(through)
        for position in places(world, readings):
            found.append(kept.times(position))
            expected.append(scanned(kept.after(0, len(marks)), position))

    assert found == expected


@given(settings=streams, history=ALL_TROUBLE, readings=READINGS, through=st.integers(0, 12))
def test_the_least_time_of_the_segments_is_the_lower_of_the_window(
    settings: StreamSettings, history: list[Act], readings: list[dict[int, int]], through: int
) -> None:
    """The law of segment times, also with successors and truncated histories."""
    world = lived(settings, history)
    kept = [MarkHistory(marks) for marks in chains(world).values()]
    for each in kept:
        each.forget_through(through)
    asked = [(each, position) for each in kept for position in places(world, readings)]

    assert [least(each.times(place), each.last_lower) for each, place in asked] == [
        each.window(place).lower for each, place in asked
    ]


@given(settings=streams, history=ALL_TROUBLE, readings=READINGS)
def test_every_vouched_event_of_a_segment_below_its_time_was_read(
    settings: StreamSettings, history: list[Act], readings: list[dict[int, int]]
) -> None:
    """Each segment is sound by itself, wherever the others are."""
    world = lived(settings, history)
    lost = [
        (domain, position, segment, time)
        for domain, marks in chains(world).items()
        for position in places(world, readings)
        for segment, time in MarkHistory(marks).times(position).items()
        if time is not None
        and any(missed.segment == segment for missed in world.missed(domain, time, position))
    ]

    assert lost == []


@given(
    settings=streams, history=ALL_TROUBLE, reading=st.dictionaries(st.integers(0, 8), st.just(0))
)
def test_reading_the_next_segment_reads_all_of_them_predecessors_first(
    settings: StreamSettings, history: list[Act], reading: dict[int, int]
) -> None:
    """Row by row to the last cut; no successor is begun before the ends of its predecessors."""
    world = lived(settings, history)
    succession = world.stream.succession
    marks = MarkHistory(chains(world)[DOMAINS[0]])
    ends = dict(marks.last.cut.offsets) if marks.last else {}
    position = {s: 0 for s in reading if s in ends and not succession.unread_before(s, {})}
    too_early = []
    while (segment := next_unread(marks, succession, position, ends)) is not None:
        if succession.unread_before(segment, position):
            too_early.append((segment, dict(position)))
        position[segment] = position.get(segment, 0) + 1

    assert (too_early, {s: o for s, o in position.items() if o}) == ([], ends)


def next_unread(
    marks: MarkHistory, succession: Succession, position: dict[int, int], ends: dict[int, int]
) -> int | None:
    """Return the next of the segments that have something below the last cut."""
    left = [s for s, end in ends.items() if position.get(s, 0) < end]
    return SegmentTimes(marks, succession, position).next_segment(left)


CUTS = {10: {0: 100}, 20: {0: 100, 1: 50}, 40: {0: 300, 1: 70}}

MARKS = [Mark(n, lower, 99, StreamCut(cut)) for n, (lower, cut) in enumerate(CUTS.items(), 1)]


def at(position: dict[int, int], succession: Succession | None = None) -> SegmentTimes:
    """Return where a position is in the three marks."""
    return SegmentTimes(MarkHistory(MARKS), succession or Succession(), position)


def test_the_least_time_comes_first_and_before_it_what_lies_before_all_marks() -> None:
    """Segment 0 has not reached the first mark at offset 99."""
    assert [at({0: o, 1: 50}).order() for o in (99, 100, 300)] == [[0, 1], [0, 1], [1, 0]]


def test_of_equal_times_the_segment_with_most_unread_comes_first_then_by_id() -> None:
    """Up to the last cut; segments that no mark names have nothing unread."""
    assert (at({0: 150, 1: 50}).order(), at({0: 300, 1: 70, 9: 5, 5: 0}).order()) == (
        [0, 1],
        [0, 1, 5, 9],
    )


def test_a_sealed_segment_that_was_read_is_not_read_any_more() -> None:
    """Its successors are next; before that they are not, though nothing in them is behind."""
    succession = Succession()
    succession.scale(ScaleEvent({0: 300}, {2: (0,), 3: (0,)}), known={0, 1})
    before, after = at({0: 299, 1: 70}, succession), at({0: 300, 1: 70}, succession)

    assert (before.order(), before.next_segment([2, 3]), after.order()) == (
        [0, 1, 2, 3],
        None,
        [1, 2, 3],
    )


def test_the_lag_is_against_the_last_mark() -> None:
    """As a whole it is the largest of the segments; not known before all marks."""
    assert [at({0: o, 1: 60}).lag() for o in (300, 100, 99)] == [
        Lag(20, {0: 0, 1: 20}),
        Lag(20, {0: 20, 1: 20}),
        Lag(None, {0: None, 1: 20}),
    ]


def test_the_lag_keeps_growing_while_nothing_is_written() -> None:
    """A reader that stopped falls behind with each mark; one at the cut does not."""
    history = MarkHistory(MARKS)
    lags = []
    for seq, lower in ((4, 50), (5, 60)):
        history.append(Mark(seq, lower, 99, StreamCut(CUTS[40])))
        stopped, at_the_cut = ({0: 100, 1: 50}, {0: 300, 1: 70})
        found = (SegmentTimes(history, Succession(), each) for each in (stopped, at_the_cut))
        lags.append([each.lag().behind for each in found])

    assert lags == [[30, 0], [40, 0]]


@given(settings=streams, history=ALL_TROUBLE, readings=READINGS, through=st.integers(0, 12))
def test_a_reader_gets_to_the_next_mark_by_the_segments_it_is_said_to_lack(
    settings: StreamSettings, history: list[Act], readings: list[dict[int, int]], through: int
) -> None:
    """Not a row below what is needed in any of them suffices, and nothing else is."""
    world = lived(settings, history)
    for marks in chains(world).values():
        kept = MarkHistory(marks)
        kept.forget_through(through)
        for position in places(world, readings):
            place = reader_place(kept, position, limit=99)
            read = {each.segment: each.needed for each in place.waiting_for}
            reached = [kept.window({**position, **read}).lower_seq or 0]
            less = [kept.window({**position, **read, s: read[s] - 1}) for s in read]

            assert place.lower == kept.window(position).lower
            assert reached >= [place.next_seq or 0]
            assert [each.lower for each in less] == [place.lower] * len(less)


# How far the members of an alignment may be ahead of the slowest


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
