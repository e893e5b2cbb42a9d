"""Which writers vouch for what a mark has, and which marks have what is required."""

from collections.abc import Mapping

from hypothesis import event, given
from hypothesis import strategies as st

from noted_time import Aggregator, Mark, Note, StreamSettings
from noted_time.reading import VouchingTally, required_seq
from noted_time.values import MAX_INT64, NotVouching, Vouched, VouchingPeriod
from tests.core.acts import Act, histories, lived, streams
from tests.core.world import World
from tests.support.honest import is_below
from tests.support.streams import restarted

TROUBLE = histories("waits", "restarts", "late", "removals", "forgets", "narrows", "scales")


def tallied(stream: Aggregator, domain: str, seq: int, time: int) -> Vouched:
    """Return who vouches for a time at a mark."""
    number = stream.domains.numbers[domain]
    tally = VouchingTally([(seq, time)])
    for name in stream.writers():
        track = stream.member(name).track(number)
        tally.add(name, track.vouching, stream.member(name).state)
    return tally.results()[0]


def lost_by(world: World, domain: str, mark: Mark, time: int) -> list[str]:
    """Return the writers that vouch for a time at a mark whose cut lacks a row of theirs."""
    vouching = tallied(world.stream, domain, mark.seq, time).names
    cut = world.stream.succession.normalise(mark.cut.offsets)
    return [
        each.writer
        for each in world.events
        if each.writer in vouching
        and not any(each is broken for broken in world.broken)
        and each.times[domain] < time
        and not is_below(each, cut)
    ]


@given(settings=streams, history=TROUBLE)
def test_a_mark_has_all_rows_of_who_vouches(settings: StreamSettings, history: list[Act]) -> None:
    """Law: at any mark and for any time up to its lower, whatever its writers did before and after.

    For honest writers, that idle, leave, come back, are removed, forgotten and restored.
    """
    world = lived(settings, history)
    asked = [
        (made.domain, made.mark, time)
        for made in world.made
        for time in {made.mark.lower, made.mark.lower - 1, min(1, made.mark.lower)}
    ]
    vouched = [tallied(world.stream, domain, mark.seq, time) for domain, mark, time in asked]
    event(f"vouching: {min(sum(each.count for each in vouched), 9)}")

    assert [each for each in asked if lost_by(world, *each)] == []


@given(settings=streams, history=histories("waits", "late", "removals", "forgets", "narrows"))
def test_a_restart_changes_nobody_who_vouches(settings: StreamSettings, history: list[Act]) -> None:
    """Law: which marks count a writer is durable, and so is who joined since the last mark."""
    world = lived(settings, history)
    again = restarted(world.stream, world.appended_at)

    periods = [
        {name: [each.vouching for each in stream.member(name).tracks] for name in stream.writers()}
        for stream in (world.stream, again)
    ]

    assert periods[0] == periods[1]


def noted(stream: Aggregator, *notes: Note) -> Mapping[str, int]:
    """Note, and let time advance; returns the lower of the last mark by domain."""
    for each in notes:
        stream.note(each, now=0)
        stream.advance("default", now=0, written_at=0)
    last = stream.domains["default"].last
    return {"default": last.lower if last else 0}


def test_a_writer_that_joins_later_vouches_from_the_next_mark_on() -> None:
    """So the mark of the time that it missed does not have it, and says since when it is there."""
    stream = Aggregator(StreamSettings())
    noted(stream, Note("berlin", 10, {0: 1}), Note("lima"), Note("lima", 10, {1: 5}))
    newcomers = [each.writer for each in stream.domains["default"].not_counted_yet]
    noted(stream, Note("berlin", 20, {0: 2}), Note("lima", 20, {1: 6}))

    assert newcomers == ["lima"]
    assert [each.writer for each in stream.domains["default"].joined] == ["lima"]
    assert tallied(stream, "default", 1, 10) == Vouched(
        1, ("berlin",), not_vouching=(NotVouching("lima", "joined_later"),), not_vouching_count=1
    )
    assert tallied(stream, "default", 2, 20).names == ("berlin", "lima")


def test_an_idle_writer_vouches_up_to_its_time_and_a_finished_one_for_all() -> None:
    """What an idle writer writes later may have any time from its own on."""
    stream = Aggregator(StreamSettings())
    noted(stream, Note("a", 10, {0: 1}), Note("b", 10, {1: 1}), Note("c", 10, {2: 1}))
    noted(stream, Note("b", state="idle"), Note("c", state="finished"), Note("a", 30, {0: 3}))

    assert tallied(stream, "default", 2, 30) == Vouched(
        2, ("a", "c"), not_vouching=(NotVouching("b", "idle", 10),), not_vouching_count=1
    )
    assert tallied(stream, "default", 2, 10).names == ("a", "b", "c")


def test_an_idle_writer_that_finishes_where_it_was_vouches_at_the_last_mark() -> None:
    """No mark may follow, and the last one has all its rows."""
    stream = Aggregator(StreamSettings())
    noted(stream, Note("a", 10, {0: 1}), Note("b", 10, {1: 1}), Note("b", state="idle"))
    noted(stream, Note("a", 30, {0: 3}), Note("b", state="finished"))
    last = stream.domains["default"].last

    assert last is not None
    assert tallied(stream, "default", last.seq, 30).names == ("a", "b")


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 40)), max_size=2),
    st.lists(st.integers(0, 6), max_size=6),
)
def test_a_tally_of_many_marks_is_that_of_each(
    periods: list[tuple[int, int]], steps: list[int]
) -> None:
    """Law: counts and names by ranges are those of a look at each mark by itself."""
    marks = [(seq, seq * 4 + step) for seq, step in enumerate(sorted(steps), 1)]
    own = tuple(VouchingPeriod(*each) for each in sorted(periods))
    tally = VouchingTally(marks, ("UA", "DL"))
    tally.add("UA", own, "idle")

    found = [(each.count, each.names, each.expected_vouching) for each in tally.results()]

    vouches = [any(seq >= p.from_seq and time <= p.until for p in own) for seq, time in marks]
    assert found == [(int(each), ("UA",) * each, int(each)) for each in vouches]


def test_what_none_vouches_for_is_named_and_may_come() -> None:
    """One that joined since the last mark is counted by the next; nobody waits for an idle one."""
    new, idle = (VouchingPeriod(6, MAX_INT64),), (VouchingPeriod(1, 9),)
    seq, unmet = required_seq(2, 5, 20, {"lima": (new, "live"), "delhi": (idle, "idle")}, None)

    assert (seq, [(each.writer, each.may_come, each.until) for each in unmet]) == (
        2,
        [("lima", True, None), ("delhi", False, 9)],
    )
