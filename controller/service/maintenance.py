"""What is done to all streams of a controller as time passes: time-outs, retention, the clock."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog

from controller.store.port import StoreUnavailable
from noted_time import NotedTimeError

if TYPE_CHECKING:
    from controller.aggregation.draft import Draft
    from controller.aggregation.owned_streams import OwnedStreams
    from controller.service.clocks import Clocks
    from controller.service.committer import Committer, Work
    from controller.store.port import Store

log = structlog.get_logger()

TICK_S = 0.1
KEEP_CLOCK_EVERY_MS = 5_000
FORGET_EVERY_MS = 60_000


async def maintain(committer: Committer, store: Store, clocks: Clocks) -> None:
    """Have the committer do what is due, ten times a second, until cancelled."""
    kept_at = forgot_at = clocks.read().steady
    while True:
        await asyncio.sleep(TICK_S)
        now = clocks.read()
        committer.wake()
        if any(stream.is_silence_over(now) for stream in committer.streams):
            await _try(committer, leave_out_the_silent)
        # in a shared database the clocks are kept at every turn
        if store.local and now.steady - kept_at >= KEEP_CLOCK_EVERY_MS:
            kept_at = now.steady
            await _try(committer, keep_clock)
        if now.steady - forgot_at >= FORGET_EVERY_MS:
            forgot_at = now.steady
            await _try(committer, forget_old_marks)
            await _try(committer, forget_departed)


async def _try(committer: Committer, work: Work) -> None:
    with contextlib.suppress(StoreUnavailable, NotedTimeError):  # the next tick tries again
        await committer.submit(work)


def leave_out_the_silent(streams: OwnedStreams, draft: Draft) -> None:
    """Leave out the writers whose timeout is over."""
    for stream in streams:
        for writer in stream.leave_out_the_silent(draft):
            log.warning("left_out", stream=stream.record.name, writer=writer)


def keep_clock(streams: OwnedStreams, draft: Draft) -> None:
    """Have the service clock stored where somebody's silence is measured on it."""
    draft.keep_clock = any(stream.aggregator.next_timeout() is not None for stream in streams)


def forget_old_marks(streams: OwnedStreams, draft: Draft) -> None:
    """Drop the marks that are older than their stream keeps them."""
    for stream in streams:
        stream.forget_old_marks(draft)


def forget_departed(streams: OwnedStreams, draft: Draft) -> None:
    """Forget the writers that left longer ago than their stream remembers them."""
    for stream in streams:
        forgotten = stream.forget_departed(draft)
        if forgotten:
            log.info("writers_forgotten", stream=stream.record.name, count=len(forgotten))
