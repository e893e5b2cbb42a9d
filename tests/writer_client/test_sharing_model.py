"""Observers that share a topic, by the aggregator's own rules: what a mark covers, and what moves.

A process reads the clock, then the ends; has time wait for the writers of new partitions; and notes
each partition that it has. Partitions change hands with or without the knowledge of the former
owner, and what it sent may arrive at any later time, twice or never.
"""

from collections.abc import Iterable
from itertools import count
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from noted_time import Accepted, Aggregator, Mark, Note, Refused, StreamSettings
from tests.support.kafka import Record
from tests.support.kafka_judge import violations
from writer_client.observing.partition_writers import joining

STEPS = 300


class Process:
    """An observer: the session under which it has each partition, and what it may note of."""

    def __init__(self) -> None:
        self.sessions: dict[int, str] = {}
        self.ready: set[int] = set()
        self.awaited: set[int] = set()


class Topic:
    """A topic that processes share; a row's time is when it became visible."""

    def __init__(self, chance: Random, *, joins: bool) -> None:
        self.chance, self.joins = chance, joins
        self.stream = Aggregator(StreamSettings(max_time_ahead_ms=None))
        self.rows: list[list[int]] = [[], []]
        self.clock = 1
        self.marks: list[Mark] = []
        self.processes = [Process(), Process()]
        self.under_way: list[tuple[Process, int, Note]] = []
        self.numbers = count(2)
        self.owners: dict[int, Process] = {}

    def append(self) -> None:
        """Have a row become visible."""
        self.clock += 1
        self.chance.choice(self.rows).append(self.clock)

    def grow(self) -> None:
        """Add a partition."""
        self.rows.append([])

    def assign(self, partition: int, process: Process) -> None:
        """Have the group give a partition to a process; the former may learn of it or not."""
        former = self.owners.get(partition)
        if former is not None and self.chance.random() < 0.5:
            former.sessions.pop(partition, None)
            former.ready.discard(partition)
        self.owners[partition] = process
        self.take_over(partition, process)

    def take_over(self, partition: int, process: Process) -> None:
        """Send the join of a new client."""
        session = process.sessions[partition] = str(next(self.numbers))
        process.ready.discard(partition)
        self.send(partition, process, Note("", session=session, takes_over=True))

    def send(self, partition: int, process: Process, note: Note) -> None:
        """Have a note under way, with the number of its request."""
        name, number = f"o-{partition}", next(self.numbers)
        whole = Note(
            name,
            note.time,
            note.position,
            sequence=number,
            session=note.session,
            takes_over=note.takes_over,
        )
        self.under_way.append((process, partition, whole))

    def arrive(self, *, again: bool = False) -> None:
        """Have something that is under way arrive, possibly once more later."""
        if self.under_way:
            at = self.chance.randrange(len(self.under_way))
            self.note(*(self.under_way[at] if again else self.under_way.pop(at)))

    def note(self, process: Process, partition: int, note: Note) -> None:
        """Give a note to the stream, and its answer to the process."""
        answer = self.stream.note(note, now=0)
        if process.sessions.get(partition) == note.session:
            if isinstance(answer, Accepted) and note.takes_over:
                process.ready.add(partition)
            if isinstance(answer, Refused) and answer.status == "fenced":
                del process.sessions[partition]
                process.ready.discard(partition)
        mark = self.stream.advance("default", now=0, written_at=0)
        if mark is not None:
            self.marks.append(mark)

    def look(self, process: Process, *, calm: bool = False) -> None:
        """Look, have time wait for new partitions unless that fails, and note what is ready."""
        began = self.clock
        if not calm and self.chance.random() < 0.5:
            self.append()
        ends = [len(rows) for rows in self.rows]
        new = set(range(len(ends))) - process.awaited
        if self.joins and new and not calm and self.chance.random() < 0.2:
            return
        for partition in new if self.joins else ():
            self.stream.note(joining(f"o-{partition}", "default", 60_000), now=0)
        process.awaited |= new
        for partition in process.ready:
            position = {partition: ends[partition]}
            session = process.sessions[partition]
            self.send(partition, process, Note("", began, position, session=session))

    def step(self) -> None:
        """Have anything happen."""
        process = self.chance.choice(self.processes)
        partition = self.chance.randrange(len(self.rows))
        kind = self.chance.choices(range(6), (8, 1, 3, 20, 60, 4))[0]
        steps = (
            self.append,
            self.grow if len(self.rows) < 5 else self.append,
            lambda: self.assign(partition, process),
            lambda: self.look(process),
            self.arrive,
            lambda: self.arrive(again=True),
        )
        steps[kind]()

    def settle(self) -> None:
        """Have every partition observed by its owner, which takes its name over if it is fenced."""
        self.under_way.clear()
        for partition in range(len(self.rows)):
            owner = self.owners.setdefault(partition, self.processes[0])
            while partition not in owner.ready:
                self.take_over(partition, owner)
                self.note(*self.under_way.pop())
        self.clock += 1
        for process in self.processes:
            self.look(process, calm=True)
        while self.under_way:
            self.note(*self.under_way.pop(0))

    def late(self) -> Iterable[object]:
        """Return the rows below a mark's lower that its cut does not cover."""
        marks = [
            {"lower": mark.lower, "cut": {str(s): o for s, o in mark.cut.offsets.items()}}
            for mark in self.marks
        ]
        records = [
            Record(partition, offset, time)
            for partition, rows in enumerate(self.rows)
            for offset, time in enumerate(rows)
        ]
        return violations(marks, records)


def played(chance: Random, *, joins: bool = True) -> Topic:
    """Return a topic after a history by chance."""
    topic = Topic(chance, joins=joins)
    for _ in range(STEPS):
        topic.step()
    return topic


@given(st.randoms(use_true_random=False))
def test_no_row_is_lost_to_partitions_that_grow_and_change_hands(chance: Random) -> None:
    """And no writer holds time for ever, although notes were delayed, repeated or lost."""
    topic = played(chance)
    late = topic.late()
    topic.settle()

    assert (late, topic.late(), topic.marks[-1].lower) == ([], [], topic.clock)


def test_rows_are_lost_if_nothing_waits_for_the_writer_of_a_new_partition() -> None:
    """So each process that sees a partition has time wait for its writer before anything else."""
    histories = [played(Random(seed), joins=False) for seed in range(50)]

    assert any(topic.late() for topic in histories)
