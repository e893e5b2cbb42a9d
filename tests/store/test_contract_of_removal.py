"""What every store forgets on demand, and what it keeps all the same."""

from dataclasses import replace

from controller.store.port import BacklogRecord, LateRecord, ReaderRecord, Store, Transaction
from noted_time import ScaleEvent
from noted_time.values import LateReport
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


def test_forgotten_marks_are_gone_and_the_others_stay(store: Store) -> None:
    """To forget goes up to and with the seq, in one chain only."""
    store.commit(of_one_stream(upto=4))
    store.commit(Transaction({0: 2}, marks=[mark(seq, domain="ship_time") for seq in (1, 2, 3)]))

    store.commit(Transaction({0: 3}, forgotten=[("id-1", "default", 2)]))

    assert (seqs(store), seqs(store, domain="ship_time")) == ([3, 4], [1, 2, 3])


def test_the_last_mark_is_never_forgotten(store: Store) -> None:
    """The next one is compared with it, so the chain continues."""
    store.commit(of_one_stream(upto=3))
    store.commit(Transaction({0: 2}, forgotten=[("id-1", "default", 9)]))

    store.commit(Transaction({0: 3}, marks=[mark(4)]))

    assert seqs(store) == [3, 4]


def test_a_mark_and_its_forgetting_may_share_a_batch(store: Store) -> None:
    """Marks are appended before others are forgotten, so the last one is the new one."""
    store.commit(of_one_stream(upto=2))

    store.commit(Transaction({0: 2}, marks=[mark(3)], forgotten=[("id-1", "default", 2)]))

    assert seqs(store) == [3]


def test_a_dropped_stream_takes_all_it_has_with_it(store: Store) -> None:
    """Nothing of it is left; what belongs to another stays."""
    full = replace(
        of_one_stream(upto=2),
        streams=[stream(), stream("id-2", "ships")],
        scales=[("id-1", 1, ScaleEvent({0: 5}, {}))],
        members=[*records(member()), *records(member(), of="id-2")],
        readers=[ReaderRecord("id-1", "g", "a", online=True, position={})],
        backlogs=[BacklogRecord("id-1", "g")],
        late=[LateRecord("id-1", "default", LateReport("UA", 1, 5, 5, 7, 7))],
        changes=[change(1)],
    )
    store.commit(full)

    store.commit(Transaction({0: 2}, dropped=["id-1"]))

    assert (store.streams(), kept(store), kept(store, "id-2")) == (
        [stream("id-2", "ships")],
        Kept([], [], {"default": []}, []),
        Kept([], [member()], {"default": []}, []),
    )


def test_a_stream_made_again_begins_empty(store: Store) -> None:
    """It has the old name and a new id, even when one batch drops the one and makes the other."""
    store.commit(replace(of_one_stream(upto=2), members=records(member())))
    again = stream("id-2")

    store.commit(Transaction({0: 2}, streams=[again], marks=[mark(1, "id-2")], dropped=["id-1"]))

    assert (store.streams(), seqs(store), seqs(store, "id-2")) == ([again], [], [1])


def test_what_a_batch_writes_to_a_stream_that_it_drops_is_dropped(store: Store) -> None:
    """One transaction may take notes of a stream and its deletion, in this order."""
    store.commit(of_one_stream(upto=2))

    store.commit(
        Transaction({0: 2}, members=records(member()), changes=[change(1)], dropped=["id-1"])
    )

    assert (store.streams(), kept(store)) == ([], Kept([], [], {"default": []}, []))


def test_a_stream_that_is_not_there_can_be_dropped(store: Store) -> None:
    """The caller wants it gone, and it is."""
    store.commit(Transaction({0: 2}, dropped=["id-1"]))

    assert store.clocks()[0] == 2
