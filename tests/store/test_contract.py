"""The contract of the port, on every store."""

from operator import attrgetter

import pytest

from controller.store.port import Store, StoreUnavailable
from controller.store.records import (
    BacklogRecord,
    BucketClock,
    ChangeSet,
    ReaderRecord,
    Record,
    StoredMember,
    StoredScale,
    StreamRecord,
)
from noted_time.values import MAX_INT64, MIN_INT64, Conflict, MarkConflict, ScaleEvent
from tests.support.stored import (
    Kept,
    build_changes,
    change,
    commit,
    mark,
    member,
    read_kept,
    read_seqs,
    records,
    stream,
)

TEXTS = ("tab\t", "line\nend", 'quo"te', "back\\slash", "\\N", "✈")


def test_streams_are_ordered_by_name(store: Store) -> None:
    """Names are ordered by code point."""
    commit(store, stream("1", "b"), stream("2", "B"), stream("3", "a"))

    assert [record.name for record in store.streams()] == store.names() == ["B", "a", "b"]


def test_summaries_have_records_last_marks_and_scales(store: Store) -> None:
    events = [ScaleEvent({0: 500}, {2: (0,)}), ScaleEvent({2: 600}, {3: (2,)})]
    marks = [mark(1), mark(2), mark(1, domain="ship_time"), mark(1, "id-3"), mark(2, "id-3")]
    streams = [stream(), stream("id-2", "trains"), stream("id-3", "buses"), stream("id-4", "ships")]
    scales = [StoredScale("id-3", seq, event) for seq, event in enumerate(events)]
    commit(store, *streams, *scales, *marks)

    summaries = store.summaries(["trains", "nothing", "flights", "buses"])

    last = {"default": mark(2).mark, "ship_time": mark(1, domain="ship_time").mark}
    facts = [(summary.record, summary.last_marks, [*summary.scales]) for summary in summaries]
    assert facts == [
        (streams[2], {"default": mark(2, "id-3").mark}, events),
        (streams[0], last, []),
        (streams[1], {}, []),
    ]


def test_drop_of_member_keeps_others(store: Store) -> None:
    """A drop of an unknown member does nothing."""
    flight_members = records(member("DL"), member("UA"), of="id-1")
    ship_members = records(member("DL"), member("UA"), of="id-2")
    commit(store, stream(), stream("id-2", "ships"), *flight_members, *ship_members)

    batch = ChangeSet()
    for key in (("id-1", "DL"), ("id-2", "nobody"), ("id-9", "UA")):
        batch.drop(StoredMember, *key)
    store.commit(batch)

    assert [member.writer for member in store.members("id-1")] == ["UA"]
    assert [member.writer for member in store.members("id-2")] == ["DL", "UA"]


@pytest.mark.parametrize("wrong", [1, 2, 4])
def test_mark_without_its_predecessor_is_conflict(store: Store, wrong: int) -> None:
    """The conflict names a seq that is taken or leaves a gap."""
    store.commit(build_changes(upto=2))

    with pytest.raises(MarkConflict) as conflict:
        commit(store, mark(wrong))

    conflict_value = conflict.value
    assert (conflict_value.stream, conflict_value.domain, conflict_value.seq) == (
        "id-1",
        "default",
        wrong,
    )


def test_batch_with_conflict_writes_nothing(store: Store) -> None:
    """This includes records before and after the mark, and of other streams."""
    store.commit(build_changes(*records(member()), upto=2))

    def read_all() -> tuple[int, list[StreamRecord], Kept, Kept]:
        return store.clocks()[0], store.streams(), read_kept(store), read_kept(store, "id-2")

    before = read_all()
    batch = ChangeSet(
        BucketClock(0, 9),
        stream("id-2", "ships"),
        StoredScale("id-1", 1, ScaleEvent({0: 5}, {1: (0,)})),
        *records(member(), of="id-2"),
        *(mark(3), mark(1, "id-2"), mark(5)),
        ReaderRecord("id-1", "g", "a", online=True, position={}),
        change(1),
    )
    batch.drop_marks("id-1", "default", 1)
    batch.drop(StoredMember, "id-1", "UA")

    with pytest.raises(MarkConflict):
        store.commit(batch)

    assert read_all() == before


@pytest.mark.parametrize(
    "record",
    [
        StoredMember("id-9", member()),
        StoredScale("id-9", 1, ScaleEvent({0: 5}, {})),
        mark(1, "id-9"),
        ReaderRecord("id-9", "g", "a", online=True, position={}),
        BacklogRecord("id-9", "g"),
        change(1, "id-9"),
        stream("id-9", "flights"),
        StoredScale("id-1", 1, ScaleEvent({0: 5}, {})),
    ],
    ids=["member", "scale", "mark", "reader", "backlog", "change", "name", "scale-again"],
)
def test_batch_that_contradicts_store_is_conflict(store: Store, record: Record) -> None:
    """The batch has an unknown stream, or a name or scale event that exists."""
    scale = StoredScale("id-1", 1, ScaleEvent({9: 9}, {}))
    store.commit(build_changes(scale, served_ms=4))

    with pytest.raises(Conflict):
        commit(store, record)

    assert (store.clocks()[0], store.streams()) == (4, [stream()])
    assert (read_kept(store), read_kept(store, "id-9")) == (Kept([scale]), Kept())


def test_controllers_of_database_share_secret(store: Store) -> None:
    """The secret is made with the tables."""
    secret = store.reading.replicas_secret()

    assert (store.replicas_secret(), len(secret) >= 32) == (secret, True)


def test_iterator_reads_snapshot(store: Store) -> None:
    """A commit between two reads of the iterator succeeds, and the iterator does not see it."""
    store.commit(build_changes(*records(member("a"), member("c"))))
    members = store.members("id-1")
    first_members = [next(members)]

    commit(store, *records(member("b"), member("c", time=9)))

    assert [*first_members, *members] == [member("a"), member("c")]


def test_closed_store_is_unavailable(store: Store) -> None:
    store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        commit(store)
    with pytest.raises(StoreUnavailable, match="closed"):
        store.ping()


@pytest.mark.parametrize("count", [10, 2500])
def test_batch_of_any_size_is_loaded(store: Store, count: int) -> None:
    """Members may be new or known."""
    ends = {0: MAX_INT64}, {"default": MIN_INT64, "a.b": MAX_INT64}
    odd = [member(text) for text in TEXTS]
    odd.append(member("ends")._replace(excluded="timed_out", position=ends[0], times=ends[1]))
    odd.append(
        member("late")._replace(noted_served_ms=MAX_INT64, changed_served_ms=0, max_times=ends[1])
    )
    members = [*odd, *(member(f"writer-{number:05}") for number in range(count - len(odd)))]
    store.commit(build_changes(*records(*members)))
    first = list(store.members("id-1"))
    later_members = [member._replace(state="finished", position={9: 1}) for member in members]

    commit(store, *records(*later_members), mark(1))

    assert first == sorted(members, key=attrgetter("writer"))
    by_name = sorted(later_members, key=attrgetter("writer"))
    assert (list(store.members("id-1")), read_seqs(store)) == (by_name, [1])
