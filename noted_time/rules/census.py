"""How many members of a stream are in each state, counted as they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from noted_time.rules.member import Standing

if TYPE_CHECKING:
    from noted_time.rules.member import Member


class Census:
    """The members of one stream by state, so that a scrape need not look at all of them.

    >>> from noted_time import Aggregator, Note, StreamSettings
    >>> stream = Aggregator(StreamSettings())
    >>> for state in ("live", "idle"):
    ...     _ = stream.note(Note("UA", state=state), now=0)
    >>> stream.census.members
    {'live': 0, 'idle': 1, 'finished': 0, 'excluded': 0}
    """

    __slots__ = ("members",)

    def __init__(self) -> None:
        """Begin without members."""
        self.members: dict[str, int] = dict.fromkeys(get_args(Standing), 0)

    def count(self, member: Member) -> None:
        """Count a member that joined, or may have changed."""
        standing: Standing = "excluded" if member.exclusion else member.state
        if standing != member.counted_as:
            self.leave(member)
            self.members[standing] += 1
            member.counted_as = standing

    def leave(self, member: Member) -> None:
        """Count a member no more."""
        if member.counted_as is not None:
            self.members[member.counted_as] -= 1
