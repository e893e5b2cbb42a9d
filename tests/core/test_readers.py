"""How far readers are: groups and segments."""

from hypothesis import given
from hypothesis import strategies as st

from noted_time.progress import SegmentTimes
from noted_time.reading import MarkHistory, ReaderGroup, locate_reader
from noted_time.values import Mark, ScaleEvent, StreamCut, StreamSettings, Succession
from tests.core.acts import ALL_TROUBLE, DOMAINS, Act, make_world, streams

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


@given(
    settings=streams, history=ALL_TROUBLE, reading=st.dictionaries(st.integers(0, 8), st.just(0))
)
def test_next_segments_read_all_predecessors_first(
    settings: StreamSettings, history: list[Act], reading: dict[int, int]
) -> None:
    """Row by row to the last cut; no successor is begun before the ends of its predecessors.

    A cut from before its scale event was known may have a predecessor below its end. It may also
    have a segment without a row.
    """
    world = make_world(settings, history)
    succession = world.stream.succession
    marks = MarkHistory(world.marks(DOMAINS[0]))
    cut = succession.normalise(marks.last.cut.offsets) if marks.last else {}
    ends = {segment: end for segment, end in cut.items() if end}
    position: dict[int, int] = {}
    for segment_read in reading:
        if segment_read in ends and not succession.unread_before(segment_read, {}):
            position[segment_read] = 0
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


def test_successor_is_not_read_before_its_predecessor() -> None:
    """Also where the predecessor is not among the segments in question."""
    succession = Succession()
    succession.scale(ScaleEvent({0: 300}, {2: (0,), 3: (0,)}), known_segments={0, 1})
    history = MarkHistory([Mark(1, 40, 99, StreamCut({0: 300, 1: 70}))])

    before_end = SegmentTimes(history, succession, {0: 299, 1: 70})
    assert before_end.next_segment([2, 3]) is None
    at_end = SegmentTimes(history, succession, {0: 300, 1: 70})
    assert at_end.next_segment([2, 3]) == 2


@given(
    settings=streams,
    history=ALL_TROUBLE,
    readings=st.lists(st.dictionaries(st.integers(0, 8), st.integers(0, 12)), max_size=4),
    through=st.integers(0, 12),
)
def test_lacking_segments_lead_to_the_next_mark(
    settings: StreamSettings, history: list[Act], readings: list[dict[int, int]], through: int
) -> None:
    """One row less in any of them is not enough, and no other segment is needed."""
    world = make_world(settings, history)
    positions = [dict(world.stream.succession.normalise(reading)) for reading in readings]
    positions += [dict(made_mark.mark.cut.offsets) for made_mark in world.made]
    for domain in DOMAINS:
        kept_history = MarkHistory(world.marks(domain))
        kept_history.forget_through(through)
        for position in positions:
            place = locate_reader(kept_history, position, limit=99)
            needed_offsets = {waiting.segment: waiting.needed for waiting in place.waiting_for}
            reached_seq = kept_history.window(position | needed_offsets).lower_seq or 0

            assert place.lower == kept_history.window(position).lower
            assert reached_seq >= (place.next_seq or 0)
            for segment, offset in needed_offsets.items():
                one_row_less = position | needed_offsets | {segment: offset - 1}
                assert kept_history.window(one_row_less).lower == place.lower


def test_lacking_segments_are_ordered_by_rows() -> None:
    """The answer has only segments that the next mark needs, up to the limit."""
    cuts = ({0: 10}, {0: 20, 1: 5, 2: 30, 3: 5})
    marks = MarkHistory(Mark(n, n * 10, 99, StreamCut(cut)) for n, cut in enumerate(cuts, 4))
    place = locate_reader(marks, {0: 12, 3: 9}, limit=2)

    assert (place.lower, place.next_seq, place.next_lower) == (40, 5, 50)
    assert (place.marks, place.segments) == (1, 3)
    assert [(waiting.segment, waiting.offset, waiting.needed) for waiting in place.waiting_for] == [
        (2, 0, 30),
        (0, 12, 20),
    ]
    assert locate_reader(marks, {}, limit=2).lower is None
    assert locate_reader(marks, {}, limit=2).marks == 2
