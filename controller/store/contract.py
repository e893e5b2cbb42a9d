"""What every store checks in a batch before it writes any of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from noted_time.errors import MarkConflict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.store.port import AppendedMark, Batch


def without_dropped(batch: Batch) -> Batch:
    """Return the batch without what it writes to the streams that it drops.

    Ids are never used again, so dropping first is the same as dropping last, and it frees the
    name of a stream for another one that the batch makes.
    """
    gone = set(batch.dropped)
    if not gone:
        return batch
    return replace(
        batch,
        streams=[record for record in batch.streams if record.id not in gone],
        scales=[scale for scale in batch.scales if scale[0] not in gone],
        forgotten_members=[each for each in batch.forgotten_members if each[0] not in gone],
        members=[member for member in batch.members if member[0] not in gone],
        marks=[mark for mark in batch.marks if mark.stream_id not in gone],
        readers=[reader for reader in batch.readers if reader.stream_id not in gone],
        forgotten=[forgotten for forgotten in batch.forgotten if forgotten[0] not in gone],
    )


def check_marks(last: Mapping[tuple[str, str], int], marks: Iterable[AppendedMark]) -> None:
    """Raise `MarkConflict` at the first mark whose predecessor is not the last one there.

    `last` has the seq of the last stored mark of each (stream, key), 0 or nothing where there is
    none.
    """
    seqs = dict(last)
    for appended in marks:
        chain, seq = (appended.stream_id, appended.key), appended.mark.seq
        if seq != seqs.get(chain, 0) + 1:
            raise MarkConflict(*chain, seq)
        seqs[chain] = seq
