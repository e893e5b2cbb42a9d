"""What is done to all streams of a controller as time passes; work for its committer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from controller.aggregation.draft import Draft
    from controller.aggregation.world import World

log = structlog.get_logger()


def leave_out_the_silent(world: World, draft: Draft) -> None:
    """Leave out the writers whose timeout is over."""
    for stream in world:
        for writer in stream.leave_out_the_silent(draft):
            log.warning("left_out", stream=stream.record.name, writer=writer)


def keep_clock(world: World, draft: Draft) -> None:
    """Have the service clock stored where somebody's silence is measured on it."""
    draft.keep_clock = any(stream.aggregator.next_timeout() is not None for stream in world)


def forget_old_marks(world: World, draft: Draft) -> None:
    """Drop the marks that were kept for long enough."""
    for stream in world:
        stream.forget_old_marks(draft)


def forget_departed(world: World, draft: Draft) -> None:
    """Forget the writers that are gone for long enough."""
    for stream in world:
        forgotten = stream.forget_departed(draft)
        if forgotten:
            log.info("writers_forgotten", stream=stream.record.name, count=len(forgotten))
