"""The list of alignments, whoever has them.

Names and settings are those of the database. Each controller tells of the members of its own
alignments; where none tells of an alignment, its row says so.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from controller.aggregation.owned_streams import bucket_of
from controller.api.access import ALIGNMENTS
from controller.api.answer_shapes import AlignmentRow, AlignmentsPage

if TYPE_CHECKING:
    from controller.api.peers import Peers
    from controller.service.access import Grant
    from controller.service.controller import Controller

PATH = ALIGNMENTS.removesuffix("/")


class AlignmentsQuery(NamedTuple):
    """Which alignments to show: the first `limit` in the order of their names, after a name."""

    after: str | None
    limit: int


class OwnRows(msgspec.Struct, frozen=True):
    """What one controller tells: the buckets that it has, and rows of its alignments."""

    buckets: frozenset[int]
    alignments: list[AlignmentRow]


_parts = msgspec.json.Decoder(OwnRows)


class AlignmentRows:
    """Puts the list together."""

    def __init__(self, controller: Controller, peers: Peers) -> None:
        """Begin."""
        self._controller = controller
        self._peers = peers

    async def own(self, question: AlignmentsQuery, grant: Grant) -> OwnRows:
        """Return the rows of this controller's alignments."""
        found = await self._controller.alignments.own(*question, grant.may_align)
        rows = [AlignmentRow.shown(name, *each, grant.may_read) for name, each in found.now.items()]
        return OwnRows(found.buckets, rows)

    async def page(
        self, question: AlignmentsQuery, grant: Grant, authorization: str | None
    ) -> AlignmentsPage:
        """Return the rows of the alignments, and the name after which to continue."""
        after, limit = question
        stored = await self._controller.alignments.stored()
        shown = (each for each in stored if grant.may_align(each.name))
        records = [each for each in shown if after is None or each.name > after]
        query = {"limit": limit} if after is None else {"after": after, "limit": limit}
        own, others = await asyncio.gather(
            self.own(question, grant),
            self._peers.ask(PATH, query, authorization, _parts.decode),
        )
        told = {row.name: row for part in (*others, own) for row in part.alignments}
        answered = own.buckets.union(*(part.buckets for part in others))
        buckets = self._controller.ownership.leases.buckets
        rows = [
            told.get(each.name) or AlignmentRow.unanswered(each.name, each.settings)
            for each in records[:limit]
            # one that its own controller does not know was removed meanwhile
            if each.name in told or bucket_of(each.name, buckets) not in answered
        ]
        return AlignmentsPage(rows, records[limit - 1].name if records[limit:] else None)
