"""When the upper of a mark is a bound, and how many segments a stream counts."""

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time.rules import Aggregator
from noted_time.values import MAX_INT64, Note, StreamSettings
from tests.core.acts import WRITERS, Act, event_histories, histories, make_world, streams
from tests.support.streams import advance_after, restart

FORGOTTEN_MS = 6


@given(settings=streams, history=event_histories(), seals=st.booleans())
def test_event_below_the_cut_is_at_or_below_the_bound(
    settings: StreamSettings, history: list[Act], *, seals: bool
) -> None:
    """Answers are lost; writers are killed, narrow, share segments and are removed."""
    world = make_world(
        replace(settings, writer_retention_ms=FORGOTTEN_MS), history, names_first=True
    )
    if seals:
        world.seal()
    bounded_marks = [made_mark for made_mark in world.made if made_mark.mark.upper_is_bound]
    bounded_cuts = [made_mark for made_mark in bounded_marks if made_mark.mark.cut.offsets]
    event(f"bounds of a cut: {min(5, len(bounded_cuts))}")

    assert [made_mark for made_mark in bounded_marks if made_mark.unbound] == []


@given(settings=streams, history=histories("waits", "restarts", "late"))
def test_upper_is_a_bound_if_all_declare(settings: StreamSettings, history: list[Act]) -> None:
    """Each writer has a segment, and declares all domains."""
    separate_history: list[Act] = []
    for segment, writer_name in enumerate(WRITERS):
        separate_history.append(("write", (writer_name, segment, {})))
    for name, parts in history:
        if name == "write":
            writer, _, later = parts
            separate_history.append((name, (writer, WRITERS.index(str(writer)), later)))
        elif name != "note" or parts[-1] == "all":
            separate_history.append((name, parts))
    world = make_world(settings, separate_history, segments=len(WRITERS))

    for made_mark in world.made:
        assert made_mark.unbound == []
        assert made_mark.mark.upper_is_bound


# A stream bounds how many segments its notes name, and how far one note may move an offset


OFFSETS = st.integers(0, 40) | st.integers(0, MAX_INT64)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["UA", "DL"]),
            st.dictionaries(st.integers(0, 3), OFFSETS, min_size=1, max_size=3),
        ),
        max_size=12,
    )
)
def test_restart_keeps_answers_to_notes(positions: list[tuple[str, dict[int, int]]]) -> None:
    """The state of segments is restored from the records of members and the last marks."""
    stream = Aggregator(StreamSettings(max_segments=3, max_offset_jump=100))
    for time, (writer, position) in enumerate(positions):
        advance_after(stream, Note(writer, time, position))

    restarted_stream = restart(stream)

    for segment in range(5):
        for offset in (0, 2**61):
            note = Note("AA", 99, {segment: offset})
            assert restart(stream).note(note, 0) == restart(restarted_stream).note(note, 0)
