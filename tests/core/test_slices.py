"""An advance past many members is made in slices, and comes to the same as in one piece."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from noted_time import Aggregator, Mark, Note, State
from noted_time.rules import state
from noted_time.rules.domain import domain
from tests.support.controllers import WatchedMemory, deliver, serving, until
from tests.support.streams import stream_of

KEY = "default"
WRITERS = "ABCDEF"


@contextmanager
def sliced() -> Iterator[None]:
    """Have a slice be one member."""
    with patch.object(domain, "SLICE", 1), patch.object(state.queues, "SLICE", 1):
        yield


def advance(stream: Aggregator, now: int) -> Mark | None:
    """Advance once all members are settled."""
    while not stream.settle_members(KEY):
        pass
    return stream.advance(KEY, now=now, written_at=now)


def expire(stream: Aggregator, now: int) -> set[str]:
    """Exclude all that were silent, however many slices that takes."""
    gone = set(stream.expire(now))
    while (due := stream.next_timeout()) is not None and due <= now:
        gone |= set(stream.expire(now))
    return gone


states: st.SearchStrategy[State] = st.sampled_from(["live", "live", "live", "idle", "finished"])
noted = st.tuples(st.sampled_from(WRITERS), st.integers(0, 3), states)
steps = st.lists(st.tuples(st.lists(noted, max_size=8), st.integers(0, 40)), max_size=12)


@given(steps)
def test_slices_come_to_the_same_as_one_piece(
    steps: list[tuple[list[tuple[str, int, State]], int]],
) -> None:
    """Also if members note, leave or time out between them."""
    whole, piecewise = stream_of(*WRITERS), stream_of(*WRITERS)
    for stream in (whole, piecewise):
        stream.reconfigure(stream.settings.__class__(writer_timeout_ms=60), now=0)
    times, now, ends = dict.fromkeys(WRITERS, 0), 0, dict.fromkeys(WRITERS, 0)
    for notes, passed in steps:
        now += passed
        for writer, later, is_now in notes:
            times[writer] += later
            ends[writer] += 1
            note = Note(writer, times[writer], {WRITERS.index(writer): ends[writer]}, state=is_now)
            with sliced():
                again = piecewise.note(note, now)
            assert whole.note(note, now) == again
        marks = [advance(whole, now)]
        gone = expire(whole, now)
        marks.append(advance(whole, now))
        with sliced():
            assert marks[0] == advance(piecewise, now)
            while not piecewise.settle_members(KEY):
                pass
            assert gone == expire(piecewise, now)
            assert marks[1] == advance(piecewise, now)
            while not piecewise.settle_members(KEY):
                pass
        held = [set(each.domains[KEY].waited_for()) for each in (whole, piecewise)]
        assert held[0] == held[1]


def test_a_member_that_notes_between_two_slices_does_not_hold() -> None:
    """Its turn comes later, and finds that it is ahead again."""
    stream = stream_of("UA", "DL", "AA")
    with sliced():
        for writer in ("UA", "DL", "AA"):
            stream.note(Note(writer, 5), 0)
        assert advance(stream, 0) is not None
        held = set(stream.domains[KEY].holders)
        (other, another) = {"UA", "DL", "AA"} - held
        stream.note(Note(other, 9), 0)
        stream.note(Note(held.pop(), 9), 0)

        assert (stream.may_advance(KEY), stream.domains[KEY].is_quiet) == (False, False)
        while not stream.settle_members(KEY):
            pass
        assert set(stream.domains[KEY].holders) == {another}


async def test_a_controller_finishes_an_advance_by_itself() -> None:
    """And then makes the marks that it allows, without another note."""
    with sliced():
        async with serving(WatchedMemory()) as controller:
            await controller.put_stream("s", {"mark_interval_ms": 0})
            await deliver(controller, *(Note(writer) for writer in WRITERS))
            await deliver(controller, *(Note(writer, 5) for writer in WRITERS))
            await until(lambda: controller.stream("s").histories[KEY].last_lower == 5)
            await deliver(controller, *(Note(writer, 7) for writer in WRITERS))
            await until(lambda: controller.stream("s").histories[KEY].last_lower == 7)
            held = controller.stream("s").aggregator.domains[KEY].holders
            await until(lambda: len(held) == len(WRITERS))

            assert set(held) == set(WRITERS)
