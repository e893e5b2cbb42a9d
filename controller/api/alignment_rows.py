"""The list of all alignments of all controllers.

Names and settings are those of the database. Each controller reports the members of its own
alignments; if none reports an alignment, its row says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import NamedTuple, Self

import msgspec

from controller.aggregation.owned_streams import bucket_of
from controller.api.access import ALIGNMENTS
from controller.api.answer_shapes import made_of
from controller.api.peers import Peers
from controller.service.access import Grant
from controller.service.controller import Controller
from noted_time.wing import AlignmentNow, AlignmentSettings, MemberNow

PATH = ALIGNMENTS.removesuffix("/")


MEMBERS_LISTED = 100
"""Maximum number of members of an alignment in a list; shown alone, it has all of them."""


@dataclass(frozen=True, kw_only=True)
class AlignmentAnswer(AlignmentSettings):
    """An alignment: no member reads above `bound`, which `held_by` holds there; null: unbounded.

    `drift` is how far the fastest member is ahead of the slowest, of those that are counted.
    """

    name: str
    bound: int | None
    held_by: str | None
    drift: int | None
    members: Mapping[str, MemberNow]

    @classmethod
    def of(
        cls,
        name: str,
        settings: AlignmentSettings,
        now: AlignmentNow,
        may_read: Callable[[str], bool],
        **more: object,
    ) -> Self:
        """Return the answer of an alignment, without groups of streams that may not be read."""
        members = {
            member: each
            if each.group is None or may_read(each.group.stream)
            else replace(each, group=None)
            for member, each in now.members.items()
        }
        about = now._replace(members=members)._asdict()
        return made_of(cls, settings, name=name, **about, **more)


@dataclass(frozen=True, kw_only=True)
class AlignmentRow(AlignmentAnswer):
    """An alignment in a list, with at most 100 members: the slowest that count come first.

    If the controller that has it does not `answer`, only the settings are known.
    """

    answered: bool
    members_counted: int | None
    members_total: int | None

    @classmethod
    def shown(
        cls,
        name: str,
        settings: AlignmentSettings,
        now: AlignmentNow,
        may_read: Callable[[str], bool],
    ) -> Self:
        """Return the row of an alignment."""

        def place(member: tuple[str, MemberNow]) -> tuple[bool, int, str]:
            return not member[1].counted, member[1].time or 0, member[0]

        members = now.members
        first = dict(nsmallest(MEMBERS_LISTED, members.items(), key=place))
        return cls.of(
            name,
            settings,
            now._replace(members=first),
            may_read,
            answered=True,
            members_counted=sum(each.counted for each in members.values()),
            members_total=len(members),
        )

    @classmethod
    def unanswered(cls, name: str, settings: AlignmentSettings) -> Self:
        """Return the row of an alignment of which only the settings are known."""
        unknown = dict.fromkeys(("bound", "held_by", "drift", "members_counted", "members_total"))
        return made_of(cls, settings, name=name, answered=False, members={}, **unknown)


class AlignmentsPage(msgspec.Struct):
    """A page of alignments by name; `next` is the `after` of the next page."""

    alignments: Sequence[AlignmentRow]
    next: str | None


class AlignmentsQuery(NamedTuple):
    """Which alignments to show: the first `limit` in the order of their names, after a name."""

    after: str | None
    limit: int


class OwnRows(msgspec.Struct, frozen=True):
    """What one controller reports: its buckets, and rows of its alignments."""

    buckets: frozenset[int]
    alignments: list[AlignmentRow]


class AlignmentRows:
    """Makes the list, from the database and what each controller reports."""

    def __init__(self, controller: Controller, peers: Peers) -> None:
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
            self.own(question, grant), self._peers.ask(PATH, query, authorization, OwnRows)
        )
        known = {row.name: row for part in (*others, own) for row in part.alignments}
        answered = own.buckets.union(*(part.buckets for part in others))
        buckets = self._controller.ownership.leases.buckets
        rows = [
            known.get(each.name) or AlignmentRow.unanswered(each.name, each.settings)
            for each in records[:limit]
            # one that its own controller does not know was removed meanwhile
            if each.name in known or bucket_of(each.name, buckets) not in answered
        ]
        return AlignmentsPage(rows, records[limit - 1].name if records[limit:] else None)
