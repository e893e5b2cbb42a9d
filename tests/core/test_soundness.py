"""The soundness and tightness laws of the design."""

from hypothesis import event, given
from msgspec.structs import replace

from noted_time.values import StreamCut, StreamSettings
from tests.core.acts import (
    ALL_TROUBLE,
    DOMAINS,
    Act,
    histories,
    late_histories,
    make_world,
    streams,
)


@given(settings=streams, history=ALL_TROUBLE)
def test_cut_has_vouched_events_below_lower(settings: StreamSettings, history: list[Act]) -> None:
    """Soundness: through idling, leaving, timeouts, returns, scaling, restarts, late requests."""
    world = make_world(settings, history)
    event(f"marks: {min(len(world.made), 5)}")

    assert [made_mark for made_mark in world.made if made_mark.lost] == []


@given(settings=streams, history=late_histories())
def test_late_requests_keep_marks_sound(settings: StreamSettings, history: list[Act]) -> None:
    """Soundness: every request was made twice, and the first may be delivered at any time."""
    world = make_world(replace(settings, domains=DOMAINS[:1]), history)

    assert [made_mark for made_mark in world.made if made_mark.lost] == []


@given(settings=streams, history=histories("waits", "scales", "late"))
def test_cut_is_the_smallest_sound_one(settings: StreamSettings, history: list[Act]) -> None:
    """Tightness: without restarts, the last offset of each segment may hold an event below."""
    world = make_world(settings, history)

    assert [made_mark for made_mark in world.made if made_mark.needless] == []


@given(settings=streams, history=ALL_TROUBLE)
def test_cut_stays_within_latest_positions(settings: StreamSettings, history: list[Act]) -> None:
    """Pravega joins the latest positions; ours stays within that."""
    world = make_world(settings, history)

    assert [
        made_mark
        for made_mark in world.made
        if not StreamCut(made_mark.latest).reaches(made_mark.mark.cut)
    ] == []
