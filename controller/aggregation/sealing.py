"""The end of a stream in memory, and what of it must be written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controller.store.port import AppendedMark

if TYPE_CHECKING:
    from controller.aggregation.draft import Draft
    from controller.aggregation.stream import StreamState
    from noted_time import Seal, SealRequest


def end(stream: StreamState, request: SealRequest, by: str | None, draft: Draft) -> Seal:
    """Seal the stream; `by` is who decided it.

    The last marks are in the same commit as the notes that they follow from. Raises what
    `Aggregator.seal` raises, and changes nothing then, nor where the stream was sealed so before.
    """
    aggregator, moment = stream.aggregator, draft.moment
    if stream.record.seal is not None:
        return aggregator.seal(request, now=0, written_at=0)
    now = stream.begin(draft)
    before = {domain: aggregator.last_mark(domain) for domain in stream.settings.domains}
    seal = aggregator.seal(request, now=now, written_at=moment.wall)
    for domain, last in before.items():
        mark = aggregator.last_mark(domain)
        if mark is not None and mark != last:
            draft.batch.marks.append(AppendedMark(stream.id, domain, mark, now))
            stream.record_absences(domain, last, mark, draft, by)
    stream.record = replace(stream.record, seal=seal)
    draft.batch.streams.append(stream.record)
    draft.touched(stream).update(aggregator.writers())
    return seal
