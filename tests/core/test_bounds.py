"""When the upper of a mark is a bound, and how many segments and members a stream counts."""

from collections import Counter

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time.open_enum import list_names
from noted_time.reading import MarkHistory, Tiling, find_complete_windows
from noted_time.rules import Aggregator
from noted_time.values import MAX_INT64, Note, State, StreamSettings
from tests.core.acts import WRITERS, Act, event_histories, histories, make_world, streams
from tests.support.streams import advance_after, advance_all, restart, seal

FORGOTTEN_MS = 6


@given(settings=streams, history=event_histories(), seals=st.booleans())
def test_event_below_the_cut_is_at_or_below_the_bound(
    settings: StreamSettings, history: list[Act], *, seals: bool
) -> None:
    """Answers are lost; writers are killed, narrow, share segments and are removed."""
    world = make_world(
        replace(settings, writer_retention_ms=FORGOTTEN_MS), history, names_first=True
    )
    made = [(each.domain, each.mark, each.unbound) for each in world.made]
    if seals:
        seal(world.stream, now=world.now)
        lasts = [(domain, world.stream.domains[domain].last) for domain in world.domains]
        made += [(k, last, world.unbound(k, last)) for k, last in lasts if last and last.final]
    bounded = sum(mark.upper_is_bound and bool(mark.cut.offsets) for _, mark, _ in made)
    event(f"bounds of a cut: {min(5, bounded)}")

    assert [each for each in made if each[1].upper_is_bound and each[2]] == []


@given(settings=streams, history=event_histories(), size=st.integers(1, 9))
def test_exact_window_is_whole(settings: StreamSettings, history: list[Act], size: int) -> None:
    world = make_world(
        replace(settings, writer_retention_ms=FORGOTTEN_MS), history, names_first=True
    )
    lost = []
    for domain in world.domains:
        marks = MarkHistory(made.mark for made in world.made if made.domain == domain)
        for window in find_complete_windows(marks, Tiling(size), after=0, limit=99):
            before = window.from_cut.offsets
            lost += [
                (window, row)
                for row in world.events
                if window.exact
                and window.start <= row.times[domain] < window.end
                and row.offset < before.get(row.segment, 0)
            ]

    assert lost == []


@given(settings=streams, history=histories("waits", "restarts", "late"))
def test_upper_is_a_bound_if_all_declare(settings: StreamSettings, history: list[Act]) -> None:
    """Each writer has a segment, and declares all domains."""
    own: list[Act] = [("write", (writer, 0, {})) for writer in WRITERS]
    own += [act for act in history if act[0] != "note" or act[1][-1] == "all"]
    own = [  # each writer writes to its segment
        (name, (parts[0], WRITERS.index(str(parts[0])), parts[2]) if name == "write" else parts)
        for name, parts in own
    ]
    world = make_world(settings, own, segments=len(WRITERS))

    assert [made for made in world.made if made.unbound or not made.mark.upper_is_bound] == []


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

    again = restart(stream)

    asked = [Note("AA", 99, {segment: offset}) for segment in range(5) for offset in (0, 2**61)]
    answers = [[restart(each).note(note, 0) for note in asked] for each in (stream, again)]
    assert answers[0] == answers[1]


RETENTION_MS = 20

TIMEOUT_MS = 5

states = st.sampled_from(list_names(State))

notes = st.builds(Note, st.sampled_from("abcd"), st.integers(0, 9), state=states)

happenings = st.lists(
    notes | st.sampled_from(["advance", "expire", "forget", "restart"]), max_size=40
)


def count_states(stream: Aggregator) -> dict[str, int]:
    members = stream.domains.members.values()
    found = Counter("excluded" if each.exclusion else each.state for each in members)
    return {state: found[state] for state in stream.domains.census.members}


@given(history=happenings)
def test_every_member_is_counted_in_its_state(history: list[Note | str]) -> None:
    """Members note, time out, are forgotten and restored."""
    stream = Aggregator(
        StreamSettings(writer_timeout_ms=TIMEOUT_MS, writer_retention_ms=RETENTION_MS)
    )
    for now, act in enumerate(history):
        if isinstance(act, Note):
            stream.note(act, now)
        elif act == "advance":
            advance_all(stream, now=now)
        elif act == "expire":
            stream.expire(now)
        elif act == "forget":
            stream.forget_departed(now, 2)
        else:
            stream = restart(stream)

    assert stream.domains.census.members == count_states(stream)
