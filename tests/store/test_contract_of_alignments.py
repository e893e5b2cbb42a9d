"""What every store keeps of alignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.store.port import AlignmentRecord, Batch
from noted_time.values import MAX_INT64
from noted_time.wing import AlignmentSettings

if TYPE_CHECKING:
    from controller.store.port import Store


def record(name: str, max_drift: int = 1, timeout_ms: int = 2) -> AlignmentRecord:
    """Return an alignment."""
    return AlignmentRecord(name, AlignmentSettings(max_drift, timeout_ms))


def test_alignments_come_back_by_name_as_they_were_last(store: Store) -> None:
    """With the largest numbers that there are."""
    store.commit(Batch(alignments=[record("b"), record("B"), record("a", 5)]))
    largest = record("a", MAX_INT64, MAX_INT64)
    store.commit(Batch(alignments=[largest]))

    assert store.alignments() == [record("B"), largest, record("b")]


def test_a_forgotten_alignment_may_be_made_again_in_the_same_batch(store: Store) -> None:
    """One that is not there is forgotten as well."""
    store.commit(Batch(alignments=[record("a"), record("b")]))
    store.commit(Batch(forgotten_alignments=["a", "b", "c"], alignments=[record("b", 9)]))

    assert store.alignments() == [record("b", 9)]
