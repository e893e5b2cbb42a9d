"""Which process may note under a writer's name: of two, the younger one, as Kafka has it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

FORMER_KEPT = 8
"""Maximum number of sessions remembered that lost a member's name."""

SESSION_LENGTH = 64
LABEL_LENGTH = 128


class FormerSession(NamedTuple):
    """A session that lost its writer's name; `label` is for people, and never compared."""

    id: str
    label: str


@dataclass(frozen=True, slots=True)
class HeldName:
    """The process that has a writer's name, and since when (Unix ms); empty if none has it."""

    session: str | None
    label: str
    since: int


@dataclass(frozen=True, slots=True)
class Session:
    """The process that notes under a writer's name, and those that lost the name, the latest last.

    `since` is when it took over, in Unix ms. No note of a session that lost the name is accepted
    again, even if requests are delayed:

    >>> held = NO_SESSION.hand_over("b1", "host-a", since=5).hand_over("f7", "host-b", since=9)
    >>> held
    Session(id='f7', label='host-b', since=9, lost=(FormerSession(id='b1', label='host-a'),))
    >>> held.admits("b1", takes_over=True), held.admits("c3", takes_over=True)
    (False, True)

    A session that had taken the name from the one that has it takes it over once more: the
    controller's database is that of a backup.

    >>> held.admits("d9", took_over=["f7"]), held.admits("d9", took_over=["c3"])
    (True, False)
    """

    id: str | None = None
    label: str = ""
    since: int = 0
    lost: tuple[FormerSession, ...] = ()

    def admits(
        self, session: str, *, takes_over: bool = False, took_over: Collection[str] | None = None
    ) -> bool:
        """Whether a note of this session may be accepted, and so take over the name."""
        if any(session == each.id for each in self.lost):
            return False
        return self.id is None or takes_over or self.id in (took_over or ())

    def hand_over(
        self, session: str, label: str, since: int, took_over: Collection[str] = ()
    ) -> Session:
        """Return the session after another one took over the name at `since`.

        It names those from which it had taken the name before, which have then lost it as well.
        """
        lost = self._list_lost()
        known = {session, *(each.id for each in lost)}
        forgotten = [FormerSession(each, "") for each in took_over if each not in known]
        return Session(session, label, since, (*forgotten, *lost)[-FORMER_KEPT:])

    @property
    def who(self) -> str:
        """The process that has the name, for people."""
        return self.label or f"session {self.id}"

    @property
    def held(self) -> HeldName:
        """The process that has the name, without those that lost it."""
        return HeldName(self.id, self.label, self.since)

    def _list_lost(self) -> tuple[FormerSession, ...]:
        if self.id is None:
            return self.lost
        return (*self.lost, FormerSession(self.id, self.label))[-FORMER_KEPT:]


NO_SESSION = Session()
