"""Deletes old marks, departed writers and old records of streams."""

from __future__ import annotations

from controller.aggregation.draft import Draft
from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.stream import StreamState
from controller.store.records import Change, LateRecord, LedgerEntry, LedgerPart
from noted_time.values import DAY_MS

RECORDS_KEPT_MS = 90 * DAY_MS

FORGOTTEN_AT_ONCE = 5000  # in 50 ms


def forget_old_marks(streams: OwnedStreams, draft: Draft) -> None:
    """Delete marks older than their stream's retention, by the service clock.

    The last mark is kept, and marks that an online reader group needs.
    """
    for stream in streams:
        horizon = stream.served_ms(draft.moment) - stream.settings.mark_retention_ms
        for domain in stream.histories:
            forget_before(stream, domain, find_first_kept(stream, domain, horizon), draft)


def find_first_kept(stream: StreamState, domain: str, horizon: int) -> int:
    history = stream.histories[domain]
    appended_served_ms = stream.appended_served_ms[domain]
    old_count = next(
        (number for number, served_ms in enumerate(appended_served_ms) if served_ms >= horizon),
        len(appended_served_ms),
    )
    if not old_count:
        return history.first_seq
    return min(history.first_seq + old_count, history.last_seq, _find_first_needed(stream, domain))


def forget_before(stream: StreamState, domain: str, seq: int, draft: Draft) -> None:
    history = stream.histories[domain]
    through = min(seq, history.last_seq) - 1
    if through >= history.first_seq:
        draft.batch.drop_marks(stream.id, domain, through)


def _find_first_needed(stream: StreamState, domain: str) -> int:
    history = stream.histories[domain]
    windows = (stream.window(group.position, domain) for group in stream.groups.online())
    needed_seqs = (window.lower_seq or history.first_seq for window in windows)
    return min(needed_seqs, default=history.last_seq)


def forget_old_records(streams: OwnedStreams, draft: Draft) -> None:
    """Delete old records, and store the service clock that they go by."""
    draft.keep_clock = True
    for stream in streams.changeable:
        oldest_kept_served_ms = stream.served_ms(draft.moment) - RECORDS_KEPT_MS
        draft.batch.drop_old(Change, stream.id, oldest_kept_served_ms)
        for domain, late_reports in stream.late_reports.items():
            for record_key in late_reports.forget_before(oldest_kept_served_ms):
                draft.batch.drop(LateRecord, stream.id, domain, *record_key)
        _forget_old_entries(stream, oldest_kept_served_ms, draft)


def _forget_old_entries(stream: StreamState, before: int, draft: Draft) -> None:
    """Delete old entries of the ledger, and end the absences that nothing else keeps."""
    draft.batch.drop_old(LedgerEntry, stream.id, before)
    draft.batch.drop_old(LedgerPart, stream.id, before)
    for domain, missing in stream.missing.items():
        lower = stream.histories[domain].last_lower
        expired_writers = missing.forget_before(before, lower, stream.aggregator.writers())
        stream.aggregator.domains[domain].roster.drop_forgotten(expired_writers)
    stream.keep_known_from(draft)


def forget_departed(stream: StreamState, draft: Draft) -> tuple[str, ...]:
    """Delete writers that departed long ago, and the absences that only they had kept."""
    now = stream.served_ms(draft.moment)
    names = stream.aggregator.forget_departed(now, FORGOTTEN_AT_ONCE)
    if names:
        draft.keep_clock = True
        draft.forget(stream, names)
        stream.keep_forgotten(draft)
        _forget_old_entries(stream, now - RECORDS_KEPT_MS, draft)
    return names
