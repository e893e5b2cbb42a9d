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


class CurrentSession(Struct, frozen=True):
    """The process, if any, that has the name of a writer. It began at `began_at` (Unix ms)."""

    session: str | None
    label: str
    began_at: Int64


class Session(Struct, frozen=True):
    """The process that notes under the name of a writer, and the processes that lost the name.

    `began_at` is in Unix ms, and `lost` ends with the latest loser. A session that lost the name
    does not get it back, so delayed notes are refused:

    >>> session = NO_SESSION.hand_over("b1", "host-a", began_at=5)
    >>> session = session.hand_over("f7", "host-b", began_at=9)
    >>> session
    Session(id='f7', label='host-b', began_at=9, lost=(FormerSession(id='b1', label='host-a'),))
    >>> session.admits("b1", takes_over=True), session.admits("c3", takes_over=True)
    (False, True)

    A session may take the name again from one that it took over before, as after a restore of the
    controller's database:

    >>> session.admits("d9", took_over=["f7"]), session.admits("d9", took_over=["c3"])
    (True, False)
    """

    id: str | None = None
    label: str = ""
    began_at: int = 0
    lost: tuple[FormerSession, ...] = ()

    def admits(
        self, session: str, *, takes_over: bool = False, took_over: Collection[str] | None = None
    ) -> bool:
        if any(session == former_session.id for former_session in self.lost):
            return False
        return self.id is None or takes_over or self.id in (took_over or ())

    def hand_over(
        self, session: str, label: str, began_at: int, took_over: Collection[str] = ()
    ) -> Session:
        """Return the session after another one took over; those it `took_over` before lose, too."""
        lost_sessions = [*self.lost]
        if self.id is not None:
            lost_sessions.append(FormerSession(self.id, self.label))
        lost_sessions = lost_sessions[-FORMER_KEPT:]
        known_ids = {session, *(former_session.id for former_session in lost_sessions)}
        forgotten_sessions = [
            FormerSession(session_id, "") for session_id in took_over if session_id not in known_ids
        ]
        kept_sessions = (*forgotten_sessions, *lost_sessions)[-FORMER_KEPT:]
        return Session(session, label, began_at, kept_sessions)

    @property
    def who(self) -> str:
        return self.label or f"session {self.id}"

    @property
    def current(self) -> CurrentSession:
        return CurrentSession(self.id, self.label, self.began_at)


NO_SESSION = Session()
