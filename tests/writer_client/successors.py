"""Processes that note under one writer name, in turn or at once, over a bad network.

Their outboxes, exchanges and the aggregator are the real ones. Answers are lost, requests delayed
until long after their process gave them up, the controller is restarted.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import strategies as st

from controller.api.notes.body import decode
from controller.api.notes.route import build_result
from noted_time.client import AddressedQuestion, Controllers, Reply
from noted_time.coding import encode
from noted_time.rules import Aggregator
from noted_time.values import Accepted, Mark, StreamSettings, Unreachable
from tests.support.streams import restart
from writer_client.sending.answers import FoundPosition, NotesReply
from writer_client.sending.exchange import Exchange, RequestNumbers
from writer_client.sending.notices import Notices
from writer_client.sending.outbox import Outbox
from writer_client.sending.pending_notes import Batch
from writer_client.sending.posting import Pace, Posting
from writer_client.sending.vouched import Process

WRITER = "UA"
MOST = 5

step = st.tuples(
    st.sampled_from(["start", "restart", "write", "note", "join", *["send"] * 3, *["take"] * 4]),
    st.integers(0, 99),
)
steps = st.lists(step, max_size=120)
"""An act, and a number that chooses its process or request and its outcome."""

restoring = st.lists(
    st.tuples(
        st.sampled_from(
            ["start", "backup", "restore", "note", "join", *["send"] * 3, *["take"] * 4]
        ),
        st.integers(0, 99),
    ),
    max_size=120,
)
"""The same with backups of the controller's database, and restores of the last one."""


class Row(NamedTuple):
    """A row of the shared segment; `named` says whether its process had the name."""

    time: int
    named: bool
    in_time: bool


@dataclass
class Successor:
    """One process."""

    session: str
    outbox: Outbox
    posting: Posting
    exchange: Exchange
    asking: Generator[AddressedQuestion, Reply, NotesReply] | None = None
    batch: Batch = ()


def make_aggregator() -> Aggregator:
    return Aggregator(StreamSettings())


@dataclass
class Successors:
    """The stream, its log, and all processes; `accepted` has the session of each note.

    The database has a `backup` from the start.
    """

    stream: Aggregator = field(default_factory=make_aggregator)
    log: list[Row] = field(default_factory=list)
    processes: list[Successor] = field(default_factory=list)
    network: list[tuple[Successor, AddressedQuestion]] = field(default_factory=list)
    accepted: list[str | None] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    now: int = 0
    saved: Aggregator = field(default_factory=make_aggregator)
    taken: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of a session that knows that it has the name, and one that lost it before."""

    def play(self, acts: list[tuple[str, int]]) -> Successors:
        """Play all acts; one process exists from the start."""
        self.start(0)
        for act, number in acts:
            self.now += 1
            if act == "start" and len(self.processes) < MOST:
                self.start(number)
            elif act == "restart":
                self.stream = restart(self.stream)
            elif act == "backup":
                self.saved = restart(self.stream)
            elif act == "restore":
                self.stream = restart(self.saved)
                self.accepted.append(None)
            elif act == "take":
                self.take(number)
            elif act != "start":
                process = self.processes[-1 - number % len(self.processes)]
                getattr(self, act)(process, number)
        return self

    def start(self, number: int) -> None:
        """Start a process whose clock may be ahead or behind."""
        session = f"s{len(self.processes)}"
        outbox = Outbox(WRITER, process=Process(session, ""))
        notices = Notices("s", WRITER, "http://c", None)
        posting = Posting(outbox, Pace(), notices, now=0, chance=lambda: 0.5)
        exchange = Exchange(Controllers("http://c"), "s")
        skew = (number % 3 - 1) * 500
        exchange._numbers = RequestNumbers(clock=lambda: 1000 + self.now + skew)
        outbox.begin(self._look_up)
        self.processes.append(Successor(session, outbox, posting, exchange))

    def _look_up(self, _: Mapping[int, int]) -> FoundPosition:
        largest: dict[str | None, int] = {}
        if self.log:
            largest[None] = max(row.time for row in self.log)
        return FoundPosition({0: len(self.log)}, largest)

    def write(self, process: Successor, number: int) -> None:
        """Append a row at or above the noted time, unless the process knows that it is fenced."""
        if process.outbox.fenced:
            return
        min_time = max(process.outbox.vouched.get_time(None) or 0, 0)
        time = min_time + number % 7
        mark = self.stream.domains["default"].last
        is_known = WRITER in self.stream
        has_name = is_known and self.stream.member(WRITER).session.id == process.session
        self.log.append(Row(time, has_name, mark is None or time >= mark.lower))
        process.outbox.record_write(time, None, {0: len(self.log)})

    def note(self, process: Successor, number: int) -> None:
        """Note a time that is not below the last."""
        if not process.outbox.fenced:
            last = process.outbox.vouched.get_time(None) or 0
            process.outbox.note(last + number % 5, {})

    def join(self, process: Successor, _: int) -> None:
        """Join, as after idle."""
        if not process.outbox.fenced:
            process.outbox.change_state("live", {})

    def send(self, process: Successor, _: int) -> None:
        """Post pending notes; a request under way is given up."""
        if process.asking is not None:
            self._resume(process, None)
        elif process.outbox and not process.outbox.fenced:
            process.batch = process.outbox.take()
            process.asking = process.exchange.post(process.batch)
            self.network.append((process, next(process.asking)))

    def settle(self) -> Successors:
        """Let all processes note without losses, until nothing changes."""
        for process in self.processes * 2 * len(self.processes):
            self.note(process, 0)
            for _ in range(3):  # a clock that is behind is overtaken at first
                self.now += 1
                self.send(process, 0)
                while self.network:
                    self.take(5)
        return self

    def take(self, number: int) -> None:
        """Let the controller process a request; its answer may be lost."""
        if not self.network:
            return
        place = 0 if number % 5 else number % len(self.network)
        process, question = self.network.pop(place)
        notes = decode(json.dumps(question.question.body).encode())
        results = [self.stream.note(note, self.now) for note in notes]
        self.accepted += [
            note.session
            for note, result in zip(notes, results, strict=True)
            if isinstance(result, Accepted) and note.session is not None
        ]
        while (mark := self.stream.advance("default", now=self.now, written_at=0)) is not None:
            self.marks.append(mark)
        waits = not any(each is process for each, _ in self.network)
        if process.asking is not None and waits and number % 4:
            if any(isinstance(result, Accepted) for result in results):
                losses = self.stream.member(WRITER).session.lost
                self.taken |= {(process.session, loss.id) for loss in losses}
            body = encode({"results": [build_result(result) for result in results]})
            self._resume(process, Reply(200, {}, body))

    def _resume(self, process: Successor, reply: Reply | None) -> None:
        """Give the process the answer, or report that there is none."""
        asking = process.asking
        assert asking is not None
        outcome: NotesReply | Exception
        try:
            error = Unreachable("lost")
            question = asking.throw(error) if reply is None else asking.send(reply)
        except StopIteration as end:
            outcome = process.posting.look_up_ends(end.value)
        except Exception as error:  # noqa: BLE001 - as the sender has it
            outcome = error
        else:
            self.network.append((process, question))
            return
        process.posting.settle(process.batch, outcome, self.now)
        process.asking = None

    @property
    def owner(self) -> str | None:
        """The session with the name."""
        return self.stream.member(WRITER).session.id

    @property
    def noting(self) -> list[str]:
        """The sessions of processes that are not fenced."""
        return [process.session for process in self.processes if not process.outbox.fenced]

    @property
    def fenced(self) -> set[tuple[str, str | None]]:
        """Pairs of a fenced session and the session that had the name then.

        Sessions that lost the name since the last restore are left out.
        """
        lost_sessions = {loss.id for loss in self.stream.member(WRITER).session.lost}
        fences = ((process.session, process.outbox.fenced) for process in self.processes)
        return {
            (session, fence.session)
            for session, fence in fences
            if fence and session not in lost_sessions
        }

    def find_returned(self) -> list[str]:
        """Return the sessions with notes accepted after another had taken over.

        Only sessions that lost the name since the last restore count.
        """
        lost_sessions: set[str] = set()
        returned_sessions = []
        owner = None
        for session in self.accepted:
            if session is None:  # the database forgot
                lost_sessions = set()
                owner = None
                continue
            if session in lost_sessions:
                returned_sessions.append(session)
            if owner is not None and owner != session:
                lost_sessions.add(owner)
            owner = session
        return returned_sessions

    def find_missed(self) -> list[tuple[int, Row]]:
        """Return rows that were in time, but beyond the cut of a mark above their time."""
        rows = list(enumerate(self.log))
        missed_rows = []
        for mark in self.marks:
            for offset, row in rows[mark.cut.offsets.get(0, 0) :]:
                if row.named and row.in_time and row.time < mark.lower:
                    missed_rows.append((offset, row))
        return missed_rows

    def find_beyond(self) -> list[Row]:
        """Return rows below a mark's cut and above its upper, if the upper is a bound."""
        rows_beyond = []
        for mark in self.marks:
            if not mark.upper_is_bound:
                continue
            for row in self.log[: mark.cut.offsets.get(0, 0)]:
                if row.named and row.time > mark.upper:
                    rows_beyond.append(row)
        return rows_beyond
