"""Completeness of consumers with offsets, compared with all rows of a topic."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from msgspec import convert

from noted_time.answers import Completeness
from noted_time.client import Question, run
from noted_time.client.transport import Transport
from noted_time.client.waiting import NothingKnown, build_performer
from noted_time.lineage import Dataset
from noted_time.progress import ReadOffsets, check_known, find_lookup_starts
from noted_time.reading import MarkHistory
from noted_time.values import Mark, Note, Rejected
from noted_time.verdict import Requirement
from reader_client import complete_to
from reader_client.protocol.datasets import StreamDataset
from tests.support.judged import Domain
from tests.support.streams import advance_all, deliver, make_stream
from tools.trials.calls import TEN
from tools.trials.served import Served

HISTORIES = 1000
EVERYTHING = 2**62


@dataclass
class Entry:
    """A row with its time, or the marker of a transaction; `is_visible` is `None` while open."""

    writer: str
    time: int | None
    is_visible: bool | None


@dataclass
class Topic:
    """The partitions of a topic, as a read_committed reader sees them."""

    partitions: list[list[Entry]]

    def stable_end(self, partition: int) -> int:
        """Return the begin of the oldest open transaction, or the end."""
        log = self.partitions[partition]
        return next((n for n, record in enumerate(log) if record.is_visible is None), len(log))

    def first_visible(self, partition: int, offset: int) -> int:
        """Return the offset of the first visible record from an offset on, or the end."""
        log = self.partitions[partition]
        end = self.stable_end(partition)
        return next((n for n in range(offset, end) if log[n].is_visible), max(offset, end))

    def ends(self) -> dict[int, int]:
        return {n: len(log) for n, log in enumerate(self.partitions)}

    def find_end(self, partition: int, offset: int) -> int | None:
        """Return the offset after the last visible record below an offset, or `None`."""
        log = self.partitions[partition]
        visible_ends = [n + 1 for n in range(min(offset, len(log))) if log[n].is_visible]
        return visible_ends[-1] if visible_ends else None


@dataclass
class History:
    """Writers that write, sometimes in transactions, and then note; one may go missing."""

    chance: random.Random
    marks: list[Mark] = field(default_factory=list)
    excluded_at: dict[int, frozenset[str]] = field(default_factory=dict)
    late: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.topic = Topic([[] for _ in range(self.chance.randint(1, 3))])
        self.writers = [f"w{n}" for n in range(self.chance.randint(1, 3))]
        self.stream = make_stream(*self.writers)
        self.promised = dict.fromkeys(self.writers, 0)
        self.open: dict[str, list[Entry]] = {}
        self.gone = frozenset[str]()
        self.known = MarkHistory()

    def step(self) -> None:
        """Write, end a transaction, note, or lose a writer."""
        writer = self.chance.choice(self.writers)
        draw = self.chance.random()
        if draw < 0.5:
            self._write(writer)
        elif draw < 0.65:
            self._end(writer)
        elif draw < 0.97 and writer not in self.gone:
            self._note(writer)
        elif draw > 0.985 and len(self.gone) + 1 < len(self.writers):
            self.stream.remove(writer, now=0)
            self.gone |= {writer}
        for mark in advance_all(self.stream):
            self.known.append(mark)
            self.marks.append(self.known.mark(mark.seq))
            self.excluded_at[mark.seq] = self.gone

    def _write(self, writer: str) -> None:
        time = self.promised[writer] + self.chance.randrange(4)
        is_late = self.chance.random() < 0.05 and writer not in self.open
        if is_late:
            time -= 5
            self.late.append((writer, time))
        is_in_transaction = not is_late and (writer in self.open or self.chance.random() < 0.4)
        entry = Entry(writer, time, None if is_in_transaction else True)
        self.chance.choice(self.topic.partitions).append(entry)
        if is_in_transaction:
            self.open.setdefault(writer, []).append(entry)

    def _end(self, writer: str) -> None:
        entries = self.open.pop(writer, [])
        is_committed = self.chance.random() < 0.5
        for log in self.topic.partitions:
            if any(row in entries for row in log if row.is_visible is None):
                log.append(Entry(writer, None, is_visible=False))
        for row in entries:
            row.is_visible = is_committed

    def _note(self, writer: str) -> None:
        """Note a time with the position of own records, or of all committed ones."""
        if writer in self.open:
            return
        self.promised[writer] += self.chance.randrange(4)
        position = {}
        for number, log in enumerate(self.topic.partitions):
            own_ends = [
                n + 1 for n, row in enumerate(log) if row.writer == writer and row.is_visible
            ]
            end = max([self.topic.stable_end(number), *own_ends])
            position[number] = end if self.chance.random() < 0.5 else (own_ends or [0])[-1]
        deliver(self.stream, Note(writer, self.promised[writer], position))


def find_read_offsets(
    topic: Topic, committed_offsets: Mapping[int, int], cut: Mapping[int, int]
) -> ReadOffsets:
    """Return the read offsets of a group by its committed offsets."""
    begins = dict.fromkeys(topic.ends(), 0)
    places = find_lookup_starts(committed_offsets, begins, topic.ends(), cut)
    visible_offsets = {
        segment: topic.first_visible(segment, offset) for segment, offset in places.items()
    }
    return ReadOffsets({**committed_offsets, **visible_offsets}, log="log-1")


def judge(
    history: History, committed_offsets: Mapping[int, int], to: int | None = None
) -> Completeness:
    """Judge a group with these offsets by the marks of the history."""
    topic = history.topic
    domain = Domain(history.known, stream="s")

    def answer(question: Question[Any]) -> Completeness:
        return domain.answer(convert(question.body, Requirement, strict=False))

    readers = {"s": partial(find_read_offsets, topic, committed_offsets)}
    group = StreamDataset(Dataset("group:g@localhost/s"), readers)
    return run(group.judge(Requirement(to=to)), build_performer(answer))


def find_time(history: History, committed_offsets: Mapping[int, int]) -> tuple[int, int] | None:
    """Return the time that a group has reached, and its mark's seq; `None` if unknown.

    Answers about single marks must agree.
    """
    completeness = judge(history, committed_offsets)
    time = -1 if completeness.complete_to is None else completeness.complete_to
    for mark in history.marks[-5:]:
        if mark.cut.offsets:
            at_mark = judge(history, committed_offsets, mark.lower)
            assert at_mark.is_complete == (mark.lower <= time)
    return (
        None
        if completeness.mark is None or not completeness.is_complete
        else (time, completeness.mark.seq)
    )


def find_ends(topic: Topic, offsets: dict[int, int]) -> dict[int, int]:
    """Return where a query that read to these offsets ends in the partitions that it has read."""
    ends = {}
    for partition, offset in offsets.items():
        end = topic.find_end(partition, offset)
        if end is not None:
            ends[partition] = end
    return ends


@pytest.mark.parametrize("seed", range(10))
def test_rows_below_the_reached_time_were_read(seed: int) -> None:
    """A group that has read everything has reached the stream's lower."""
    advanced_count = 0
    for number in range(HISTORIES // 10):
        chance = random.Random(f"{seed} {number}")
        history = History(chance)
        topic = history.topic
        for _ in range(chance.randint(5, 50)):
            history.step()
        everything = find_ends(topic, dict.fromkeys(topic.ends(), EVERYTHING))
        some_offsets = {n: chance.randint(0, end) for n, end in topic.ends().items()}
        for committed_offsets in (everything, some_offsets, find_ends(topic, some_offsets)):
            time_and_seq = find_time(history, committed_offsets)
            if time_and_seq is None:
                continue
            advanced_count += 1
            time, seq = time_and_seq
            named_writers = history.excluded_at[seq] | {writer for writer, _ in history.late}
            for partition, log in enumerate(topic.partitions):
                for row in log[committed_offsets.get(partition, 0) :]:
                    is_due = row.is_visible and row.time is not None and row.time < time
                    assert not is_due or row.writer in named_writers
        if not history.open and history.marks and history.marks[-1].cut.offsets:
            assert find_time(history, everything) == (
                history.marks[-1].lower,
                history.marks[-1].seq,
            )
    assert advanced_count > HISTORIES // 20


def test_offsets_outside_the_log_are_refused() -> None:
    """They were deleted, are beyond the end, or have an unknown partition."""
    deletion = (
        "partition 0: records 2 to 4 were deleted before this group read them: its output lacks "
        "them; load them from elsewhere, then reset its offsets"
    )
    beyond = (
        "partition 0 ends at 9, but offset 12 is beyond that: the topic was created again, or the "
        "offsets belong to another topic; reset them"
    )
    for offset, says in ((2, deletion), (12, beyond)):
        with pytest.raises(Rejected, match=f"^{re.escape(says)}$"):
            find_lookup_starts({0: offset}, {0: 5}, {0: 9})
    says = "partition 8 is unknown: s has [0, 1]; correct the number, or leave it out"
    with pytest.raises(Rejected, match=f"^{re.escape(says)}$"):
        check_known({0: 2, 7: 0, 8: 1}, {1, 0}, "s")


def test_emptied_partition_counts_as_unread() -> None:
    """It is unknown whether the group read its records, so the offset counts as 0.

    A partition without an earlier begin is not refused.
    """
    assert find_lookup_starts({0: 9, 3: 0}, {0: 0, 1: 7, 2: 0}, {0: 9, 1: 7, 2: 3}) == {2: 0}
    assert find_lookup_starts({}, {}, {0: 3}, {}) == {}


@pytest.fixture
def stream(served: Served) -> str:
    """Return a stream with two marks, at 10:00 and 10:01."""
    return served.two_minutes()


def test_position_gives_the_time_reached(served: Served, stream: str) -> None:
    """Remarks name late rows."""
    late = {"rows": 2, "min_time": TEN - 60_000, "max_time": TEN - 1}
    served.post(stream, {"writer": "shop", "late_rows": late})
    partial_answer, whole_answer = (
        complete_to(stream, {0: n, 1: 4}, controller=served.url) for n in (19, 20)
    )

    assert [answer.complete_to for answer in (partial_answer, whole_answer)] == [TEN, TEN + 60_000]
    assert [lack.writer for lack in partial_answer.lacks if lack.kind == "late"] == ["shop"]


def test_position_that_reaches_no_time_raises(served: Served, stream: str) -> None:
    """Notes without positions reach no time, either."""
    times = served.new()
    served.post(times, {"writer": "shop", "time": TEN})
    for name, says in ((stream, "the offsets reach no mark"), (times, "and no positions")):
        with pytest.raises(NothingKnown, match=says):
            complete_to(name, {}, controller=served.url)


def test_offsets_of_another_log_or_domain_are_refused(served: Served) -> None:
    name = served.new(domains=["default", "ship"])
    log = "l-Nn1Hl_QmqdyIVaRTaVpA"
    for domain in ("default", "ship"):
        note = {"writer": "shop", "domain": domain, "time": 10, "position": {"0": 5}, "log": log}
        served.post(name, note)
    with pytest.raises(Rejected, match="its positions are of log l-Nn"):
        complete_to(name, ReadOffsets({0: 5}, log="a-Nn1Hl_QmqdyIVaRTaVpA"), controller=served.url)
    read_offsets = ReadOffsets({0: 5}, at_most=10, domain="ship")
    with pytest.raises(Rejected, match="is of the domain 'ship': name it"):
        complete_to(name, read_offsets, controller=served.url)

    assert complete_to(name, read_offsets, controller=served.url, domain="ship").complete_to == 10


def test_group_is_asked_about_the_offsets_below_a_mark(served: Served, stream: str) -> None:
    """The mark is given by a time, or is the last one."""
    cuts = []
    read_offsets = ReadOffsets({0: 20, 1: 4}, by="group 'g'")

    def look_up(cut: Mapping[int, int]) -> ReadOffsets:
        cuts.append(dict(cut))
        return read_offsets

    group = StreamDataset(Dataset(f"group:g@localhost/{stream}"), {stream: look_up})
    with closing(Transport(served.url)) as transport:
        perform = build_performer(transport.ask)
        answers = [run(group.judge(Requirement(to=to)), perform) for to in (TEN, None, TEN - 1)]

    assert [answer.complete_to for answer in answers] == [TEN + 60_000] * 3
    assert [answer.status for answer in answers] == ["complete", "complete", "incomplete"]
    assert cuts == [{0: 10, 1: 4}, {0: 20, 1: 4}]
    assert "read by group 'g'" in answers[0].sentence
