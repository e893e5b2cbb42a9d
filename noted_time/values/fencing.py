"""Which process may note under a writer's name: of two, the younger one, as Kafka has it (S15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

FORMER_KEPT = 8
"""How many sessions a member remembers that lost its name."""

SESSION_LENGTH = 64
LABEL_LENGTH = 128


class Former(NamedTuple):
    """A session that lost its writer's name; `label` is for people, and never compared."""

    id: str
    label: str


@dataclass(frozen=True, slots=True)
class HeldName:
    """The process that has a writer's name, and since when (Unix ms); none has it without one."""

    session: str | None
    label: str
    since: int


@dataclass(frozen=True, slots=True)
class Session:
    """The process that notes under a writer's name, and those that lost it, the latest last.

    `since` is when it took over, in Unix ms. A session that lost the name has no note
    accepted again, whatever requests are delayed:

    >>> held = NO_SESSION.taken_by("b1", "host-a", since=5).taken_by("f7", "host-b", since=9)
    >>> held
    Session(id='f7', label='host-b', since=9, lost=(Former(id='b1', label='host-a'),))
    >>> held.admits("b1", takes_over=True), held.admits("c3", takes_over=True)
    (False, True)
    """

    id: str | None = None
    label: str = ""
    since: int = 0
    lost: tuple[Former, ...] = ()

    def admits(self, session: str, *, takes_over: bool) -> bool:
        """Whether a note of another session may be accepted, and so take the name over."""
        if any(session == each.id for each in self.lost):
            return False
        return self.id is None or takes_over

    def taken_by(self, session: str, label: str, since: int) -> Session:
        """Return that another session has the name since then."""
        return Session(session, label, since, self._lost())

    def fenced(self, since: int) -> Session:
        """Return that no process has the name since then: this one lost it."""
        return Session(None, "", since, self._lost())

    @property
    def held(self) -> HeldName:
        """Who has the name, without those that lost it."""
        return HeldName(self.id, self.label, self.since)

    def _lost(self) -> tuple[Former, ...]:
        if self.id is None:
            return self.lost
        return (*self.lost, Former(self.id, self.label))[-FORMER_KEPT:]


NO_SESSION = Session()
