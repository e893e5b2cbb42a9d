"""How many members of a stream are in each state, counted as their records are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from noted_time import MemberRecord

STATES = ("live", "idle", "left", "left_out")


class Census:
    """The members of one stream by state, as far as it is durable.

    It is told of every record that is written, so that a scrape need not look at all members.
    `left_out` counts how often a writer was left out since the stream was read.

    >>> from noted_time import Aggregator, Note, StreamSettings
    >>> stream, census = Aggregator(StreamSettings()), Census()
    >>> for state in ("live", "idle"):
    ...     _ = stream.note(Note("UA", state=state), now=0)
    ...     census.take(stream.record("UA"))
    >>> census.members
    {'live': 0, 'idle': 1, 'left': 0, 'left_out': 0}
    """

    __slots__ = ("_states", "left_out", "members")

    def __init__(self) -> None:
        """Begin without members."""
        self.members = dict.fromkeys(STATES, 0)
        self.left_out = 0
        self._states: dict[str, str] = {}

    def loading(self, records: Iterable[MemberRecord]) -> Iterator[MemberRecord]:
        """Pass on what the store knows, counting it."""
        for record in records:
            self._enter(record.writer, _state(record))
            yield record

    def take(self, record: MemberRecord) -> None:
        """Take in a record that is durable now; seldom is one of a new state."""
        state = _state(record)
        if self._states.get(record.writer) != state:
            self._enter(record.writer, state)
            self.left_out += record.left_out

    def forget(self, writer: str) -> None:
        """Count a writer no more whose record is removed."""
        state = self._states.pop(writer, None)
        if state is not None:
            self.members[state] -= 1

    def _enter(self, writer: str, state: str) -> None:
        before = self._states.get(writer)
        if before is not None:
            self.members[before] -= 1
        self.members[state] += 1
        self._states[writer] = state


def _state(record: MemberRecord) -> str:
    return "left_out" if record.left_out else record.state
