"""What every store keeps of the backlogs of reader groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controller.store.port import BacklogRecord, Batch, ReaderRecord
from noted_time import BacklogPolicy
from tests.support.stored import of_one_stream, stream

if TYPE_CHECKING:
    from controller.store.port import Store

POLICY = BacklogPolicy(watermark_lag_ms=1000, behind_ms=None, rule="sticky")


def test_backlogs_come_back_as_they_were_by_group(store: Store) -> None:
    """With a policy or without, looked at or not yet; those of another stream are its own."""
    written = [
        BacklogRecord("id-1", "b"),
        BacklogRecord("id-1", "a", POLICY, backlog=True, since=5, caught_up=("default", "ship")),
    ]
    streams = [stream(), stream("id-2", "ships")]
    store.commit(Batch({0: 1}, streams=streams, backlogs=written))

    assert (store.backlogs("id-1"), store.backlogs("id-2")) == (written[::-1], [])


def test_a_backlog_written_again_replaces_what_was_there(store: Store) -> None:
    """The last one of a batch counts, and one that is forgotten in it first is written."""
    record = BacklogRecord("id-1", "g", POLICY)
    store.commit(replace(of_one_stream(), backlogs=[record]))
    changed = [replace(record, since=3), replace(record, since=4, policy=None)]
    store.commit(Batch({0: 2}, backlogs=changed, forgotten_backlogs=[("id-1", "g")]))

    assert store.backlogs("id-1") == changed[1:]


def test_a_forgotten_backlog_is_gone(store: Store) -> None:
    """And so may be one that never was."""
    records = [BacklogRecord("id-1", group) for group in "ab"]
    store.commit(replace(of_one_stream(), backlogs=records))
    store.commit(Batch({0: 2}, forgotten_backlogs=[("id-1", "a"), ("id-1", "c")]))

    assert store.backlogs("id-1") == records[1:]


@pytest.mark.parametrize("said", [None, True, False])
def test_what_a_reader_says_of_its_backlog_comes_back(store: Store, *, said: bool | None) -> None:
    """That it says nothing is something else than that it has none."""
    reader = ReaderRecord("id-1", "g", "a", online=True, position={}, backlog=said)
    store.commit(replace(of_one_stream(), readers=[reader]))

    assert [each.backlog for each in store.readers("id-1")] == [said]
