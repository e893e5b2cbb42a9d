"""Decides which process may note under the name of a writer.

The younger of two processes may, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

FORMER_KEPT = 8

SESSION_LENGTH = 64
LABEL_LENGTH = 128


class FormerSession(NamedTuple):
    """A session that lost its writer's name; `label` is for people and never compared."""

    id: str
    label: str


@dataclass(frozen=True, slots=True)
class HeldName:
    """The process, if any, that has the name of a writer, and since when (Unix ms)."""

    session: str | None
    label: str
    since: int


@dataclass(frozen=True, slots=True)
class Session:
    """The process that notes under the name of a writer, and the processes that lost the name.

    `since` is in Unix ms, and `lost` ends with the latest loser. No note of a session that lost the
    name is accepted again, even a delayed one:

    >>> held = NO_SESSION.hand_over("b1", "host-a", since=5).hand_over("f7", "host-b", since=9)
    >>> held
    Session(id='f7', label='host-b', since=9, lost=(FormerSession(id='b1', label='host-a'),))
    >>> held.admits("b1", takes_over=True), held.admits("c3", takes_over=True)
    (False, True)

    A session that took the name from the present one before may take it over again, as after a
    restore of the controller's database:

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
        if any(session == each.id for each in self.lost):
            return False
        return self.id is None or takes_over or self.id in (took_over or ())

    def hand_over(
        self, session: str, label: str, since: int, took_over: Collection[str] = ()
    ) -> Session:
        """Return the session after another one took over the name at `since`.

        Sessions that the new one `took_over` before lose the name, too.
        """
        lost = self._list_lost()
        known = {session, *(each.id for each in lost)}
        forgotten = [FormerSession(each, "") for each in took_over if each not in known]
        return Session(session, label, since, (*forgotten, *lost)[-FORMER_KEPT:])

    @property
    def who(self) -> str:
        return self.label or f"session {self.id}"

    @property
    def held(self) -> HeldName:
        return HeldName(self.id, self.label, self.since)

    def _list_lost(self) -> tuple[FormerSession, ...]:
        if self.id is None:
            return self.lost
        return (*self.lost, FormerSession(self.id, self.label))[-FORMER_KEPT:]


NO_SESSION = Session()
