"""Alignments as their callers see them: durable settings, and members that are not."""

from __future__ import annotations

import asyncio

import structlog

from controller.aggregation.draft import Draft
from controller.aggregation.owned_streams import NotOwner, OwnedStreams
from controller.aggregation.shares import NOBODY, Asker
from controller.service.clocks import Clocks
from controller.service.committer import Committer
from controller.service.permissions import ForeignMember
from controller.store.port import AlignmentRecord, Reading
from noted_time.progress import Alignment, AlignmentNow, AlignmentSettings, GroupOfStream
from noted_time.values import LimitReached, State, UnknownAlignment, checked_name

log = structlog.get_logger()

MOST_ALIGNMENTS = 1000
"""Maximum number of alignments of one controller."""


class AlignmentService:
    """The alignments of one controller."""

    def __init__(self, committer: Committer, clocks: Clocks, reading: Reading) -> None:
        self._committer = committer
        self._clocks = clocks
        self._reading = reading

    async def put(self, name: str, settings: AlignmentSettings) -> bool:
        """Create the alignment or replace its settings; returns whether it is new.

        Raises `InvalidName`, `LimitReached`, `NotOwner` and `StoreUnavailable`.
        """
        record = AlignmentRecord(checked_name("alignment", name), settings)

        def put(streams: OwnedStreams, draft: Draft) -> bool:
            _check_owned(streams, name)
            found = streams.alignments.get(name)
            if found is not None:
                found.settings = settings
            elif len(streams.alignments) >= MOST_ALIGNMENTS:
                raise LimitReached("alignments", MOST_ALIGNMENTS, "remove one")
            else:
                streams.alignments[name] = Alignment(settings)
            draft.batch.alignments.append(record)
            return found is None

        is_new = await self._committer.submit(put)
        log.info("alignment_created" if is_new else "alignment_updated", alignment=name)
        return is_new

    async def drop(self, name: str) -> None:
        """Remove the alignment; raises `UnknownAlignment`, `NotOwner` and `StoreUnavailable`."""

        def drop(streams: OwnedStreams, draft: Draft) -> None:
            _find(streams, name)
            del streams.alignments[name]
            batch = draft.batch
            batch.alignments = [record for record in batch.alignments if record.name != name]
            batch.forgotten_alignments.append(name)

        await self._committer.submit(drop)
        log.info("alignment_removed", alignment=name)

    def report(  # noqa: PLR0913 - what is reported, and by which caller
        self,
        name: str,
        member: str,
        time: int | None,
        state: State,
        *,
        group: GroupOfStream | None = None,
        asker: Asker = NOBODY,
    ) -> None:
        """Record a member's report, in memory; raises as `now` and `Alignment.report`.

        Raises `ForeignMember` if the member is another token's.
        """
        checked_name("member", member)
        now, alignment = self._clocks.read().service, self._find(name)
        if alignment.owner(member, now) not in {"", asker.token} and not asker.is_admin:
            raise ForeignMember(member)
        alignment.report(member, time, state, now=now, group=group, by=asker.token)

    def now(self, name: str) -> tuple[AlignmentSettings, AlignmentNow]:
        """Return the settings, and the bound with the members.

        Raises `UnknownAlignment`, `NotOwner` and `StoreUnavailable`.
        """
        found = self._find(name)
        return found.settings, found.at(self._clocks.read().service)

    async def stored(self) -> list[AlignmentRecord]:
        """Return the alignments of all controllers, by name; raises `StoreUnavailable`."""
        self._committer.check()
        return await asyncio.to_thread(self._reading.alignments)

    def _find(self, name: str) -> Alignment:
        self._committer.check()
        return _find(self._committer.streams, name)


def _find(streams: OwnedStreams, name: str) -> Alignment:
    _check_owned(streams, name)
    try:
        return streams.alignments[name]
    except KeyError:
        raise UnknownAlignment(name) from None


def _check_owned(streams: OwnedStreams, name: str) -> None:
    if name not in streams:
        raise NotOwner(name)
