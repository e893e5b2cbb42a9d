"""Batches of any size, whatever characters and numbers they have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controller.store.port import Batch
from noted_time import Conflict
from noted_time.values import MAX_INT64, MIN_INT64
from tests.support.stored import mark, member, of_one_stream, records, seqs

if TYPE_CHECKING:
    from controller.store.port import Store

TEXTS = ("tab\t", "line\nend", 'quo"te', "back\\slash", "\\N", "✈")


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

    store.commit(Batch({0: 2}, members=records(*later), marks=[mark(1)]))

    assert first == sorted(members, key=lambda each: each.writer)
    by_name = sorted(later, key=lambda each: each.writer)
    assert (list(store.members("id-1")), seqs(store)) == (by_name, [1])


def test_of_many_members_with_one_of_no_stream_none_is_written(store: Store) -> None:
    """The batch is a conflict as a whole, and the next one is taken."""
    store.commit(of_one_stream())
    members = records(*(member(f"writer-{n}") for n in range(500)))
    with pytest.raises(Conflict):
        store.commit(Batch({0: 2}, members=[*members, *records(member(), of="id-9")]))

    store.commit(Batch({0: 3}, members=records(member())))

    assert (store.clocks()[0], list(store.members("id-1"))) == (3, [member()])
