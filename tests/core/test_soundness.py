"""The soundness and tightness laws of the design."""

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time.reading import MarkHistory
from noted_time.values import StreamCut, StreamSettings
from tests.core.acts import DOMAINS, Act, histories, late_histories, make_world, streams

ALL_TROUBLE = histories("waits", "scales", "restarts", "late")
READINGS = st.lists(st.dictionaries(st.integers(0, 8), st.integers(0, 12)), max_size=4)


@given(settings=streams, history=ALL_TROUBLE)
def test_cut_has_vouched_events_below_lower(settings: StreamSettings, history: list[Act]) -> None:
    """Soundness: through idling, leaving, timeouts, returns, scaling, restarts, late requests."""
    world = make_world(settings, history)
    event(f"marks: {min(len(world.made), 5)}")

    assert [made for made in world.made if made.lost] == []


@given(settings=streams, history=late_histories())
def test_late_requests_keep_marks_sound(settings: StreamSettings, history: list[Act]) -> None:
    """Soundness: every request was made twice, and the first may be delivered at any time."""
    world = make_world(replace(settings, domains=DOMAINS[:1]), history)

    assert [made for made in world.made if made.lost] == []


@given(settings=streams, history=ALL_TROUBLE, readings=READINGS)
def test_reader_has_read_vouched_events_below_its_lower(
    settings: StreamSettings, history: list[Act], readings: list[dict[int, int]]
) -> None:
    """Soundness for readers: at any position, the lower of the window holds."""
    world = make_world(settings, history)
    marks = {
        domain: MarkHistory(m.mark for m in world.made if m.domain == domain) for domain in DOMAINS
    }
    positions = [dict(world.stream.succession.normalise(reading)) for reading in readings]
    positions += [dict(made.mark.cut.offsets) for made in world.made]

    lost = [
        (domain, position, window.lower)
        for domain, history_of_domain in marks.items()
        for position in positions
        if (window := history_of_domain.window(position)).lower is not None
        and world.list_missed(domain, window.lower, position)
    ]

    assert lost == []


@given(settings=streams, history=histories("waits", "scales", "late"))
def test_cut_is_the_smallest_sound_one(settings: StreamSettings, history: list[Act]) -> None:
    """Tightness: without restarts, the last offset of each segment may hold an event below."""
    world = make_world(settings, history)

    assert [made for made in world.made if made.needless] == []


@given(settings=streams, history=ALL_TROUBLE)
def test_cut_stays_within_latest_positions(settings: StreamSettings, history: list[Act]) -> None:
    """Pravega joins the latest positions; ours stays within that, and the last cut within ours."""
    world = make_world(settings, history)

    assert [
        made
        for made in world.made
        if not made.mark.cut.reaches(made.before.cut if made.before else StreamCut({}))
        or not StreamCut(made.latest).reaches(made.mark.cut)
    ] == []
