"""Who is let in: asked once for every request, before anything else looks into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controller.api import audit
from controller.api.audit import Attempt
from controller.api.origin import SAFE, is_foreign
from controller.api.problems import problem
from controller.service.access import EVERYTHING, ForeignWriter, Grant
from controller.service.keyring import Holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.responses import Response

    from controller.api.rights import Need
    from controller.service.keyring import Keyring
    from noted_time.note import NoteLike

ANYBODY = Holder("", EVERYTHING)
NOBODY = Holder("", Grant())


class Asked(NamedTuple):
    """A request as it came: its headers have small names, `remote` is the address it came from."""

    method: str
    path: str
    headers: Sequence[tuple[bytes, bytes]]
    remote: str


class Call(NamedTuple):
    """A request for notes that was let in: to which stream, by whom and from where."""

    stream: str
    holder: Holder
    remote: str


class NotLetIn(Exception):
    """A request is refused as a whole; `problem` says why."""

    def __init__(self, problem: Response) -> None:
        super().__init__(problem.status_code)
        self.problem = problem


class Gate:
    """Lets calls in: any while no token is asked for, else those whose token has the right.

    `insecure` is for a controller that its operator opened to a network without tokens; else one
    without them is called by the names of the loopback alone.
    """

    def __init__(
        self, keyring: Keyring | None = None, *, require: bool = False, insecure: bool = False
    ) -> None:
        """Ask for tokens once there are any, with `require` from the first."""
        self.keyring = keyring
        self._require = require
        self._insecure = insecure

    def asks(self) -> bool:
        """Whether a call needs a token."""
        return self._require or (self.keyring is not None and self.keyring.any_ever())

    def admit(self, need: Need, asked: Asked) -> Holder:
        """Return who calls; raises `NotLetIn`. Every request comes through here."""
        authorization = origin = None
        host = b""
        for name, value in asked.headers:
            if name == b"authorization":
                # with two of them, nobody knows which one counts
                authorization = value if authorization is None else b""
            elif name == b"origin":
                origin = value if origin is None else b""
            elif name == b"host":
                host = value
        if origin is not None:
            self._check_origin(origin, host, need, asked)
        if need.right == "nothing" or not self.asks():
            return ANYBODY
        return self._holder(authorization or b"", need, asked)

    def _check_origin(self, origin: bytes, host: bytes, need: Need, asked: Asked) -> None:
        only_here = not (self.asks() or self._insecure)
        if asked.method not in SAFE and is_foreign(origin, host, loopback_only=only_here):
            audit.refused(attempt(need, asked), "foreign_origin")
            sentence = "the call comes from a web page of another origin"
            raise NotLetIn(problem(403, "foreign_origin", sentence))

    def _holder(self, authorization: bytes, need: Need, asked: Asked) -> Holder:
        """Refuse missing, malformed, unknown, expired, revoked tokens alike, to tell nothing."""
        holder = self.keyring.holder(authorization) if self.keyring is not None else None
        if holder is None:
            audit.refused(attempt(need, asked), "unauthenticated")
            sentence = "send a token that counts: Authorization: Bearer nt_…"
            raise NotLetIn(problem(401, "unauthenticated", sentence))
        if not need.is_met_by(holder.grant):
            audit.refused(attempt(need, asked), "forbidden", holder.token_id)
            sentence = f"this token has not the right to {need}"
            raise NotLetIn(problem(403, "forbidden", sentence, right=need.right))
        return holder


def attempt(need: Need, asked: Asked) -> Attempt:
    """Return what the log says of a call."""
    return Attempt(f"{asked.method} {asked.path}", need.stream, asked.remote)


def check_writers(call: Call, notes: Iterable[NoteLike]) -> None:
    """Raise `ForeignWriter` at the first note of a writer that the caller may not note for."""
    grant = call.holder.grant
    if not grant.is_bound():
        return
    foreign = grant.first_foreign(note.writer for note in notes)
    if foreign is not None:
        tried = Attempt(f"note for {foreign}", call.stream, call.remote)
        audit.refused(tried, "forbidden", call.holder.token_id)
        raise ForeignWriter(foreign)
