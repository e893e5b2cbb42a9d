"""The backlogs of reader groups as callers see them: what is found anew is durable when told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from controller.aggregation import by_hand
from controller.aggregation.by_hand import NOBODYS
from controller.aggregation.group_backlog import GroupBacklog, keep, look
from noted_time.values import checked_name

if TYPE_CHECKING:
    from controller.aggregation.by_hand import Order
    from controller.aggregation.draft import Draft
    from controller.aggregation.owned_streams import OwnedStreams
    from controller.service.clocks import Clocks
    from controller.service.committer import Committer
    from controller.service.limits import Limits
    from noted_time import BacklogPolicy

log = structlog.get_logger()


class Backlogs:
    """Looks at the backlogs of groups, and sets their policies."""

    def __init__(self, committer: Committer, clocks: Clocks, limits: Limits) -> None:
        """Ask the streams of `committer`."""
        self._committer = committer
        self._clocks = clocks
        self._limits = limits

    async def of(self, name: str, group: str) -> GroupBacklog:
        """Return whether a group has a backlog now; raises `UnknownReader`.

        A flag that is another than before, and a group that caught up for good, are stored before
        they are told, so a restart takes neither back.
        """
        self._committer.check()
        stream = self._committer.streams.stream(name)
        found = look(stream, group, self._clocks.read())
        if found.record == stream.groups.backlog(group):
            return found

        def kept(streams: OwnedStreams, draft: Draft) -> GroupBacklog:
            return keep(streams.stream(name), group, draft)

        now: GroupBacklog = await self._committer.submit(kept)
        return now

    async def set_policy(
        self, name: str, group: str, policy: BacklogPolicy | None, order: Order = NOBODYS
    ) -> None:
        """Decide when a group has a backlog, `None`: when its readers say so.

        Raises `LimitReached` where the group is new and there are as many as may be.
        """
        checked_name("reader group", group)
        limits = self._limits.readers

        def changed(streams: OwnedStreams, draft: Draft) -> None:
            stream = streams.stream(name)
            by_hand.set_backlog_policy(stream, draft, order, group, policy, limits=limits)

        await self._committer.submit(changed)
        log.info("backlog_policy_set", stream=name, group=group)
