"""Periodic work on streams: timeouts, retention and the service clock."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog

from controller.aggregation import retention
from controller.aggregation.draft import Draft, Moment
from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.stream import StreamState
from controller.service.clocks import Clocks
from controller.store.port import Store
from noted_time import NotedTimeError
from noted_time.values import CLOCK_STEP_MS

if TYPE_CHECKING:
    from controller.service.committer import Committer, Work
    from controller.service.telemetry.metrics import Metrics

log = structlog.get_logger()

TICK_S = 0.1
KEEP_CLOCK_EVERY_MS = 5_000
FORGET_EVERY_MS = 60_000
FORGET_RECORDS_EVERY_MS = 60 * 60_000

MOST_LOGGED = 10  # excluded writers of a stream, each on a line of its own


async def maintain(committer: Committer, store: Store, clocks: Clocks, metrics: Metrics) -> None:
    """Submit due work ten times a second, until cancelled."""
    kept_at = forgot_at = records_forgot_at = clocks.read().steady
    is_more = False
    clocks.find_step(clocks.read())
    while True:
        await asyncio.sleep(TICK_S)
        now = clocks.read()
        if abs(step_ms := clocks.find_step(now)) >= CLOCK_STEP_MS:
            log.warning("clock_stepped", by_ms=step_ms)
            metrics.clock_steps.inc()
        committer.wake()
        is_expiring = any(stream.is_silence_over(now) for stream in committer.streams)
        while is_expiring:
            is_expiring = await _submit(committer, exclude_silent_writers)
        if any(_has_silent_readers(stream, now) for stream in committer.streams):
            await _submit(committer, take_silent_readers_offline)
        # in a shared database, each turn stores the clocks
        if store.local and now.steady - kept_at >= KEEP_CLOCK_EVERY_MS:
            kept_at = now.steady
            await _submit(committer, keep_clock)
        if now.steady - forgot_at >= FORGET_EVERY_MS:
            forgot_at = now.steady
            is_more = True
            await _submit(committer, retention.forget_old_marks)
            await _submit(committer, forget_unused_groups)
        if is_more:
            is_more = await _submit(committer, forget_departed)
        if now.steady - records_forgot_at >= FORGET_RECORDS_EVERY_MS:
            records_forgot_at = now.steady
            await _submit(committer, retention.forget_old_records)


async def _submit(committer: Committer, work: Work) -> bool:
    with contextlib.suppress(NotedTimeError):  # the next tick tries again
        return bool(await committer.submit(work))
    return False


def exclude_silent_writers(streams: OwnedStreams, draft: Draft) -> bool:
    """Return whether more may be due."""
    for stream in streams.changeable:
        if not stream.is_silence_over(draft.moment):
            continue
        writers = stream.exclude_silent_writers(draft)
        name = stream.record.name
        if len(writers) > MOST_LOGGED:
            names = writers[:MOST_LOGGED]
            log.warning("writers_excluded", stream=name, count=len(writers), among_them=names)
            continue
        for writer in writers:
            log.warning("writer_excluded", stream=name, writer=writer)
    return any(stream.aggregator.is_expiring for stream in streams)


def take_silent_readers_offline(streams: OwnedStreams, draft: Draft) -> None:
    for stream in streams.changeable:
        if _has_silent_readers(stream, draft.moment):
            now = stream.served_ms(draft.moment)
            timeout_ms = stream.settings.reader_timeout_ms
            for group, reader in stream.groups.time_out(timeout_ms, draft, now=now):
                log.warning(
                    "reader_timed_out", stream=stream.record.name, group=group, reader=reader
                )


def _has_silent_readers(stream: StreamState, moment: Moment) -> bool:
    now = stream.served_ms(moment)
    return stream.groups.is_silence_over(stream.settings.reader_timeout_ms, now)


def forget_unused_groups(streams: OwnedStreams, draft: Draft) -> None:
    for stream in streams.changeable:
        now = stream.served_ms(draft.moment)
        retention_ms = stream.settings.mark_retention_ms
        for group in stream.groups.forget_unused(retention_ms, draft, now=now):
            log.info("reader_group_forgotten", stream=stream.record.name, group=group)


def keep_clock(streams: OwnedStreams, draft: Draft) -> None:
    """Store the service clock if a timeout depends on it.

    Otherwise it is stored once after each report of late rows. Then `changed-since` lists a report
    only once.
    """
    draft.keep_clock = any(
        stream.aggregator.next_timeout() is not None
        or any(stream.groups.online())
        or stream.reported_served_ms >= streams.stored_ms(stream)
        for stream in streams
    )


def forget_departed(streams: OwnedStreams, draft: Draft) -> bool:
    """Return whether more may be due."""
    is_more = False
    for stream in streams.changeable:
        forgotten = retention.forget_departed(stream, draft)
        if forgotten:
            log.info("writers_forgotten", stream=stream.record.name, count=len(forgotten))
        is_more = is_more or len(forgotten) == retention.FORGOTTEN_AT_ONCE
    return is_more
