"""What a note, an advance and a member cost, counted without a clock."""

import gc
import math
import tracemalloc
from dataclasses import dataclass

from noted_time import Aggregator, Note, StreamSettings
from noted_time.rules import lower_without
from tests.support.counting import CountedTime, counted
from tests.support.streams import TIMEOUT_MS

FEW, MANY = 100, 10_000
SEGMENTS = 16


@dataclass(frozen=True)
class Bill:
    """Bytecodes and comparisons of a call: the mean note, the mean and the dearest advance."""

    note: float
    advance: float
    dearest: float


def crowd(members: int) -> Aggregator:
    """Return a stream that `members` writers have joined."""
    stream = Aggregator(StreamSettings(writer_timeout_ms=TIMEOUT_MS))
    for number in range(members):
        stream.note(Note(str(number)), now=0)
    return stream


def permuted(members: int) -> list[str]:
    """Return the names of the members, shuffled the same way each time."""
    return [str(number * 7919 % members) for number in range(members)]


def settle(stream: Aggregator) -> None:
    """Let all members note distinct times in a shuffled order, then let time advance once."""
    for number, writer in enumerate(permuted(len(stream))):
        stream.note(Note(writer, CountedTime(number), {number % SEGMENTS: number + 1}), now=0)
    stream.advance("default", now=0, written_at=0)


def bill(members: int) -> Bill:
    """Let the slowest note and time advance, again and again; count each."""
    stream = crowd(members)
    settle(stream)
    notes, advances = [], []
    for turn, writer in enumerate(permuted(members)[:FEW]):
        said = Note(writer, CountedTime(members + turn), {turn % SEGMENTS: members + turn + 1})
        with counted() as note:
            stream.note(said, now=0)
        with counted() as advance:
            stream.advance("default", now=0, written_at=0)
        notes.append(note.bytecodes + note.comparisons)
        advances.append(advance.bytecodes + advance.comparisons)
    return Bill(sum(notes) / FEW, sum(advances) / FEW, max(advances))


def test_the_cost_of_a_note_and_of_an_advance_grows_with_the_logarithm_of_the_members() -> None:
    """A hundred times the members cost at most the ratio of the logarithms."""
    few, many = bill(FEW), bill(MANY)
    growth = math.log(MANY) / math.log(FEW)

    assert (
        many.note <= few.note * growth,
        many.advance <= few.advance * growth,
        many.dearest <= few.dearest * growth,
    ) == (True, True, True), (few, many)


def settling(members: int) -> float:
    """Return the cost per note of accepting notes of all members, and of advancing then."""
    stream = crowd(members)
    with counted() as cost:
        settle(stream)
    return (cost.bytecodes + cost.comparisons) / members


def test_an_advance_after_many_notes_costs_each_of_them_its_share() -> None:
    """It processes every member that noted since, once; no member is looked at again."""
    assert settling(MANY) <= settling(FEW) * math.log(MANY) / math.log(FEW)


def questions(members: int) -> int:
    """Return what it costs to ask for the state of time while everybody holds."""
    stream = crowd(members)
    with counted() as cost:
        lower_without(stream.domains["default"], "0")
        stream.may_advance("default")
        stream.next_timeout()
        stream.expire(TIMEOUT_MS - 1)
    return cost.bytecodes + cost.comparisons


def test_asking_for_the_state_of_time_costs_the_same_among_many() -> None:
    """Where time would be without which writers, if it may advance, when to look for silence."""
    assert questions(MANY) == questions(FEW)


def memory_of(members: int) -> float:
    """Return the bytes per member of a stream whose members all wrote to every segment."""
    gc.collect()
    tracemalloc.start()
    stream = Aggregator(StreamSettings())
    for number in range(members):
        whole = {segment: 1_000_000 + number + segment for segment in range(SEGMENTS)}
        stream.note(Note(f"writer-{number}", 1_700_000_000_000 + number, whole), now=0)
    stream.advance("default", now=0, written_at=0)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(stream) == members
    return size / members


def test_a_member_of_16_segments_takes_less_than_3_kib() -> None:
    """So 100,000 of them fit comfortably into one process."""
    assert memory_of(5_000) < 3 * 1024
