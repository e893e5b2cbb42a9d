"""Laws of the journal: nothing of a member is lost, and what is not needed goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from controller.store import journal
from controller.store.journal import Entry, Journal, overlaid
from controller.store.port import Batch
from controller.store.told import Told
from tests.support.stored import member, told

if TYPE_CHECKING:
    from noted_time import MemberRecord

STREAMS = ("s", "t")
SETTINGS = settings(max_examples=300, deadline=None)

writers = st.sampled_from("abcdefgh")
streams = st.sampled_from(STREAMS)
records = st.builds(member, writers, st.integers(0, 9))
batches = st.builds(
    Batch,
    forgotten_members=st.lists(st.tuples(streams, writers), max_size=2),
    told=st.lists(st.builds(Told.of, streams, st.lists(records, max_size=4)), max_size=3),
)


@dataclass
class Kept:
    """What a database would hold, and what a journal knows of it."""

    rows: dict[tuple[str, str], MemberRecord] = field(default_factory=dict)
    entries: dict[tuple[str, int], str] = field(default_factory=dict)
    journal: Journal = field(default_factory=Journal)
    settled: int = 0

    def __post_init__(self) -> None:
        for stream in STREAMS:
            self.journal.learn(stream, [])

    def commit(self, batch: Batch) -> None:
        """Do as a store does."""
        for gone in batch.forgotten_members:
            self.rows.pop(gone, None)
        for stream, seq, body in self.journal.append(batch):
            assert (stream, seq) not in self.entries
            self.entries[stream, seq] = body
        for outdated in self.journal.outdated():
            stream, first, since, last = outdated
            chain = self.of(stream)
            assert first == chain[0][0]
            going = [(seq, e) for seq, e in chain if since is not None and since <= seq <= last]
            for record in self.journal.dropped(outdated, going):
                self.rows[stream, record.writer] = record
                self.settled += 1
            for seq, _ in chain:
                if seq <= last:
                    del self.entries[stream, seq]

    def of(self, stream: str) -> list[tuple[int, Entry]]:
        """Return the entries of a stream in their order."""
        found = sorted((seq, body) for (name, seq), body in self.entries.items() if name == stream)
        return [(seq, Entry.of(body)) for seq, body in found]

    def members(self, stream: str) -> list[MemberRecord]:
        """Return what whoever takes the stream over reads."""
        stored = [record for (name, _), record in sorted(self.rows.items()) if name == stream]
        return list(overlaid(stored, self.of(stream)))

    def relearn(self) -> None:
        """Know what a new process finds out."""
        self.journal.clear()
        for stream in STREAMS:
            self.journal.learn(stream, self.of(stream))


@pytest.fixture(params=[(-(10**6), 0), (-(10**6), 1), (0, 1), (400, 2)], ids=str)
def bounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Journals of a few records, cut down a little at a time."""
    spare, short = request.param
    monkeypatch.setattr(journal, "SPARE_BYTES", spare)
    monkeypatch.setattr(journal, "SHORT", short)
    monkeypatch.setattr(journal, "LONG", short + 1)
    for name in ("RECORDS_AN_ENTRY", "SETTLED_AT_ONCE", "DROPPED_AT_ONCE"):
        monkeypatch.setattr(journal, name, 2)


@pytest.mark.usefixtures("bounds")
@SETTINGS
@given(history=st.lists(st.tuples(batches, st.booleans()), max_size=30))
def test_members_are_what_was_said_of_them_last(history: list[tuple[Batch, bool]]) -> None:
    """Whatever was settled and dropped meanwhile, and whenever a new process took over."""
    kept = Kept()
    model: dict[tuple[str, str], MemberRecord] = {}
    for batch, is_taken_over in history:
        kept.commit(batch)
        for gone in batch.forgotten_members:
            model.pop(gone, None)
        for part in batch.told:
            model |= {(part.stream_id, each.writer): each for each in part.records()}
        if is_taken_over:
            kept.relearn()
    event(f"settled: {kept.settled > 0}")

    for stream in STREAMS:
        said_last = [record for (name, _), record in sorted(model.items()) if name == stream]
        assert kept.members(stream) == said_last


@pytest.mark.usefixtures("bounds")
@SETTINGS
@given(history=st.lists(batches, max_size=30))
def test_journals_are_cut_down_in_the_end(history: list[Batch]) -> None:
    """When nothing comes any more, as many commits as it takes leave what may stay."""
    kept = Kept()
    for batch in history:
        kept.commit(batch)
    for _ in range(len(kept.entries) + 2 * len(STREAMS)):
        kept.commit(Batch())
    left = dict(kept.entries)
    kept.commit(Batch())

    assert kept.entries == left
    assert journal.SPARE_BYTES < 0 or not kept.journal.is_overdue


def test_writers_that_note_at_one_pace_are_never_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry is told anew before it goes; what is kept is bounded."""
    monkeypatch.setattr(journal, "SPARE_BYTES", 500)
    kept, names = Kept(), "abcdefghij"
    for time in range(50):
        for name in names:
            kept.commit(Batch(told=told(member(name, time), of="s")))

    assert (kept.settled, len(kept.entries) <= 3 * len(names) + 4) == (0, True)
    assert kept.members("s") == [member(name, 49) for name in names]


def test_who_fell_silent_is_settled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred at a time, while one goes on noting."""
    monkeypatch.setattr(journal, "SPARE_BYTES", 500)
    silent = [member(f"w{n:04}") for n in range(2500)]
    kept = Kept()
    parts = [silent[begin : begin + 100] for begin in range(0, len(silent), 100)]
    kept.commit(Batch(told=[Told.of("s", part) for part in parts]))
    most, before = 0, 0
    for time in range(8000):
        kept.commit(Batch(told=told(member("z", time), of="s")))
        most, before = max(most, kept.settled - before), kept.settled

    assert (kept.settled, most) == (2500, 1000)
    assert kept.members("s") == [*silent, member("z", 7999)]


def test_no_journal_grows_beyond_what_is_read_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what is needed is more than that, it is settled, again and again."""
    monkeypatch.setattr(journal, "MOST_BYTES", 50_000)
    kept, names, most = Kept(), [f"w{n:03}" for n in range(1000)], 0
    for time in range(3):
        for begin in range(0, len(names), 10):
            ten = [member(name, time) for name in names[begin : begin + 10]]
            kept.commit(Batch(told=told(*ten, of="s")))
            most = max(most, sum(map(len, kept.entries.values())))

    assert (1000 < kept.settled < 3000, most < 55_000) == (True, True)
    assert kept.members("s") == [member(name, 2) for name in names]


def test_a_dropped_stream_is_not_counted_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of it; another's only record is as long as it may be, to the byte."""
    known = Kept().journal
    known.append(Batch(told=told(*map(member, "abc"), of="t")))
    for _ in range(2):
        known.forget("t")
    (row,) = known.append(Batch(told=told(member("a"), of="s")))
    monkeypatch.setattr(journal, "SPARE_BYTES", -2 * len(row[2]))
    outdated = list(known.outdated())
    as_it_was = known.is_overdue
    monkeypatch.setattr(journal, "SPARE_BYTES", -2 * len(row[2]) - 1)

    assert (outdated, as_it_was, known.is_overdue) == ([], False, True)
    assert known.unknown(Batch(told=[*told(member(), of="t"), *told(member(), of="s")])) == {"t"}
