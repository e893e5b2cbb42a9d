"""How far readers are: groups and segments."""

from hypothesis import given
from hypothesis import strategies as st

from noted_time.progress import Lag, SegmentTimes
from noted_time.reading import MarkHistory, ReaderGroup, ReaderPlace, locate_reader
from noted_time.values import Mark, ScaleEvent, StreamCut, StreamSettings, Succession
from tests.core.acts import DOMAINS, Act, histories, make_world, streams
from tests.core.world import World

names = st.sampled_from(("a", "b", "c"))

Acts = list[tuple[bool, str, dict[int, int]]]

reports = st.lists(
    st.tuples(st.booleans(), names, st.dictionaries(st.integers(0, 3), st.integers(0, 9))),
    max_size=12,
)


def make_group(acts: Acts) -> ReaderGroup:
    """Return the group after the acts; each starts with whether the reader goes offline."""
    group = ReaderGroup()
    for offline, reader, position in acts:
        if offline:
            group.offline(reader, position)
        else:
            group.report(reader, position)
    return group


@given(acts=reports)
def test_segment_position_is_the_last_report_of_its_owner(acts: Acts) -> None:
    """The last report of a segment owns it; only its owner puts it back."""
    expected: dict[int, tuple[int, str]] = {}
    for offline, reader, position in acts:
        for segment, offset in position.items():
            if not offline or (segment in expected and expected[segment][1] == reader):
                expected[segment] = (offset, reader)

    assert make_group(acts).position == {s: offset for s, (offset, _) in expected.items()}


@given(acts=reports)
def test_group_has_the_readers_that_are_online(acts: Acts) -> None:
    """A reader counts with or without segments."""
    last = {reader: offline for offline, reader, _ in acts}

    assert make_group(acts).readers == {reader for reader, offline in last.items() if not offline}


# How far a position is in each segment, and which one to read next


ALL_TROUBLE = histories("waits", "scales", "restarts", "late")

READINGS = st.lists(st.dictionaries(st.integers(0, 8), st.integers(0, 12)), max_size=4)


def chains(world: World) -> dict[str, list[Mark]]:
    return {
        domain: [made.mark for made in world.made if made.domain == domain] for domain in DOMAINS
    }


def places(world: World, readings: list[dict[int, int]]) -> list[dict[int, int]]:
    """Return the readings as normalised positions, and the cuts of all marks."""
    positions = [dict(world.stream.succession.normalise(reading)) for reading in readings]
    return positions + [dict(made.mark.cut.offsets) for made in world.made]


@given(settings=streams, history=ALL_TROUBLE, readings=READINGS)
def test_vouched_events_below_a_segment_time_were_read(
    settings: StreamSettings, history: list[Act], readings: list[dict[int, int]]
) -> None:
    world = make_world(settings, history)
    lost = [
        (domain, position, segment, time)
        for domain, marks in chains(world).items()
        for position in places(world, readings)
        for segment, time in MarkHistory(marks).times(position).items()
        if time is not None
        and segment in {each.segment for each in world.list_missed(domain, time, position)}
    ]

    assert lost == []


@given(
    settings=streams, history=ALL_TROUBLE, reading=st.dictionaries(st.integers(0, 8), st.just(0))
)
def test_next_segments_read_all_predecessors_first(
    settings: StreamSettings, history: list[Act], reading: dict[int, int]
) -> None:
    """Row by row to the last cut; no successor is begun before the ends of its predecessors."""
    world = make_world(settings, history)
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
    """Return the next segment with rows below the last cut."""
    left = [s for s, end in ends.items() if position.get(s, 0) < end]
    return SegmentTimes(marks, succession, position).next_segment(left)


CUTS = {10: {0: 100}, 20: {0: 100, 1: 50}, 40: {0: 300, 1: 70}}

MARKS = [Mark(n, lower, 99, StreamCut(cut)) for n, (lower, cut) in enumerate(CUTS.items(), 1)]


def at(position: dict[int, int], succession: Succession | None = None) -> SegmentTimes:
    return SegmentTimes(MarkHistory(MARKS), succession or Succession(), position)


def test_segments_before_all_marks_are_read_first() -> None:
    """Segment 0 has not reached the first mark at offset 99. A time of 0 is one."""
    cuts = ({0: 5, 1: 5}, {0: 5, 1: 7}, {0: 9, 1: 9})
    marks = MarkHistory(Mark(n + 1, n, 9, StreamCut(cut)) for n, cut in enumerate(cuts))

    assert [at({0: o, 1: 50}).order() for o in (99, 100, 300)] == [[0, 1], [0, 1], [1, 0]]
    assert SegmentTimes(marks, Succession(), {0: 6, 1: 6}).order() == [1, 0]


def test_equal_times_order_by_unread_rows_then_id() -> None:
    """Rows are counted up to the last cut. Segments outside all marks have no unread rows."""
    assert (at({0: 299, 1: 50}).order(), at({0: 300, 1: 70, 9: 5, 5: 0}).order()) == (
        [1, 0],
        [0, 1, 5, 9],
    )


def test_finished_sealed_segment_is_not_read_again() -> None:
    """Its successors are next; before that they are not, though nothing in them is behind."""
    succession = Succession()
    succession.scale(ScaleEvent({0: 300}, {2: (0,), 3: (0,)}), known={0, 1})
    before, after = at({0: 299, 1: 70, 9: 0}, succession), at({0: 300, 1: 70}, succession)

    assert (before.order(), before.next_segment([2, 3]), after.order()) == (
        [0, 1, 9, 2, 3],
        None,
        [1, 2, 3],
    )


def test_the_lag_is_against_the_last_mark() -> None:
    """It is the largest lag of the segments, unknown before all marks."""
    assert [at({0: o, 1: 60}).lag() for o in (300, 100, 99)] == [
        Lag(20, {0: 0, 1: 20}),
        Lag(20, {0: 20, 1: 20}),
        Lag(None, {0: None, 1: 20}),
    ]
    assert SegmentTimes(MarkHistory(), Succession(), {0: 9}).lag() == Lag(None, {0: None})


@given(settings=streams, history=ALL_TROUBLE, readings=READINGS, through=st.integers(0, 12))
def test_lacking_segments_lead_to_the_next_mark(
    settings: StreamSettings, history: list[Act], readings: list[dict[int, int]], through: int
) -> None:
    """One row less in any of them is not enough, and no other segment is needed."""
    world = make_world(settings, history)
    for marks in chains(world).values():
        kept = MarkHistory(marks)
        kept.forget_through(through)
        for position in places(world, readings):
            place = locate_reader(kept, position, limit=99)
            read = {each.segment: each.needed for each in place.waiting_for}
            reached = [kept.window({**position, **read}).lower_seq or 0]
            less = [kept.window({**position, **read, s: read[s] - 1}) for s in read]

            assert place.lower == kept.window(position).lower
            assert reached >= [place.next_seq or 0]
            assert [each.lower for each in less] == [place.lower] * len(less)


def test_lacking_segments_are_ordered_by_rows() -> None:
    """The answer has only segments that the next mark needs, up to the limit."""
    cuts = ({0: 10}, {0: 20, 1: 5, 2: 30, 3: 5})
    marks = MarkHistory(Mark(n, n * 10, 99, StreamCut(cut)) for n, cut in enumerate(cuts, 4))
    place = locate_reader(marks, {0: 12, 3: 9}, limit=2)

    assert (place.lower, place.next_seq, place.next_lower) == (40, 5, 50)
    assert (place.marks, place.segments) == (1, 3)
    assert [(each.segment, each.offset, each.needed) for each in place.waiting_for] == [
        (2, 0, 30),
        (0, 12, 20),
    ]
    end = locate_reader(marks, {0: 20, 1: 5, 2: 30, 3: 5}, limit=2)
    assert end == ReaderPlace(50, None, None, 0, 0, ())
    assert locate_reader(marks, {}, limit=2).lower is None
    assert locate_reader(marks, {}, limit=2).marks == 2
