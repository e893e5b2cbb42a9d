"""Lets the younger of two processes note under the name of a writer, as in Kafka."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from msgspec import Struct

from noted_time.values.times import Int64

FORMER_KEPT = 8

SESSION_LENGTH = 64
LABEL_LENGTH = 128


class FormerSession(NamedTuple):
    """A session that lost its writer's name; `label` is for people and never compared."""

    id: str
    label: str


class HeldName(Struct, frozen=True):
    """The process, if any, that has the name of a writer, and since when (Unix ms)."""

    session: str | None
    label: str
    since: Int64


class Session(Struct, frozen=True):
    """The process that notes under the name of a writer, and the processes that lost the name.

    `since` is in Unix ms, and `lost` ends with the latest loser. A session that lost the name does
    not get it back, so delayed notes are refused:

    >>> held = NO_SESSION.hand_over("b1", "host-a", since=5).hand_over("f7", "host-b", since=9)
    >>> held
    Session(id='f7', label='host-b', since=9, lost=(FormerSession(id='b1', label='host-a'),))
    >>> held.admits("b1", takes_over=True), held.admits("c3", takes_over=True)
    (False, True)

    A session may take the name again from one that it took over before, as after a restore of the
    controller's database:

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
        """Return the session after another one took over; those it `took_over` before lose, too."""
        held = () if self.id is None else (FormerSession(self.id, self.label),)
        lost = (*self.lost, *held)[-FORMER_KEPT:]
        known = {session, *(each.id for each in lost)}
        forgotten = [FormerSession(each, "") for each in took_over if each not in known]
        return Session(session, label, since, (*forgotten, *lost)[-FORMER_KEPT:])

    @property
    def who(self) -> str:
        return self.label or f"session {self.id}"

    @property
    def held(self) -> HeldName:
        return HeldName(self.id, self.label, self.since)


NO_SESSION = Session()
