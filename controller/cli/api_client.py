"""The commands' HTTP calls: one request each, errors in our own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noted_time import UnexpectedAnswer
from noted_time.client import Question, ask_in_turn, stream_path
from noted_time.client.transport import Transport
from noted_time.values import checked_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from noted_time.client import Reply

__all__ = ["ApiClient", "Json", "alignment_path", "stream_path", "writer_path"]

Json = dict[str, Any]
MOST_ROWS = 1000
"""Maximum number of rows of a page."""


def writer_path(stream: str, writer: str, *below: str) -> str:
    """Return the path of a writer of a stream, likewise."""
    return stream_path(stream, "writers", checked_name("writer", writer), *below)


def alignment_path(alignment: str) -> str:
    """Return the path of an alignment, likewise."""
    return f"/v1/alignments/{checked_name('alignment', alignment)}"


class ApiClient:
    """Calls the controllers of one database, as long as one answers.

    Every call raises `Unreachable` if there was no answer, `Rejected` or `Conflict` if it was a
    refusal.
    """

    def __init__(self, url: str, token: str | None) -> None:
        """Connect with the first call; raises `Rejected` if `url` or `token` cannot be one."""
        self._transport = Transport(url, token=token)

    @property
    def url(self) -> str:
        """The first of the controllers."""
        return self._transport.controllers.urls[0]

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        wait_s: float = 0.0,
    ) -> Json:
        """Return the answer's body; `wait_s` is how long the controller is asked to wait."""
        return self.answer(method, path, query=query, body=body, wait_s=wait_s)[1]

    def answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        wait_s: float = 0.0,
    ) -> tuple[int, Json]:
        """Return status and body of the answer; what is `None` in a query is left out."""
        given = {name: value for name, value in (query or {}).items() if value not in (None, [])}

        question = Question(method, path, given, body, round(wait_s * 1000))

        def read(reply: Reply) -> tuple[int, Json]:
            try:
                return reply.status, reply.body(question.stream)
            except UnexpectedAnswer as other:
                url = self._transport.controllers.current
                sentence = f"{url} is not a noted-time controller (HTTP {reply.status})"
                raise UnexpectedAnswer(sentence) from other

        controllers = self._transport.controllers
        return self._transport.run(ask_in_turn(controllers, lambda: question, read))

    def rows(
        self, path: str, name: str, *, cursor: str, limit: int, query: Mapping[str, Any]
    ) -> Json:
        """Return up to `limit` rows of a paged list, with the `next` to continue from."""
        found: list[Any] = []
        asked = dict(query)
        while True:
            asked["limit"] = min(limit - len(found), MOST_ROWS)
            page = self.ask("GET", path, query=asked)
            found += page[name]
            if page["next"] is None or len(found) >= limit:
                return {name: found, "next": page["next"]}
            asked[cursor] = page["next"]

    def close(self) -> None:
        """Give the connections back."""
        self._transport.close()
