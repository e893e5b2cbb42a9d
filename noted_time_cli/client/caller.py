"""What the commands that call a controller share: their options, the call itself, and lists."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Any

from noted_time import NotedTimeError, UnexpectedAnswer, UnknownStream, UnknownWriter
from noted_time.client import Json, Question, Reply, ask_in_turn, stream_path
from noted_time.client.protocol import STREAMS_PATH
from noted_time.client.transport import Transport
from noted_time.values import validate_name
from noted_time_cli.terminal.flags import list_flags, set_flags, unfold_flags
from noted_time_cli.terminal.options import DEFAULT_URL, AsJson, Token, Url
from noted_time_cli.terminal.output import echo, print_table, report_errors, say

if TYPE_CHECKING:
    from noted_time_cli.terminal.output import Columns

MOST_ROWS = 1000
"""Maximum number of rows of a page."""

SIMILARITY_CUTOFF = 0.75
"""How much of two names has to agree, for one to be meant by the other."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One run of a command: the controllers that it calls, and whether it prints JSON.

    Questions raise `Unreachable` if there was no answer, `Rejected` or `Conflict` if it was a
    refusal.
    """

    transport: Transport
    as_json: bool = False

    def ask(self, method: str, path: str, **given: Any) -> Json:  # noqa: ANN401 - as `answer`'s
        """Return the answer's body; the arguments are those of `answer`."""
        return self.answer(method, path, **given)[1]

    def answer(
        self,
        method: str,
        path: str,
        *,
        query: Json | None = None,
        body: object = None,
        wait_ms: int = 0,
    ) -> tuple[int, Json]:
        """Return status and body of the answer; what is `None` in a query is left out.

        `wait_ms` is how long the controller is asked to wait.
        """
        given = {name: value for name, value in (query or {}).items() if value not in (None, [])}
        question = Question(method, path, given, body, wait_ms)
        controllers = self.transport.controllers

        def read(reply: Reply) -> tuple[int, Json]:
            try:
                return reply.status, reply.read_body(question.stream)
            except UnexpectedAnswer as other:
                fact = f"answered oddly: {other.why}"
                if not other.why:
                    fact = f"is not a noted-time controller (HTTP {reply.status})"
                raise UnexpectedAnswer(f"{controllers.current} {fact}", other.why) from other

        try:
            return self.transport.run(ask_in_turn(controllers, lambda: question, read))
        except UnknownStream as unknown:
            alike = self._find_similar(unknown.stream, STREAMS_PATH, "name")
            raise UnknownStream(unknown.stream, alike) from None
        except UnknownWriter as unknown:
            alike = self._find_similar(
                unknown.writer, stream_path(question.stream, "writers"), "writer"
            )
            raise UnknownWriter(unknown.writer, alike) from None

    def _find_similar(self, mistyped: str, path: str, field: str) -> list[str]:
        """Return the names of a list that are nearly the same, as far as the caller may read it."""
        question = Question("GET", path, {"limit": MOST_ROWS})
        with suppress(NotedTimeError):
            page = self.transport.ask(question)
            rows = page[path.rpartition("/")[2]]
            return get_close_matches(
                mistyped, [row[field] for row in rows], cutoff=SIMILARITY_CUTOFF
            )
        return []

    def print_json(self, found: object) -> bool:
        """Print the answer in one line if `--json` asks for it; returns whether it does."""
        if self.as_json:
            echo(json.dumps(found, ensure_ascii=False))
        return self.as_json

    def print_list(  # noqa: PLR0913 - what lists differ in
        self,
        path: str,
        name: str,
        columns: Columns,
        *,
        cursor: str,
        limit: int,
        query: Json | None = None,
        rows: Callable[[Json], Iterable[Json]] = lambda item: (item,),
        option: str | None = None,
        also: tuple[str, Columns] | None = None,
    ) -> Json:
        """Print up to `limit` items of a paged list, and whether there are more.

        Returns the last page.

        `rows` gives the rows of an item, and `option` continues the list at the `cursor`. `also`
        names another list of the page, which is printed after it.
        """
        items: list[Json] = []
        asked = dict(query or {})
        while True:
            asked["limit"] = min(limit - len(items), MOST_ROWS)
            page = self.ask("GET", path, query=asked)
            items += page[name]
            asked[cursor] = further = page["next"] if page.get("has_more", True) else None
            if further is None or len(items) >= limit:
                break
        beside = {} if also is None else {also[0]: page[also[0]]}
        if self.print_json({name: items, "next": further} | beside):
            return page
        print_table(columns, chain.from_iterable(map(rows, items)))
        if further is not None:
            continued = f" or {option} {further}" if option else ""
            say(f"There are more than these {limit}: use --limit{continued}.")
        if also is not None and beside[also[0]]:
            print_table(also[1], beside[also[0]])
        return page


def client_command(run: Callable[..., None], *, prints: bool = True) -> Callable[..., None]:
    """Make a function whose first parameter is the `Caller` a command.

    It has `--url`, `--token` and, if it `print_json` an answer, `--json`; an error is printed as a
    sentence.
    """
    own, gathered = unfold_flags(run, "call")

    def run_command(
        *,
        url: Url = DEFAULT_URL,
        token: Token = None,
        as_json: AsJson = False,
        **given: Any,  # noqa: ANN401 - as the command's
    ) -> None:
        with report_errors(), closing(Transport(url, token=token)) as transport:
            run(Caller(transport, as_json), **gathered(given))

    hidden = {"given"} if prints else {"given", "as_json"}
    flags = ({each.name: each for each in own} | list_flags(run_command)).values()
    return set_flags(run_command, (each for each in flags if each.name not in hidden), run)


def writer_path(stream: str, writer: str, *below: str) -> str:
    """Return the path of a writer of a stream; raises `InvalidName`."""
    return stream_path(stream, "writers", validate_name("writer", writer), *below)
