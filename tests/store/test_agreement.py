"""Laws of stores over random batches: each returns the committed records, and all agree."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec import inspect
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
    LedgerPart,
    ReaderRecord,
    Record,
    StoredMember,
    StoredMembership,
    StoredScale,
    StreamRecord,
)
from noted_time import BacklogPolicy
from noted_time.rules import MemberRecord
from noted_time.values import (
    HOUR_MS,
    MAX_INT64,
    MIN_INT64,
    Conflict,
    LateReport,
    Mark,
    StreamCut,
    StreamSettings,
)
from tests.support.properties import costly
from tests.support.stored import Kept, read_kept, records
from tools.trials.memory_store import MemoryStore

DOMAINS = ("default", "ship_time")
IDS = ("id-1", "id-2", "id-3")

natural = st.integers(0, MAX_INT64)
ids = st.sampled_from(IDS)
domains = st.sampled_from(DOMAINS)
names = st.sampled_from(("A", "a", "b.1", "Z_-"))
keys = st.sampled_from(("A", "a"))
"""Few keys of records, so that one is often replaced or dropped."""

positions = st.dictionaries(st.one_of(st.integers(0, 5), natural), natural, max_size=4)


def draw_integers(
    min_value: int | None = None, max_value: int | None = None
) -> st.SearchStrategy[int]:
    return st.integers(
        MIN_INT64 if min_value is None else min_value, MAX_INT64 if max_value is None else max_value
    )


STRATEGIES: dict[type, st.SearchStrategy[Any]] = {
    inspect.NoneType: st.none(),
    inspect.BoolType: st.booleans(),
    inspect.StrType: names,
    inspect.AnyType: st.none() | draw_integers() | names | st.lists(names),
    inspect.CustomType: st.builds(StreamCut, positions),
}
"""By the kind of a field's type, if that says all. Texts are names, which are few."""


def draw_type(kind: inspect.Type) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.Metadata():
            choices = (kind.extra_json_schema or {}).get("enum")
            return st.sampled_from(choices) if choices else draw_type(kind.type)
        case inspect.IntType():
            return draw_integers(kind.ge, kind.le)
        case inspect.UnionType():
            return st.one_of([draw_type(alternative) for alternative in kind.types])
        case inspect.VarTupleType():
            elements = draw_type(kind.item_type)
            min_size = kind.min_length or 0
            return st.lists(elements, min_size=min_size, max_size=2, unique_by=repr).map(tuple)
        case inspect.DictType():
            return st.dictionaries(draw_type(kind.key_type), draw_type(kind.value_type), max_size=2)
        case inspect.StructType() | inspect.NamedTupleType():
            return build(kind.cls)
        case _:
            return STRATEGIES[type(kind)]


def build(kind: type, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return instances with these fields, and any values of the types of the others."""
    info: Any = inspect.type_info(kind)
    strategies = dict(fields)
    for field in info.fields:
        if field.name not in fields:
            strategies[field.name] = draw_type(field.type)
    return st.builds(kind, **strategies)


members = build(MemberRecord, writer=keys, position=positions)
# Few seqs, so that a random mark is often the next one of its chain.
marks = build(Mark, seq=st.integers(1, 3))
appended = build(AppendedMark, stream_id=ids, domain=domains, mark=marks)
readers = build(ReaderRecord, stream_id=ids, group=keys, reader=keys, position=positions)
policies = st.just(BacklogPolicy()) | build(BacklogPolicy, reader_lag_ms=draw_integers(1))
backlogs = build(BacklogRecord, stream_id=ids, group=keys, policy=st.none() | policies)
entries = build(LedgerEntry, stream_id=ids, domain=domains)
few = st.integers(1, 3)
parts = build(LedgerPart, stream_id=ids, domain=domains, seq=few, number=few)
small = st.sampled_from(range(-2 * HOUR_MS, 3 * HOUR_MS, HOUR_MS)) | draw_integers()
reports = build(LateReport, writer=keys, min_time=st.none() | small, max_time=small)


def make_late(stream_id: str, domain: str, report: LateReport) -> LateRecord:
    return LateRecord(stream_id, domain, *report.place, report)


def make_late_key(record: LateRecord) -> tuple[Any, ...]:
    return LateRecord, *record.key


late = st.builds(make_late, ids, domains, reports)
reasons = st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))
changes = build(Change, stream_id=ids, comment=reasons, number=st.just(0))
streams = build(StreamRecord, id=ids)
stored_members = st.builds(StoredMember, ids, members)
stored_memberships = build(StoredMembership, stream_id=ids, domain=domains, writer=keys)
scales = build(StoredScale, stream_id=ids, seq=st.integers(1, 4))
old_kinds: st.SearchStrategy[type[Record]] = st.sampled_from((LedgerEntry, LedgerPart, Change))
written_records = (
    *(streams, scales, stored_members, stored_memberships, appended),
    *(readers, backlogs, changes, late, entries, parts),
)
dropped = st.one_of(
    st.tuples(st.just(StoredMember), ids, keys),
    st.tuples(st.just(StoredMembership), ids, domains, keys),
    st.tuples(st.just(ReaderRecord), ids, keys, keys),
    st.tuples(st.just(BacklogRecord), ids, keys),
    late.map(make_late_key),
)


@st.composite
def batches(draw: st.DrawFn) -> ChangeSet:
    """Draw puts before and after drops of the same keys."""
    records = draw(st.lists(st.one_of(*written_records), max_size=12))
    batch = ChangeSet(BucketClock(0, draw(natural)), *records)
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
    of_stream = records.map(move_to_first_stream)
    return st.lists(of_stream, max_size=3, unique_by=find_key).map(sort_by_key)


def move_to_first_stream(record: Any) -> Any:  # noqa: ANN401 - of any kind
    return replace(record, stream_id=IDS[0])


def find_key(record: Any) -> Any:  # noqa: ANN401 - of any kind
    return record.key


def sort_by_key(records: list[Any]) -> list[Any]:
    return sorted(records, key=find_key)


@st.composite
def whole_streams(draw: st.DrawFn) -> Kept:
    """Draw all records of the first stream, each list ordered by key."""
    members_by_name = {member.writer: member for member in draw(st.lists(members))}
    return Kept(
        scales=draw(sort_unique(scales)),
        members=[members_by_name[writer] for writer in sorted(members_by_name)],
        marks={domain: draw(chains(domain)) for domain in DOMAINS},
        readers=draw(sort_unique(readers)),
        backlogs=draw(sort_unique(backlogs)),
        ledger=draw(sort_unique(entries)),
        late=draw(sort_unique(late)),
    )


def chains(domain: str) -> st.SearchStrategy[list[AppendedMark]]:
    """Return the chains of marks of the first stream that begin at seq 1."""
    return st.lists(appended, max_size=5).map(
        lambda marks: [
            replace(
                appended_mark,
                stream_id=IDS[0],
                domain=domain,
                mark=replace(appended_mark.mark, seq=seq),
            )
            for seq, appended_mark in enumerate(marks, 1)
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
    kept_records = {stream_id: read_kept(store, stream_id, DOMAINS) for stream_id in IDS}
    return store.clocks()[0], store.streams(), kept_records


@costly(4)
@given(record=build(StreamRecord, id=st.just(IDS[0])), written=whole_streams())
def test_load_returns_what_was_committed(
    make_store: Callable[[], Store], record: StreamRecord, written: Kept
) -> None:
    """Records may have any values and be put in any order."""
    batch = ChangeSet(record, *written.scales, *records(*reversed(written.members)))
    for chain in written.marks.values():
        batch.put(*chain)
    lists: list[list[Any]] = [written.readers, written.backlogs, written.ledger, written.late]
    for records_of_kind in lists:
        batch.put(*reversed(records_of_kind))
    with closing(make_store()) as store:
        store.commit(batch)

        assert (store.streams(), read_kept(store, record.id, DOMAINS)) == ([record], written)


@costly(4)
@given(written=st.lists(batches(), max_size=8))
def test_all_stores_agree(
    make_durables: list[Callable[[], Store]], written: list[ChangeSet]
) -> None:
    """Refused batches are among them."""
    streams = [StreamRecord(stream_id, stream_id, StreamSettings()) for stream_id in IDS]
    history = (ChangeSet(*streams), *written)
    outcomes = []
    for make in (MemoryStore, *make_durables):
        with closing(make()) as store:
            outcomes.append(([try_commit(store, batch) for batch in history], read_all(store)))

    assert outcomes == outcomes[:1] * len(outcomes)
