"""What every store keeps of the changes that were made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controller.store.port import Batch, Change
from tests.support.stored import change, of_one_stream, stream

if TYPE_CHECKING:
    from controller.store.port import Store


def numbers(store: Store, stream_id: str = "id-1") -> list[int]:
    """Return the numbers of the changes that the store keeps of a stream, the newest first."""
    return [number for number, _ in store.changes(stream_id, before=None, limit=1000)]


def test_changes_come_back_as_they_were_with_the_newest_first(store: Store) -> None:
    """Each with all that it tells, or nothing where it tells nothing."""
    settings = {"domains": ["a"], "max_time_ahead_ms": None}
    made = [change(1), Change("id-1", 2, "settings", None, settings, {"domains": []}), change(3)]

    store.commit(replace(of_one_stream(), changes=made))

    found = store.changes("id-1", before=None, limit=9)
    assert found == [(3, made[2]), (2, made[1]), (1, made[0])]


def test_numbers_rise_by_one_in_each_stream(store: Store) -> None:
    """Over the batches, and whatever other streams have."""
    store.commit(replace(of_one_stream(), changes=[change(1)]))
    batch = Batch({0: 1}, streams=[stream("id-2", "ships")])
    batch.changes = [change(2), change(2, "id-2"), change(2), change(2, "id-2")]
    store.commit(batch)

    assert (numbers(store), numbers(store, "id-2")) == ([3, 2, 1], [2, 1])


def test_changes_come_a_page_at_a_time(store: Store) -> None:
    """Below a number, and no more than are asked for."""
    store.commit(replace(of_one_stream(), changes=[change(at) for at in range(5)]))

    found = store.changes("id-1", before=4, limit=2)

    assert found == [(3, change(2)), (2, change(1))]


def test_old_changes_go_but_for_the_last(store: Store) -> None:
    """So the numbers of the next ones go on; those of other streams stay."""
    streams = [stream(), stream("id-2", "ships")]
    changes = [*map(change, (1, 2, 3)), change(1, "id-2"), change(2, "id-2")]
    store.commit(Batch({0: 1}, streams=streams, changes=changes))

    store.commit(Batch({0: 2}, forgotten_changes=[("id-1", 3)]))
    some = numbers(store)
    store.commit(Batch({0: 3}, forgotten_changes=[("id-1", 99)], changes=[change(5)]))
    store.commit(Batch({0: 3}, forgotten_changes=[("id-1", 99)]))
    store.commit(Batch({0: 4}, changes=[change(6)]))

    assert (some, numbers(store), numbers(store, "id-2")) == ([3], [5, 4], [2, 1])


def test_a_change_and_the_forgetting_of_others_may_share_a_batch(store: Store) -> None:
    """Changes are added before others are forgotten, so the last one is the new one."""
    store.commit(replace(of_one_stream(), changes=[change(1)]))

    store.commit(Batch({0: 2}, changes=[change(2)], forgotten_changes=[("id-1", 99)]))

    assert numbers(store) == [2]
