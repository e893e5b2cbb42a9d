"""What writers and readers do about sealed segments, and returning writers about time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.chaos.scaling import ExcludedWriter, ExcludingStream, ScaledStream, Scaling

if TYPE_CHECKING:
    from tests.support.load import LoadWriter

ACCEPTED = {"status": "accepted"}


def note(writer: LoadWriter, lower: int | None) -> bool:
    """Have the writer do what it does and be answered; returns whether it wrote an event."""
    before = len(writer.stream.events)
    for each in writer.next_notes():
        writer.answered(each, ACCEPTED | {"lower": lower})
    return len(writer.stream.events) > before


@pytest.mark.parametrize("shared", [True, False])
def test_no_writer_writes_to_what_was_sealed(shared: bool) -> None:  # noqa: FBT001 - a parameter
    """From that moment on; and all of it is read before what follows."""
    chance = random.Random(1)
    stream = ScaledStream("s", shared=shared, rests=0.0)
    writers = [stream.writer(chance) for _ in range(3)]
    for _ in range(200):
        stream.scale(chance)
        for writer in writers:
            note(writer, None)
    sealed = {each: end for scaling in stream.scalings for each, end in scaling.sealed.items()}
    created = [segment for scaling in stream.scalings for segment in scaling.created]

    assert len(stream.scalings) > 50
    assert len(created) == len(set(created))
    assert {segment: stream.ends[segment] for segment in sealed} == sealed
    assert all(sealed.keys().isdisjoint(writer.segments) for writer in writers)


def test_a_segment_that_no_note_has_named_is_not_sealed() -> None:
    """The controller does not know it yet."""
    stream = ScaledStream("s", shared=False)
    stream.writer(random.Random(1))

    assert stream.scale(random.Random(1)) is None


def test_a_segment_is_read_after_all_that_came_before_it() -> None:
    """To its end, however far back."""
    stream = ScaledStream("s")
    stream.scalings = [Scaling({0: 5}, range(4, 6)), Scaling({1: 7, 4: 0}, range(6, 7))]

    assert [stream.may_be_read(6, read) for read in ({0: 5, 1: 6}, {0: 5, 1: 7})] == [False, True]


def test_who_is_excluded_writes_only_when_time_waits_for_it() -> None:
    """After it noted a time above the lower that answered."""
    stream = ExcludingStream("s", rests=0.0)
    writer = stream.writer(random.Random(1))
    late = [note(writer, 2**62) for _ in range(20)]
    writer.lowers.clear()
    writer.promised.clear()
    back = [note(writer, 5) for _ in range(20)]

    assert isinstance(writer, ExcludedWriter)
    assert (any(late), back[0], any(back)) == (False, False, True)
