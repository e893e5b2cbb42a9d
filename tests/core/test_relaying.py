"""Laws of relays, however many there are, and whenever they restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time import Mark, StreamCut
from noted_time.reading import NEW_SEGMENT_MS, RelayQueue, describe_difference

DOMAINS = ("default", "ingestion")
RELAYS = 2
OFTEN = ["write", "commit", "mark", "pass", "send", "append"] * 3
ACTS = [*OFTEN, "send", "append", "append", "grow", "kill", "append of those killed"]


@dataclass
class Process:
    """A relay: how far it has read the log of marks, and the marks it has sent."""

    queue: RelayQueue = field(default_factory=RelayQueue)
    read: int = 0
    sent: list[tuple[str, Mark]] = field(default_factory=list)


class World:
    """A log of two segments and more, the marks of its stream, and the log of marks."""

    def __init__(self) -> None:
        self.now = 0
        self.written = [0, 0]
        self.readable = [0, 0]
        self.added = [0, 0]
        self.marks: dict[str, list[Mark]] = {domain: [] for domain in DOMAINS}
        self.log: list[tuple[str, Mark]] = []
        self.relays = [Process() for _ in range(RELAYS)]
        self.killed: list[Process] = []

    def act(self, kind: str, choice: int) -> None:
        segment = choice % len(self.written)
        relay = self.relays[choice % RELAYS]
        if kind == "write":
            self.written[segment] += 1
        elif kind == "commit":
            self.readable[segment] = self.written[segment]
        elif kind == "mark":
            self.mark(DOMAINS[choice % 2])
        elif kind == "pass":
            self.now += NEW_SEGMENT_MS // 4 * (choice + 1)
        elif kind == "grow":
            self.written = [*self.written, 0]
            self.readable = [*self.readable, 0]
            self.added.append(self.now)
        elif kind == "kill":
            self.killed.append(relay)
            self.relays[choice % RELAYS] = Process()
        elif kind == "send":
            self.send(relay, hidden_segment=choice - 1)
        elif kind == "append":
            self.append(relay)
        else:
            for process in self.killed:
                self.append(process)

    def mark(self, domain: str) -> None:
        seq = len(self.marks[domain]) + 1
        cut = StreamCut(dict(enumerate(self.written)))
        self.marks[domain].append(Mark(seq, seq * 10, seq * 10, cut))

    def send(self, relay: Process, hidden_segment: int = -1) -> None:
        if relay.sent:
            return
        self.look(relay)
        ends = {s: end for s, end in enumerate(self.readable) if s != hidden_segment}
        relay.queue.look(ends, self.now)
        relay.sent = relay.queue.due(self.now)
        for domain in DOMAINS:
            seqs = [mark.seq for mark_domain, mark in relay.sent if mark_domain == domain]
            assert seqs == sorted(seqs)

    def look(self, relay: Process) -> None:
        for domain, mark in self.log[relay.read :]:
            relay.queue.record_written(domain, mark)
        relay.read = len(self.log)
        for domain in DOMAINS:
            newest = relay.queue.newest(domain)
            relay.queue.add(domain, self.marks[domain][newest.seq if newest else 0 :])

    def append(self, relay: Process) -> None:
        """Append the first mark that was sent."""
        if relay.sent:
            domain, mark = relay.sent.pop(0)
            for segment, offset in mark.cut.offsets.items():
                assert offset <= self.readable[segment]
                assert not offset or self.now - self.added[segment] >= NEW_SEGMENT_MS
            self.log.append((domain, mark))

    def last(self) -> Mapping[str, Mark]:
        return dict(self.log)


@given(
    st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 3)), min_size=60, max_size=200),
    st.integers(0, RELAYS - 1),
)
def test_relayed_mark_follows_its_rows(acts: list[tuple[str, int]], survivor: int) -> None:
    """It is never there before, nor while a segment is new; and the newest one is last in the end.

    Two relays send at once, start again, and are killed with marks on their way.
    """
    world = World()
    for kind, choice in acts:
        world.act(kind, choice)
    world.readable = [*world.written]
    while any(process.sent for process in (*world.killed, *world.relays)):
        for process in (*world.killed, *world.relays):
            world.append(process)
    left = world.relays[survivor]
    for _ in range(3):
        world.send(left)
        world.now += NEW_SEGMENT_MS
        while left.sent:
            world.append(left)

    world.look(left)
    assert not any(left.queue.waiting.values())
    assert world.last() == {domain: marks[-1] for domain, marks in world.marks.items() if marks}


def test_sealed_stream_ends_with_a_final_mark() -> None:
    """The last mark may be older than the seal, and written before it."""
    last = Mark(3, 30, 30, StreamCut({0: 7}))
    for is_written in (True, False):
        queue = RelayQueue(new_segment_ms=0)
        queue.look({0: 7}, 0)
        if is_written:
            queue.record_written("default", last)
        queue.add("default", [] if is_written else [last], is_all=True)

        assert queue.due(0) == [("default", replace(last, final=True))]


def test_relay_continues_after_the_last_record() -> None:
    """A slower relay wrote it last, and a compacted log keeps the last record of each domain."""
    older = Mark(1, 1, 1, StreamCut({}))
    newer = Mark(2, 2, 2, StreamCut({}))
    queue = RelayQueue()
    queue.record_written("default", newer)
    queue.add("default", [Mark(3, 3, 3, StreamCut({}))])
    queue.record_written("default", older)

    assert (queue.newest("default"), queue.due(0)) == (older, [])


def test_segment_without_rows_is_still_new() -> None:
    queue = RelayQueue()
    queue.record_written("default", Mark(1, 10, 10, StreamCut({0: 7, 1: 0})))
    queue.look({0: 9, 1: 1}, now_ms=0)
    queue.add("default", [Mark(2, 20, 20, StreamCut({0: 9}))])
    queue.add("default", [Mark(3, 30, 30, StreamCut({0: 9, 1: 1}))])

    assert [mark.seq for _, mark in queue.due(0)] == [2]


def test_mark_waits_until_it_or_a_later_one_is_written() -> None:
    """Another mark of its number is not."""
    first = Mark(1, 10, 10, StreamCut({0: 1}))
    mark = Mark(2, 20, 20, StreamCut({0: 2}))
    later_mark = Mark(3, 30, 30, StreamCut({0: 3}))
    queue = RelayQueue()
    queue.add("default", [first, mark, later_mark])

    assert queue.is_waiting("default", mark)
    assert not queue.is_waiting("ingestion", mark)
    assert not queue.is_waiting("default", replace(mark, lower=19))
    assert not queue.is_waiting("default", Mark(4, 40, 40, StreamCut({})))
    queue.record_written("default", mark)
    assert not queue.is_waiting("default", mark)
    assert not queue.is_waiting("default", first)
    assert queue.is_waiting("default", later_mark)
    assert queue.newest("default") == later_mark


def test_record_below_the_first_kept_mark_is_reported() -> None:
    """Cuts of equal numbers are compared both ways, with at most three segments shown."""
    known_mark = Mark(3, 30, 30, StreamCut({0: 7, 1: 7, 2: 7, 3: 7}))
    higher_cut = StreamCut({0: 8, 1: 8, 2: 8, 3: 8})

    assert describe_difference(Mark(2, 29, 99, StreamCut({})), known_mark) == ""
    assert describe_difference(Mark(2, 30, 30, StreamCut({})), known_mark) == (
        "the lower 30 there, and below 30 at the controller"
    )
    assert describe_difference(Mark(3, 30, 30, StreamCut({0: 7, 1: 7, 2: 7})), known_mark) == (
        "{3: 0} of its cut there, and {3: 7} at the controller"
    )
    assert describe_difference(Mark(2, 20, 20, higher_cut), known_mark) == (
        "{0: 8, 1: 8, 2: 8} of its cut there, and {0: 7, 1: 7, 2: 7} at the controller"
    )
