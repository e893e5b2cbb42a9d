"""Calls of writers and readers to several replicas, any of them perhaps away."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import httpx

from noted_time.client import Json
from tests.trials.actors.history import History, now
from tests.trials.laws import ANSWERS


async def rest(stopping: asyncio.Event, seconds: float) -> None:
    """Wait that long, or until asked to stop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()


async def wait_until_true(holds: Callable[[], bool], patience_s: float) -> bool:
    """Wait until it holds; returns whether it did in time."""
    until = now() + patience_s
    while not holds():
        if now() > until:
            return False
        await asyncio.sleep(0.05)
    return True


ANSWER_S = 1.5
"""How long a caller waits for an answer before it asks another replica."""

PATIENCE_S = 300.0
"""Longer than any fault lasts: no answer for that long is a fault of the service."""

ROAMS = 0.05
"""How often a caller leaves a replica that answers well, so that each replica has callers."""

DOCUMENTED = (502, 503, 504)
"""The 5xx statuses that may be answered; 500 is an unexpected error."""


class Try(NamedTuple):
    """A call without an answer: when it failed, at which replica, and how."""

    at: float
    url: str
    what: str


class NoAnswerError(Exception):
    """No replica answered for `PATIENCE_S`."""


class Caller:
    """One client: it stays with a replica that answers, and turns to the next otherwise.

    The same call is made until it is answered. An answer that the API excludes is noted in
    the history, and the call repeated. `begun` is when the last try was.
    """

    def __init__(
        self, http: httpx.AsyncClient, urls: Sequence[str], history: History, chance: random.Random
    ) -> None:
        self._http = http
        self.urls = urls
        self._history = history
        self.chance = chance
        self._at = chance.randrange(len(urls))
        self.tries: list[Try] = []
        self.begun = now()

    @property
    def url(self) -> str:
        """The replica for the next call."""
        return self.urls[self._at]

    async def call(
        self, method: str, path: str, *, wait_s: float = 0.0, **arguments: object
    ) -> Json:
        """Return the body of the first successful answer; `tries` has the failures before it.

        If `json` is a function, it makes the body of each try. Raises `NoAnswerError`.
        """
        if self.chance.random() < ROAMS:
            self._at = self.chance.randrange(len(self.urls))
        until = now() + PATIENCE_S
        self.tries = []
        while (begun := now()) < until:
            self.begun = begun
            body = await self._try(method, path, wait_s + ANSWER_S, arguments)
            if body is not None:
                return body
            self._at = (self._at + 1) % len(self.urls)
            await asyncio.sleep(0.1 + 0.2 * self.chance.random())
        raise NoAnswerError(f"{method} {path}: no answer for {PATIENCE_S:.0f} s")

    async def _try(self, method: str, path: str, wait_s: float, arguments: Any) -> Json | None:  # noqa: ANN401 - whatever httpx takes
        """Ask the current replica once; `None` if it gives no usable answer."""
        url = f"{self.url}{path}"
        body = arguments.get("json")
        if callable(body):
            arguments = arguments | {"json": body()}
        try:
            answer = await self._http.request(method, url, timeout=wait_s, **arguments)
        except httpx.TransportError as error:
            self._note_failure(type(error).__name__)
            return None
        if answer.is_success or _code(answer) == "notes_refused":
            json_answer: Json = answer.json()
            return json_answer
        if answer.status_code != httpx.codes.CONFLICT and answer.status_code not in DOCUMENTED:
            account = f"{method} {answer.status_code} {answer.text[:300]}"
            self._history.broke(ANSWERS, path, account)
        self._note_failure(f"{answer.status_code} {_code(answer)}")
        return None

    def _note_failure(self, reason: str) -> None:
        self._history.counts[f"no answer: {reason}"] += 1
        self.tries.append(Try(now(), self.url, reason))


def _code(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["code"])
    except (ValueError, KeyError):
        return ""
