"""The laws of `DeliveryTracker`, for correct programs over a log that may fail."""

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import DeliveryFailed, InvalidNote, Rejected
from noted_time.values import LateRows, Time, unix_ms_of
from writer_client import DeliveryTracker
from writer_client.sending.delivery import DeliveryEpoch, OnFailure
from writer_client.sending.vouched import EMPTY_POSITION, HeldBack
from writer_client.sending.writer import Writer

OFTEN = ("produce", "produce", "count", "send", "deliver", "deliver", "note", "note")
SELDOM = ("lose", "begin", "commit", "doubt", "find_committed", "find_aborted", "abort", "forgive")
DOMAINS = ("ordered", "sent")
ENDING = ("send", "commit", "doubt", "find_committed", "find_aborted", "abort")


class Left(NamedTuple):
    """A note that left: its time, the position of the writer, and the largest time declared."""

    time: int
    position: dict[int, int]
    largest: int | None
    domain: str | None = None


class Noting(Writer[None]):
    """A writer that keeps its notes to itself."""

    def __init__(self) -> None:
        super().__init__("orders", "berlin", controller="http://controller:7464")
        self.left: list[Left] = []

    def _open(self, url: str, network: None, *, timeout_s: float, token: str | None) -> None:
        pass

    def _wake(self) -> None:
        pass

    def note_time(
        self,
        time: Time,
        position: Mapping[int, int] = EMPTY_POSITION,
        *,
        domain: str | None = None,
        max_time: Time | None = None,
    ) -> None:
        """Keep the note as well."""
        super().note_time(time, position, domain=domain, max_time=max_time)
        largest = self._outbox.vouched.get_largest(domain)
        self.left.append(Left(unix_ms_of(time), self.position, largest, domain))


class Message(NamedTuple):
    """The report of the log."""

    segment: int
    at: int

    def partition(self) -> int:
        """Return the segment."""
        return self.segment

    def offset(self) -> int:
        """Return the offset."""
        return self.at


@dataclass(eq=False)
class Event:
    """An event with the epoch that it is reported to, and its place once it was sent."""

    times: Mapping[str, int]
    epoch: DeliveryEpoch
    place: Message | None = None


class Program:
    """Produces and notes correctly, and repeats events that failed or were aborted.

    Its threads may send events in another order than they counted them.
    """

    def __init__(self, seed: int) -> None:
        self.client = Noting()
        self.raises = bool(seed % 2)
        on_failure: OnFailure = "raise" if self.raises else "keep"
        self.tracker = DeliveryTracker(self.client, domain=DOMAINS, on_failure=on_failure)
        self.chance = random.Random(seed)
        self.ends = [0, 0]
        self.counted: list[Event] = []
        self.under_way: list[Event] = []
        self.log: list[Event] = []
        self.again: list[Mapping[str, int]] = []
        self.lost = self.checked = 0
        self.promised = dict.fromkeys(DOMAINS, 0)
        self.before: list[Event] | None = None
        self.doubtful: list[Event] | None = None

    def act(self, act: str) -> None:
        """Act if this is possible now, and check the notes that left."""
        is_held = self.before is not None or self.doubtful is not None
        is_lost = self.lost
        getattr(self, act)()
        known_count = self.checked
        self.checked = len(self.client.left)
        for note in self.client.left[known_count:]:
            assert not is_lost or act in ("forgive", "abort", "find_aborted")
            assert not is_held or act in ENDING
            assert self.before is None
            assert self.doubtful is None
            assert self.beyond(note) == []

    def beyond(self, note: Left) -> list[Event]:
        """Return events that the note promises but does not cover."""
        return [
            event
            for event in self.log
            if event.times[note.domain or ""] < note.time
            and (event.place is None or event.place.at >= note.position.get(event.place.segment, 0))
        ]

    def count(self, times: Mapping[str, int] | None = None) -> None:
        """Count an event, which is sent later."""
        times = times or {k: t + self.chance.randrange(5) for k, t in self.promised.items()}
        event = Event(times, self.tracker.produced(times["ordered"], {"sent": times["sent"]}))
        self.counted.append(event)
        self.log.append(event)

    def send(self) -> None:
        """Append one of the counted events, in any order; it is reported later."""
        if self.counted:
            event = self.counted.pop(self.chance.randrange(len(self.counted)))
            segment = self.chance.randrange(2)
            event.place = Message(segment, self.ends[segment])
            self.ends[segment] += self.chance.choice((1, 1, 2))
            self.under_way.append(event)

    def send_all(self) -> None:
        """Append all counted events."""
        while self.counted:
            self.send()

    def produce(self, times: Mapping[str, int] | None = None) -> None:
        """Count an event, and append one."""
        self.count(times)
        self.send()

    def deliver(self) -> None:
        """Report one event, in any order."""
        if self.under_way:
            event = self.under_way.pop(self.chance.randrange(len(self.under_way)))
            event.epoch.on_delivery(None, event.place)
            self.tracker.settle()

    def lose(self) -> None:
        """Report that an event failed."""
        if self.under_way:
            event = self.under_way.pop(self.chance.randrange(len(self.under_way)))
            event.epoch.on_delivery("too large", event.place)
            if event in self.log:  # else it was aborted
                self.log.remove(event)
                self.again.append(event.times)
                self.lost += 1

    def repeat(self) -> None:
        """Produce missing events again."""
        repeated_times = self.again
        self.again = []
        for times in repeated_times:
            self.produce(times)

    def note(self, *domains: str) -> None:
        """Note the produced events in some domains, below all missing events."""
        self.repeat()
        for domain in domains or (self.chance.choice(DOMAINS),):
            self.promised[domain] += self.chance.randrange(8)
            self.tracker.note(self.promised[domain], domain=domain)

    def note_all(self) -> None:
        """Note in both domains."""
        self.note(*DOMAINS)

    def begin(self) -> None:
        """Begin a transaction, once the outcome of the one before is known."""
        if self.before is None:
            self.send_all()
            if self.doubtful is not None and self.chance.random() < 0.5:
                self.act("find_aborted")
            self.doubtful = None
            self.before = list(self.log)
            self.tracker.begin()

    def commit(self) -> None:
        """Commit the delivered events."""
        if self.before is not None and not self.lost:
            self.send_all()
            self.before = None
            self.tracker.commit()

    def doubt(self) -> None:
        """Commit without an answer."""
        if self.before is not None:
            self.send_all()
            self.doubtful = [event for event in self.log if event not in self.before]
            self.before = None
            self.tracker.commit(is_certain=False)

    def find_committed(self) -> None:
        """Find out that the commit succeeded."""
        if self.doubtful is not None:
            self.doubtful = None
            self.tracker.commit()

    def find_aborted(self) -> None:
        """Find out that Kafka aborted the transaction."""
        if self.doubtful is not None:
            aborted_events = self.doubtful
            self.doubtful = None
            self.take_back(aborted_events)

    def abort(self) -> None:
        """Take back the transaction."""
        if self.before is not None:
            self.send_all()
            events_before = self.before
            self.before = None
            self.take_back([event for event in self.log if event not in events_before])

    def take_back(self, aborted: list[Event]) -> None:
        """Take events back, to produce them again."""
        aborted = [event for event in aborted if event in self.log]
        self.again += [event.times for event in aborted]
        self.log = [event for event in self.log if event not in aborted]
        self.tracker.abort()
        self.lost = failures(self.tracker)

    def forgive(self) -> None:
        """Produce failed events again and forgive, or forgive first and note again."""
        self.lost = 0
        if not self.raises:
            self.repeat()
        self.tracker.forgive()
        self.repeat()


def failures(tracker: DeliveryTracker) -> int:
    try:
        tracker.check()
    except DeliveryFailed as error:
        return error.failed
    return 0


@given(
    acts=st.lists(st.sampled_from(OFTEN) | st.sampled_from(SELDOM), min_size=20, max_size=80),
    seed=st.integers(0, 2**32),
)
def test_notes_cover_events_produced_before(acts: list[str], seed: int) -> None:
    """Times and positions never go back, and the last note leaves in the end."""
    program = Program(seed)
    for act in acts:
        program.act(act)
    for act in ("abort", "find_aborted", "forgive", "note_all", "send_all"):
        program.act(act)
    while program.under_way:
        program.act("deliver")

    left = program.client.left
    for earlier, later_note in itertools.pairwise(left):
        assert all(later_note.position[n] >= offset for n, offset in earlier.position.items())
    for domain in DOMAINS:
        notes = [note for note in left if note.domain == domain]
        assert notes[-1].time == program.promised[domain] == program.tracker.last_time(domain)
        assert [note.time for note in notes] == sorted(note.time for note in notes)
        assert all((notes[-1].largest or 0) >= event.times[domain] for event in program.log)
    assert program.client._outbox.late_rows == 0


@pytest.mark.parametrize(("on_failure", "time"), [("raise", 5), ("keep", 30)])
def test_notes_after_a_failure_wait_for_its_handling(on_failure: OnFailure, time: int) -> None:
    """Repeated events are not late."""
    client = Noting()
    tracker = DeliveryTracker(client, on_failure=on_failure)
    tracker.note(5)
    tracker.produced(6).failed("too large")
    tracker.note(30)
    tracker.forgive()
    tracker.produced(6).delivered(0, 1)
    tracker.note(40)

    assert [note.time for note in client.left] == [*{5, time}, 40]
    assert client._outbox.late_rows == (0 if on_failure == "raise" else 1)


def test_smaller_offset_keeps_the_position() -> None:
    """Another thread may send an event earlier than it was counted; the ends are looked up."""
    note_counts: list[int] = []
    client = Noting()
    tracker = DeliveryTracker(client, look_again=lambda: note_counts.append(len(client.left)))
    tracker.produced(5).delivered(0, 7)
    tracker.note(10)
    tracker.produced(12).delivered(0, 6)
    tracker.note(20)
    tracker.produced(25).delivered(0, 5)
    tracker.note(30)
    for offset in (9, 8):
        tracker.produced(35).delivered(0, offset)

    tracker.leave()
    assert client.position == {0: 10}
    assert client.left == [Left(10, {0: 8}, 5), Left(20, {0: 8}, 12), Left(30, {0: 8}, 25)]
    assert note_counts == [1, 2, 3]


def test_unknown_offset_makes_the_tracker_look_up_ends() -> None:
    """Kafka reports no offset if a retry met its first attempt."""
    note_counts: list[int] = []
    for look_again in (lambda: note_counts.append(1), None):
        client = Noting()
        tracker = DeliveryTracker(client, look_again=look_again)
        tracker.produced(5).on_delivery(None, Message(0, -1001))
        tracker.note(10)

        assert [note.time for note in client.left] == ([10] if look_again else [])
        assert failures(tracker) == (0 if look_again else 1)
    assert note_counts == [1]


def test_ends_are_not_final_with_events_in_flight() -> None:
    """This includes open transactions: an idle or finished writer has no pending events."""
    client = Noting()
    tracker = DeliveryTracker(client)
    event = tracker.produced(5)
    with pytest.raises(Rejected, match="not delivered yet: 1 event; flush first"):
        tracker.leave()
    event.delivered(0, 7)
    tracker.leave()
    assert client.position == {0: 8}
    tracker.rests = True
    with pytest.raises(Rejected, match="'berlin' is idle or finished: join first"):
        tracker.produced(9)
    assert tracker.under_way == 0
    tracker.begin()
    with pytest.raises(Rejected, match="a transaction is open"):
        tracker.leave()


def test_domains_have_separate_notes_and_late_rows() -> None:
    """An event without a time in a domain does not count there."""
    client = Noting()
    tracker = DeliveryTracker(client, domain=DOMAINS)
    tracker.produced(5, {"sent": 70}).delivered(0, 0)
    tracker.note(60, domain="sent")
    tracker.produced(8, {"sent": 59}).delivered(0, 1)
    tracker.produced(9).delivered(0, 2)
    tracker.note(10)
    late = {pending.note.domain: pending.note.late_rows for pending in client._outbox.take()}

    assert client.left == [Left(60, {0: 1}, 70, "sent"), Left(10, {0: 3}, 9, "ordered")]
    assert late == {"sent": (LateRows(1, 59, 59),), "ordered": None}
    assert (tracker.last_time(), tracker.last_time("sent")) == (10, 60)
    with pytest.raises(Rejected, match="no domain 'paid': it is created for 'ordered', 'sent'"):
        tracker.produced(9, {"paid": 5})
    with pytest.raises(Rejected, match="no domain 'paid'"):
        tracker.note(5, domain="paid")
    with pytest.raises(InvalidNote, match="as invalid_time: it noted 60 before"):
        tracker.note(59, domain="sent")
    assert tracker.under_way == 0
    assert HeldBack("ordered", 9, 8, {0: 3}) in client._outbox.vouched.take_back("ordered", 8)
