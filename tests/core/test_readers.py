"""Rule 10: how far a group of readers has read."""

from hypothesis import given
from hypothesis import strategies as st

from noted_time import ReaderGroup

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
