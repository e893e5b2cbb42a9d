"""Laws of stores over random batches: what goes in comes out, and every store does the same."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec import structs

from controller.store.port import (
    AppendedMark,
    BacklogRecord,
    Change,
    LateRecord,
    LedgerEntry,
    ReaderRecord,
    Store,
    StreamRecord,
    Transaction,
)
from noted_time import (
    BacklogPolicy,
    Conflict,
    Mark,
    MemberRecord,
    ScaleEvent,
    StreamCut,
    StreamSettings,
)
from noted_time.values import (
    HOUR_MS,
    MAX_INT64,
    MIN_INT64,
    NO_SESSION,
    Absence,
    ExcludedSince,
    LateReport,
    LateRows,
    Session,
    Terms,
    VouchingPeriod,
)
from noted_time.values.fencing import FormerSession
from tests.support.memory_store import MemoryStore
from tests.support.properties import costly
from tests.support.stored import Kept, kept, records

DOMAINS = ("default", "ship_time")
IDS = ("id-1", "id-2", "id-3")

int64 = st.integers(MIN_INT64, MAX_INT64)
natural = st.integers(0, MAX_INT64)
positive = st.integers(1, MAX_INT64)
ids = st.sampled_from(IDS)
domains = st.sampled_from(DOMAINS)
names = st.sampled_from(("A", "a", "b.1", "Z_-"))
keys = st.sampled_from(("A", "a"))
"""Few names of records, so that one is often written again, or forgotten."""

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
late_rows = st.builds(LateRows, natural, int64, st.none() | int64)
former = st.lists(st.builds(FormerSession, names, names)).map(tuple)
periods = st.builds(VouchingPeriod, natural, int64)
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
    st.lists(domains, unique=True).map(tuple),
    st.just(NO_SESSION) | st.builds(Session, st.none() | names, names, natural, former),
    st.none() | natural,
    st.dictionaries(domains, st.builds(ExcludedSince, reasons_out, natural)),
    st.lists(domains, unique=True).map(tuple),
    st.none() | names,
    st.none() | natural,
    st.none() | natural,
    st.dictionaries(domains, st.lists(periods, max_size=2).map(tuple)),
    times,
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
    st.none() | int64,
    positions,
    st.sampled_from(["timed_out", "removed", "returned_late", "sealed"]),
    st.none() | natural,
    st.none() | int64,
)
entries = st.builds(
    LedgerEntry,
    natural,
    natural,
    st.none() | int64,
    int64,
    st.lists(absences, max_size=2).map(tuple),
    st.none() | names,
    excluded,
    stream_id=ids,
    domain=domains,
    served_at=natural,
)

small = st.integers(-2, 2).map(lambda hour: hour * HOUR_MS) | int64
late = st.builds(
    LateRecord,
    ids,
    domains,
    st.builds(
        LateReport, keys, natural, small, small, natural, natural, natural, served_at=natural
    ),
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

batches = st.builds(
    Transaction,
    natural.map(lambda ms: {0: ms}),
    streams=st.lists(st.builds(StreamRecord, ids, names, stream_settings), max_size=2),
    scales=st.lists(st.tuples(ids, st.integers(1, 4), scale_events), max_size=1),
    forgotten_members=st.lists(st.tuples(ids, keys), max_size=2),
    members=st.lists(
        st.tuples(ids, members), max_size=6, unique_by=lambda of: (of[0], of[1].writer)
    ),
    marks=st.lists(appended, max_size=2),
    readers=st.lists(readers, max_size=2),
    backlogs=st.lists(backlogs, max_size=2),
    late=st.lists(late, max_size=3),
    ledger=st.lists(entries, max_size=2, unique_by=lambda of: (of.stream_id, of.domain, of.seq)),
    changes=st.lists(changes, max_size=2),
    forgotten_readers=st.lists(st.tuples(ids, keys, keys), max_size=2),
    forgotten_backlogs=st.lists(st.tuples(ids, keys), max_size=2),
    forgotten_late=st.lists(late.map(lambda each: each.key), max_size=2),
    forgotten_ledger=st.lists(st.tuples(ids, natural), max_size=1),
    forgotten_changes=st.lists(st.tuples(ids, natural), max_size=1),
    forgotten=st.lists(st.tuples(ids, domains, st.integers(0, 4)), max_size=1),
    dropped=st.lists(ids, max_size=1),
)


ledgers = st.lists(
    entries.map(lambda each: structs.replace(each, stream_id=IDS[0], seq=max(1, each.seq))),
    max_size=3,
    unique_by=lambda of: (of.domain, of.seq),
).map(lambda drawn: sorted(drawn, key=lambda each: (each.domain, each.seq)))


reports = st.lists(
    late.map(lambda each: replace(each, stream_id=IDS[0])), max_size=3, unique_by=lambda of: of.key
).map(lambda drawn: sorted(drawn, key=lambda each: each.key))


@st.composite
def whole_streams(draw: st.DrawFn) -> Kept:
    """Draw all that a store may keep of the first stream, each list in the order of its names."""
    noted = dict(draw(st.lists(members.map(lambda each: (each.writer, each)))))
    found = draw(st.lists(readers.map(lambda each: replace(each, stream_id=IDS[0]))))
    of_groups = {each.group: replace(each, stream_id=IDS[0]) for each in draw(st.lists(backlogs))}
    by_name = {(reader.group, reader.reader): reader for reader in found}
    return Kept(
        scales=draw(st.lists(scale_events, max_size=3)),
        members=[noted[writer] for writer in sorted(noted)],
        marks={domain: draw(chains(domain)) for domain in DOMAINS},
        readers=[by_name[name] for name in sorted(by_name)],
        backlogs=[of_groups[name] for name in sorted(of_groups)],
        ledger=draw(ledgers),
        late=draw(reports),
    )


def chains(domain: str) -> st.SearchStrategy[list[AppendedMark]]:
    """Return the chains of marks of the first stream that begin at seq 1."""
    return st.lists(st.tuples(marks, natural), max_size=5).map(
        lambda drawn: [
            AppendedMark(IDS[0], domain, structs.replace(mark, seq=seq), appended_at)
            for seq, (mark, appended_at) in enumerate(drawn, 1)
        ]
    )


def outcome(store: Store, batch: Transaction) -> str:
    """Commit the batch and return how that ended."""
    try:
        store.commit(batch)
    except Conflict:
        event("conflict")
        return "conflict"
    event("written")
    return "written"


def all_of(store: Store) -> tuple[int, list[StreamRecord], dict[str, Kept]]:
    """Return all that the store gives back."""
    streams = {stream_id: kept(store, stream_id, DOMAINS) for stream_id in IDS}
    return store.clocks()[0], store.streams(), streams


@costly(4)
@given(
    record=st.builds(StreamRecord, st.just(IDS[0]), names, stream_settings), written=whole_streams()
)
def test_load_gives_back_exactly_what_was_committed(
    make_store: Callable[[], Store], record: StreamRecord, written: Kept
) -> None:
    """Whatever the offsets, times, names and settings are, and in whatever order they came."""
    batch = Transaction(
        {0: 1},
        streams=[record],
        scales=[(record.id, seq, scale) for seq, scale in enumerate(written.scales)],
        members=records(*reversed(written.members)),
        marks=[mark for chain in written.marks.values() for mark in chain],
        readers=written.readers[::-1],
        backlogs=written.backlogs[::-1],
        ledger=written.ledger[::-1],
        late=written.late[::-1],
    )
    with closing(make_store()) as store:
        store.commit(batch)

        assert (store.streams(), kept(store, record.id, DOMAINS)) == ([record], written)


@costly(4)
@given(written=st.lists(batches, max_size=8))
def test_every_store_does_the_same(
    make_durables: list[Callable[[], Store]], written: list[Transaction]
) -> None:
    """After any batches, refused ones among them, the stores give back the same."""
    streams = [StreamRecord(stream_id, stream_id, StreamSettings()) for stream_id in IDS]
    history = (Transaction({0: 0}, streams=streams), *written)
    found = []
    for make in (MemoryStore, *make_durables):
        with closing(make()) as store:
            found.append(([outcome(store, batch) for batch in history], all_of(store)))

    assert found == found[:1] * len(found)
