"""How a client asks a controller, without the network: requests out, replies in.

What a client does is written once, as generators without I/O: each yields an effect (a request to
make, a pause), and is resumed with what came of it. A thread performs effects by blocking calls, a
task by awaiting them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from noted_time.client.controllers import OWNER
from noted_time.client.problems import SUCCESS, error_of
from noted_time.values import UnexpectedAnswer, Unreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping

    from noted_time.client.controllers import Controllers

Effect = TypeVar("Effect")
Outcome = TypeVar("Outcome")
Result = TypeVar("Result")

SHOWN = 200
"""So many bytes of a page that is no answer are repeated."""

MOST_BYTES = 32 * 1024 * 1024
"""Maximum size of an answer that a client takes; a controller's longest pages have a few MiB."""

UNPACKED = {"accept-encoding": "identity"}
"""The header by which clients ask for answers that are no larger than what travels."""


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request; `options` are those of the HTTP client that makes it."""

    method: str
    url: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def body(self, stream: str) -> dict[str, Any]:
        """Return the JSON object that a controller answered.

        Raises what its problem document stands for, and `UnexpectedAnswer` for everything that is
        not the controller's: a proxy's page, a redirect.

        >>> Reply(200, {}, b'{"results": []}').body("flights")
        {'results': []}
        >>> Reply(302, {"location": "http://login/"}, b"<html>").body("flights")
        Traceback (most recent call last):
            ...
        noted_time.UnexpectedAnswer: no answer of a controller: status 302, no type to ...
        """
        body = _object(self.content)
        if self.status in SUCCESS and body is not None:
            return body
        if self.status in SUCCESS:
            raise self.unexpected()
        after = self.headers.get("retry-after")
        error = error_of(self.status, body or {}, stream=stream, retry_after=after)
        raise self.unexpected() if isinstance(error, UnexpectedAnswer) else error

    def unexpected(self, why: str = "") -> UnexpectedAnswer:
        """Return the error for an answer that is no controller's, with what was seen."""
        kind = self.headers.get("content-type", "no type")
        to = self.headers.get("location")
        where = f" to {to[:SHOWN]}" if to else ""
        seen = f"{kind}{where}: {self.content[:SHOWN].decode('utf-8', 'replace')!r}"
        facts = f"status {self.status}, {why and why + ': '}{seen}"
        return UnexpectedAnswer(
            f"no answer of a controller: {facts}; check the URL and its proxies"
        )


class Incoming:
    """An answer whose body is coming, as it travels: neither packed nor over `MOST_BYTES`.

    >>> incoming = Incoming(200, {})
    >>> incoming.add(b"{}")
    >>> incoming.reply()
    Reply(status=200, headers={}, content=b'{}')
    """

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin without a body; raises `UnexpectedAnswer` where that would have to be unpacked."""
        self._status, self._headers, self._parts, self._size = status, headers, list[bytes](), 0
        encoding = headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise self.reply().unexpected(f"the answer is packed by {encoding[:SHOWN]!r}")

    def add(self, part: bytes) -> None:
        """Take more of the body; raises `UnexpectedAnswer` where it is too large."""
        self._size += len(part)
        if self._size > MOST_BYTES:
            self._parts = self._parts[:1]
            raise self.reply().unexpected(f"the answer is over {MOST_BYTES} bytes")
        self._parts.append(part)

    def reply(self) -> Reply:
        """Return the answer with what came of its body."""
        return Reply(self._status, self._headers, b"".join(self._parts))


def no_answer(request: Request, error: Exception) -> Unreachable:
    """Return the error for a request that failed on its way."""
    return Unreachable(f"no answer from {request.url}: {str(error) or type(error).__name__}")


def ask_in_turn(
    controllers: Controllers,
    request_to: Callable[[str], Request],
    read: Callable[[Reply], Result],
) -> Generator[Request, Reply, Result]:
    """Ask each controller once, until one answers; returns what `read` makes of its reply.

    A reply may name the owner of the stream, who is asked from then on. Raises the last
    `Unreachable` where nobody answers, and whatever else `read` raises.
    """
    away = Unreachable("nobody was asked")
    for _ in controllers.urls:
        url = controllers.current
        try:
            reply = yield request_to(url)
            controllers.prefer(reply.headers.get(OWNER))
            return read(reply)
        except Unreachable as error:
            away = error
            controllers.pass_over(url)
    raise away


def run(
    routine: Generator[Effect, Outcome, Result], perform: Callable[[Effect], Outcome]
) -> Result:
    """Return what the routine returns; what `perform` raises is raised in the routine.

    >>> def greeting():
    ...     name = yield "who is there?"
    ...     return f"hello, {name}"
    >>> run(greeting(), {"who is there?": "reader"}.get)
    'hello, reader'
    """
    try:
        effect = next(routine)
        while True:
            try:
                outcome = perform(effect)
            except Exception as error:  # noqa: BLE001 - the routine's to handle
                effect = routine.throw(error)
            else:
                effect = routine.send(outcome)
    except StopIteration as end:
        result: Result = end.value
        return result


async def run_async(
    routine: Generator[Effect, Outcome, Result], perform: Callable[[Effect], Awaitable[Outcome]]
) -> Result:
    """Do as `run`, awaiting each effect."""
    try:
        effect = next(routine)
        while True:
            try:
                outcome = await perform(effect)
            except Exception as error:  # noqa: BLE001 - the routine's to handle
                effect = routine.throw(error)
            else:
                effect = routine.send(outcome)
    except StopIteration as end:
        result: Result = end.value
        return result


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
