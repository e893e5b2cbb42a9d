"""How many members of a stream are in each state, counted as they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noted_time.member import Member

STATES = ("live", "idle", "finished", "excluded")


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
        self.members = dict.fromkeys(STATES, 0)

    def enter(self, member: Member) -> None:
        """Count a member that joined or has another state now."""
        self.members[_state(member)] += 1

    def leave(self, member: Member) -> None:
        """Count a member no more that goes, or is about to have another state."""
        self.members[_state(member)] -= 1


def _state(member: Member) -> str:
    return "excluded" if member.excluded else member.state
