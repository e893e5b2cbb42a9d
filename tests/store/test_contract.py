"""The contract of the port, on every store."""

from dataclasses import replace

import pytest
from msgspec import structs

from controller.store.port import BacklogRecord, ReaderRecord, Store, StoreUnavailable, Transaction
from noted_time import Conflict, ScaleEvent, Seal, SealRequest
from noted_time.values import MAX_INT64, MIN_INT64, MarkConflict
from tests.support.stored import (
    Kept,
    change,
    kept,
    mark,
    member,
    of_one_stream,
    records,
    seqs,
    stream,
)

TEXTS = ("tab\t", "line\nend", 'quo"te', "back\\slash", "\\N", "✈")


def test_a_new_store_is_empty_at_service_time_zero(store: Store) -> None:
    """Nothing was committed, so nothing has to be given back."""
    found = (store.clocks()[0], store.streams(), kept(store))

    assert found == (0, [], Kept([], [], {"default": []}, []))


def test_streams_come_in_the_order_of_their_names(store: Store) -> None:
    """The order is that of code points, whatever the order of making."""
    store.commit(
        Transaction({0: 1}, streams=[stream("1", "b"), stream("2", "B"), stream("3", "a")])
    )

    assert [record.name for record in store.streams()] == store.names() == ["B", "a", "b"]


def test_many_streams_are_summarised_together(store: Store) -> None:
    """Of each its record, the last mark of each domain that has one, and all scale events."""
    events = [ScaleEvent({0: 500}, {2: (0,)}), ScaleEvent({2: 600}, {3: (2,)})]
    marks = [mark(1), mark(2), mark(1, domain="ship_time"), mark(1, "id-3"), mark(2, "id-3")]
    streams = [stream(), stream("id-2", "trains"), stream("id-3", "buses"), stream("id-4", "ships")]
    scales = [("id-3", seq, event) for seq, event in enumerate(events)]
    store.commit(Transaction({0: 1}, streams=streams, scales=scales, marks=marks))

    found = store.summaries(["trains", "nothing", "flights", "buses"])

    last = {"default": mark(2).mark, "ship_time": mark(1, domain="ship_time").mark}
    assert [(each.record, each.last_marks, [*each.scales]) for each in found] == [
        (streams[2], {"default": mark(2, "id-3").mark}, events),
        (streams[0], last, []),
        (streams[1], {}, []),
    ]


def test_a_stream_written_again_has_its_new_settings_and_all_it_had(store: Store) -> None:
    """Changing settings deletes nothing: what belongs to the stream stays."""
    store.commit(replace(of_one_stream(upto=2), members=records(member())))
    changed = replace(stream(), settings=structs.replace(stream().settings, writer_timeout_ms=99))

    store.commit(Transaction({0: 2}, streams=[changed]))

    assert (store.streams(), seqs(store), list(store.members("id-1"))) == (
        [changed],
        [1, 2],
        [member()],
    )


def test_a_sealed_stream_comes_back_with_its_seal_and_last_mark(store: Store) -> None:
    """How it was sealed, what was asked for, and that the mark is final; also in summaries."""
    asked = SealRequest({0: 25}, {"ship_time": 99})
    sealed = replace(stream(), seal=Seal(asked, {0: 25, 3: 0}, 1234, ("UA",)))
    last = mark(2)
    last = replace(last, mark=structs.replace(last.mark, final=True))
    store.commit(of_one_stream(upto=1))

    store.commit(Transaction({0: 2}, streams=[sealed], marks=[last]))

    (summary,) = store.summaries(["flights"])
    assert (store.streams(), list(store.marks("id-1", "default"))) == ([sealed], [mark(1), last])
    assert (summary.record, summary.last_marks) == (sealed, {"default": last.mark})


def test_a_forgotten_member_is_gone_and_the_others_stay(store: Store) -> None:
    """Writers are forgotten by stream and name; an unknown one counts as forgotten."""
    both = [each for i in ("id-1", "id-2") for each in records(member("DL"), member("UA"), of=i)]
    store.commit(Transaction({0: 1}, streams=[stream(), stream("id-2", "ships")], members=both))

    store.commit(
        Transaction({0: 2}, forgotten_members=[("id-1", "DL"), ("id-2", "nobody"), ("id-9", "UA")])
    )

    assert [[each.writer for each in store.members(i)] for i in ("id-1", "id-2")] == [
        ["UA"],
        ["DL", "UA"],
    ]


def test_a_member_may_come_back_in_the_batch_that_forgets_it(store: Store) -> None:
    """Members are forgotten before others are written."""
    store.commit(replace(of_one_stream(), members=records(member(time=9))))

    store.commit(
        Transaction({0: 2}, forgotten_members=[("id-1", "UA")], members=records(member(time=5)))
    )

    assert list(store.members("id-1")) == [member(time=5)]


@pytest.mark.parametrize("wrong", [1, 2, 4])
def test_a_mark_without_its_predecessor_is_a_conflict(store: Store, wrong: int) -> None:
    """Whether its seq is taken or leaves a gap, the conflict names it."""
    store.commit(of_one_stream(upto=2))

    with pytest.raises(MarkConflict) as conflict:
        store.commit(Transaction({0: 2}, marks=[mark(wrong)]))

    assert (conflict.value.stream, conflict.value.domain, conflict.value.seq) == (
        "id-1",
        "default",
        wrong,
    )


def test_of_a_batch_with_a_conflict_nothing_is_written(store: Store) -> None:
    """Neither what precedes the mark nor what follows it, of this stream or another."""
    store.commit(replace(of_one_stream(upto=2), members=records(member())))
    before = (store.clocks()[0], store.streams(), kept(store), kept(store, "id-2"))
    doomed = Transaction(
        {0: 9},
        streams=[stream("id-2", "ships")],
        scales=[("id-1", 1, ScaleEvent({0: 5}, {1: (0,)}))],
        members=[*records(member(time=6)), *records(member(), of="id-2")],
        marks=[mark(3), mark(1, "id-2"), mark(3)],
        readers=[ReaderRecord("id-1", "g", "a", online=True, position={})],
        changes=[change(1)],
        forgotten=[("id-1", "default", 1)],
        forgotten_members=[("id-1", "UA")],
    )

    with pytest.raises(MarkConflict):
        store.commit(doomed)

    assert (store.clocks()[0], store.streams(), kept(store), kept(store, "id-2")) == before


@pytest.mark.parametrize(
    "batch",
    [
        Transaction({0: 1}, members=records(member(), of="id-9")),
        Transaction({0: 1}, scales=[("id-9", 1, ScaleEvent({0: 5}, {}))]),
        Transaction({0: 1}, marks=[mark(1, "id-9")]),
        Transaction({0: 1}, readers=[ReaderRecord("id-9", "g", "a", online=True, position={})]),
        Transaction({0: 1}, backlogs=[BacklogRecord("id-9", "g")]),
        Transaction({0: 1}, changes=[change(1, "id-9")]),
        Transaction({0: 1}, streams=[stream("id-9", "flights")]),
        Transaction({0: 1}, scales=[("id-1", 1, ScaleEvent({0: 5}, {}))]),
    ],
    ids=["member", "scale", "mark", "reader", "backlog", "change", "name", "scale-again"],
)
def test_a_batch_that_contradicts_what_is_stored_is_a_conflict(
    store: Store, batch: Transaction
) -> None:
    """It names an unknown stream, or a name or scale event that exists; nothing is written."""
    store.commit(replace(of_one_stream(4), scales=[("id-1", 1, ScaleEvent({9: 9}, {}))]))

    with pytest.raises(Conflict):
        store.commit(batch)

    assert (store.clocks()[0], store.streams(), kept(store), kept(store, "id-9")) == (
        4,
        [stream()],
        Kept([ScaleEvent({9: 9}, {})], [], {"default": []}, []),
        Kept([], [], {"default": []}, []),
    )


def test_the_controllers_of_a_database_share_a_secret(store: Store) -> None:
    """Whoever reads it again, reads the same: it was made with the tables."""
    found = store.reading.replicas_secret()

    assert (store.replicas_secret(), len(found) >= 32) == (found, True)


def test_an_iterator_gives_what_was_there_when_it_began(store: Store) -> None:
    """A commit between two members that are read neither fails nor is seen."""
    store.commit(replace(of_one_stream(), members=records(*(member(w) for w in ("a", "c")))))
    members = store.members("id-1")
    found = [next(members)]

    store.commit(Transaction({0: 2}, members=records(member("b"), member("c", time=9))))

    assert [*found, *members] == [member("a"), member("c")]


def test_a_closed_store_is_unavailable(store: Store) -> None:
    """Neither a commit nor a question is answered after `close`."""
    store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        store.commit(Transaction({0: 1}))
    with pytest.raises(StoreUnavailable, match="closed"):
        store.ping()


@pytest.mark.parametrize("count", [10, 2500])
def test_a_batch_of_any_size_is_given_back(store: Store, count: int) -> None:
    """New members and ones that are there."""
    ends = {0: MAX_INT64}, {"default": MIN_INT64, "a.b": MAX_INT64}
    odd = [member(text) for text in TEXTS]
    odd.append(member("ends")._replace(excluded="timed_out", position=ends[0], times=ends[1]))
    odd.append(member("late")._replace(noted_at=MAX_INT64, since=0, max_times=ends[1]))
    members = [*odd, *(member(f"writer-{n:05}") for n in range(count - len(odd)))]
    store.commit(replace(of_one_stream(), members=records(*members)))
    first = list(store.members("id-1"))
    later = [each._replace(state="finished", position={9: 1}) for each in members]

    store.commit(Transaction({0: 2}, members=records(*later), marks=[mark(1)]))

    assert first == sorted(members, key=lambda each: each.writer)
    by_name = sorted(later, key=lambda each: each.writer)
    assert (list(store.members("id-1")), seqs(store)) == (by_name, [1])
