"""Laws of stores over random batches: each returns the committed records, and all agree."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.store.port import Store
from controller.store.records import (
    AppendedMark,
    BacklogRecord,
    BucketClock,
    Change,
    ChangeSet,
    LateRecord,
    LedgerEntry,
    ReaderRecord,
    Record,
    StoredMember,
    StoredScale,
    StoredTimeline,
    StreamRecord,
)
from demo.trials.memory_store import MemoryStore
from noted_time import BacklogPolicy
from noted_time.answers import EntryAnswer
from noted_time.rules import MemberRecord, Timeline
from noted_time.values import (
    HOUR_MS,
    MAX_INT64,
    MIN_INT64,
    NO_SESSION,
    Absence,
    Conflict,
    Exclusion,
    LateReport,
    LateRows,
    Mark,
    ScaleEvent,
    Session,
    Spell,
    StreamCut,
    StreamSettings,
    Terms,
)
from noted_time.values.fencing import FormerSession
from tests.support.properties import costly
from tests.support.stored import Kept, read_kept, records

DOMAINS = ("default", "ship_time")
IDS = ("id-1", "id-2", "id-3")

int64 = st.integers(MIN_INT64, MAX_INT64)
natural = st.integers(0, MAX_INT64)
positive = st.integers(1, MAX_INT64)
ids = st.sampled_from(IDS)
domains = st.sampled_from(DOMAINS)
names = st.sampled_from(("A", "a", "b.1", "Z_-"))
keys = st.sampled_from(("A", "a"))
"""Few keys of records, so that one is often replaced or dropped."""

positions = st.dictionaries(st.one_of(st.integers(0, 5), natural), natural, max_size=4)
times = st.dictionaries(domains, int64)

stream_settings = st.builds(
    StreamSettings,
    positive,
    natural,
    st.sampled_from(["hold", "exclude"]),
    st.lists(domains, min_size=1, unique=True).map(tuple),
    natural,
    st.none() | natural,
    natural,
    st.lists(names, unique=True).map(tuple),
    positive,
)
reasons_out = st.sampled_from(["timed_out", "removed", "returned_late"])
late_rows = st.builds(LateRows, positive, int64, st.none() | int64)
former = st.lists(st.builds(FormerSession, names, names)).map(tuple)
members = st.builds(
    MemberRecord,
    keys,
    st.sampled_from(["live", "idle", "finished"]),
    st.sampled_from([None, "timed_out", "removed"]),
    positions,
    times,
    times,
    natural,
    natural,
    natural,
    st.builds(
        Terms,
        timeout_ms=st.none() | natural,
        domains=st.none() | st.lists(domains).map(tuple),
        hold_until=st.none() | natural,
        removed_by=st.none() | names,
    ),
    st.dictionaries(domains, late_rows),
    st.just(NO_SESSION) | st.builds(Session, st.none() | names, names, natural, former),
    st.none() | natural,
    st.lists(domains, unique=True).map(tuple),
    st.none() | names,
    st.none() | natural,
    st.none() | natural,
)
timelines = st.builds(
    Timeline,
    st.lists(st.builds(Spell, natural, st.none() | int64), max_size=2).map(tuple),
    st.none() | natural,
    st.none() | st.builds(Exclusion, reasons_out, natural),
    st.booleans(),
    st.none() | natural,
    natural,
    st.none() | int64,
    st.none() | int64,
)
scale_events = st.builds(
    ScaleEvent, positions, st.dictionaries(natural, st.lists(natural).map(tuple), max_size=3)
)
excluded = st.lists(names, unique=True).map(tuple)
# Few seqs, so that a random mark is often the next one of its chain.
marks = st.builds(
    Mark,
    st.integers(1, 3),
    int64,
    int64,
    st.builds(StreamCut, positions),
    natural,
    excluded,
    st.booleans(),
)
appended = st.builds(AppendedMark, ids, domains, marks, natural)
flags = st.none() | st.booleans()
readers = st.builds(ReaderRecord, ids, keys, keys, st.booleans(), positions, natural, flags)
thresholds = st.integers(1, 2**63 - 1)
rules = st.sampled_from(["two_way", "sticky"])
policies = st.one_of(
    st.builds(BacklogPolicy, thresholds, st.none() | thresholds, rules),
    st.builds(BacklogPolicy, st.none(), thresholds, rules),
    st.just(BacklogPolicy()),
)
backlogs = st.builds(
    BacklogRecord, ids, keys, st.none() | policies, st.booleans(), st.none() | natural, excluded
)
absences = st.builds(
    Absence,
    names,
    st.sampled_from(["timed_out", "removed", "returned_late", "sealed"]),
    st.none() | natural,
    st.none() | int64,
    positions,
    st.none() | int64,
)
answers = st.builds(
    EntryAnswer,
    natural,
    natural,
    st.none() | int64,
    int64,
    st.lists(absences, max_size=2).map(tuple),
    st.none() | names,
    excluded,
)
entries = st.builds(LedgerEntry, ids, domains, natural, answers)

small = st.integers(-2, 2).map(lambda hour: hour * HOUR_MS) | int64
reports = st.builds(
    LateReport, keys, natural, small, small, natural, natural, natural, served_at=natural
)
late = st.tuples(ids, domains, reports).map(
    lambda drawn: LateRecord(drawn[0], drawn[1], *drawn[2].place, drawn[2])
)
details = st.none() | st.dictionaries(
    names, st.none() | int64 | names | st.lists(names), min_size=1
)
reasons = st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))
actions = st.sampled_from(["created", "settings", "scaled", "removed", "held"])
changes = st.builds(
    Change,
    ids,
    natural,
    natural,
    actions,
    st.none() | names,
    details,
    details,
    st.none() | names,
    reasons,
)

streams = st.builds(StreamRecord, ids, names, stream_settings)
stored_members = st.builds(StoredMember, ids, members)
stored_timelines = st.builds(StoredTimeline, ids, domains, keys, timelines)
scales = st.builds(StoredScale, ids, st.integers(1, 4), scale_events)
old_kinds: st.SearchStrategy[type[Record]] = st.sampled_from((LedgerEntry, Change))
record_lists = st.tuples(
    st.lists(streams, max_size=2),
    st.lists(scales, max_size=1),
    st.lists(stored_members, max_size=6),
    st.lists(stored_timelines, max_size=3),
    st.lists(appended, max_size=2),
    st.lists(readers | backlogs | changes, max_size=4),
    st.lists(late, max_size=3),
    st.lists(entries, max_size=2),
).map(lambda drawn: [record for some in drawn for record in some])
dropped = st.one_of(
    st.tuples(st.just(StoredMember), ids, keys),
    st.tuples(st.just(StoredTimeline), ids, domains, keys),
    st.tuples(st.just(ReaderRecord), ids, keys, keys),
    st.tuples(st.just(BacklogRecord), ids, keys),
    late.map(lambda each: (LateRecord, *each.key)),
)


@st.composite
def batches(draw: st.DrawFn) -> ChangeSet:
    """Draw puts before and after drops of the same keys."""
    batch = ChangeSet(BucketClock(0, draw(natural)), *draw(record_lists))
    for key in draw(st.lists(dropped, max_size=4)):
        batch.drop(*key)
    batch.put(*draw(st.lists(readers | backlogs | stored_members | late, max_size=2)))
    for stream_id in draw(st.lists(ids, max_size=1)):
        batch.drop_old(draw(old_kinds), stream_id, draw(natural))
    for chain in draw(st.lists(st.tuples(ids, domains, st.integers(0, 4)), max_size=1)):
        batch.drop_marks(*chain)
    for stream_id in draw(st.lists(ids, max_size=1)):
        batch.drop(StreamRecord, stream_id)
    return batch


def sort_unique(records: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Return lists of the first stream's records, by key."""
    of_stream = records.map(lambda each: replace(each, stream_id=IDS[0]))
    drawn = st.lists(of_stream, max_size=3, unique_by=lambda each: each.key)
    return drawn.map(lambda some: sorted(some, key=lambda each: each.key))


@st.composite
def whole_streams(draw: st.DrawFn) -> Kept:
    """Draw all records of the first stream, each list ordered by key."""
    noted = dict(draw(st.lists(members.map(lambda each: (each.writer, each)))))
    return Kept(
        scales=draw(sort_unique(scales)),
        members=[noted[writer] for writer in sorted(noted)],
        marks={domain: draw(chains(domain)) for domain in DOMAINS},
        readers=draw(sort_unique(readers)),
        backlogs=draw(sort_unique(backlogs)),
        ledger=draw(sort_unique(entries)),
        late=draw(sort_unique(late)),
    )


def chains(domain: str) -> st.SearchStrategy[list[AppendedMark]]:
    """Return the chains of marks of the first stream that begin at seq 1."""
    return st.lists(st.tuples(marks, natural), max_size=5).map(
        lambda drawn: [
            AppendedMark(IDS[0], domain, replace(mark, seq=seq), appended_at)
            for seq, (mark, appended_at) in enumerate(drawn, 1)
        ]
    )


def try_commit(store: Store, batch: ChangeSet) -> str:
    """Commit the batch, and return the outcome."""
    try:
        store.commit(batch)
    except Conflict:
        event("conflict")
        return "conflict"
    event("written")
    return "written"


def read_all(store: Store) -> tuple[int, list[StreamRecord], dict[str, Kept]]:
    return (
        store.clocks()[0],
        store.streams(),
        {each: read_kept(store, each, DOMAINS) for each in IDS},
    )


@costly(4)
@given(
    record=st.builds(StreamRecord, st.just(IDS[0]), names, stream_settings), written=whole_streams()
)
def test_load_returns_what_was_committed(
    make_store: Callable[[], Store], record: StreamRecord, written: Kept
) -> None:
    """Records may have any values and be put in any order."""
    lists: list[list[Any]] = [written.readers, written.backlogs, written.ledger, written.late]
    batch = ChangeSet(
        record,
        *written.scales,
        *records(*reversed(written.members)),
        *(mark for chain in written.marks.values() for mark in chain),
        *(each for some in lists for each in reversed(some)),
    )
    with closing(make_store()) as store:
        store.commit(batch)

        assert (store.streams(), read_kept(store, record.id, DOMAINS)) == ([record], written)


@costly(4)
@given(written=st.lists(batches(), max_size=8))
def test_all_stores_agree(
    make_durables: list[Callable[[], Store]], written: list[ChangeSet]
) -> None:
    """Refused batches are among them."""
    made = [StreamRecord(stream_id, stream_id, StreamSettings()) for stream_id in IDS]
    history = (ChangeSet(*made), *written)
    found = []
    for make in (MemoryStore, *make_durables):
        with closing(make()) as store:
            found.append(([try_commit(store, batch) for batch in history], read_all(store)))

    assert found == found[:1] * len(found)
