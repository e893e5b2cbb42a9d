"""The base of commands that call a controller."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any

from noted_time import NotedTimeError, UnexpectedAnswer, UnknownStream, UnknownWriter
from noted_time.client import Json, Question, Reply, ask_in_turn, stream_path
from noted_time.client.protocol import STREAMS_PATH
from noted_time.client.transport import Transport
from noted_time.installation import name_program
from noted_time.values import validate_name
from noted_time_cli.terminal.flags import list_flags, set_flags, unfold_flags
from noted_time_cli.terminal.options import DEFAULT_URL, AsJson, Token, Url
from noted_time_cli.terminal.output import Columns, echo, print_table, report_errors, say

MOST_ROWS = 1000

SIMILARITY_CUTOFF = 0.75


@dataclass(frozen=True, slots=True)
class Caller:
    """The controllers that a command calls, and whether it prints JSON."""

    transport: Transport
    as_json: bool = False

    def ask(self, method: str, path: str, **given: Any) -> Json:  # noqa: ANN401 - as `answer`'s
        return self.answer(method, path, **given)[1]

    def ask_question(self, question: Question) -> Json:
        query = dict(question.query)
        return self.ask(question.method, question.path, query=query, body=question.body)

    def answer(
        self,
        method: str,
        path: str,
        *,
        query: Json | None = None,
        body: object = None,
        wait_ms: int = 0,
    ) -> tuple[int, Json]:
        """Return status and body. Empty values of the query are not sent."""
        given = {name: value for name, value in (query or {}).items() if value not in (None, [])}
        question = Question(method, path, given, body, wait_ms)
        controllers = self.transport.controllers

        def read(reply: Reply) -> tuple[int, Json]:
            try:
                return reply.status, reply.read_body(question.stream)
            except UnexpectedAnswer as other:
                fact = f"sent an unexpected answer: {other.why}"
                if not other.why:
                    fact = f"is not a noted-time controller (HTTP {reply.status})"
                raise UnexpectedAnswer(f"{controllers.current} {fact}", other.why) from other

        try:
            return self.transport.run(ask_in_turn(controllers, lambda: question, read))
        except UnknownStream as unknown:
            alike = self._find_similar(unknown.stream, STREAMS_PATH, "name")
            remedy = f"`{name_program()} stream list` lists the streams"
            raise UnknownStream(unknown.stream, alike, remedy) from None
        except UnknownWriter as unknown:
            alike = self._find_similar(
                unknown.writer, stream_path(question.stream, "writers"), "writer"
            )
            raise UnknownWriter(unknown.writer, alike) from None

    def _find_similar(self, mistyped: str, path: str, field: str) -> list[str]:
        question = Question("GET", path, {"limit": MOST_ROWS})
        with suppress(NotedTimeError):
            page = self.transport.ask(question)
            rows = page[path.rpartition("/")[2]]
            return get_close_matches(
                mistyped, [row[field] for row in rows], cutoff=SIMILARITY_CUTOFF
            )
        return []

    def print_json(self, found: object) -> bool:
        if self.as_json:
            echo(json.dumps(found, ensure_ascii=False))
        return self.as_json

    def print_list(  # noqa: PLR0913 - the differences of lists
        self,
        path: str,
        name: str,
        columns: Columns,
        *,
        cursor: str,
        limit: int,
        query: Json | None = None,
        rows: Callable[[Json], Iterable[Json]] = lambda item: (item,),
        also: tuple[str, Columns] | None = None,
    ) -> Json:
        """Print up to `limit` items of a paged list, and return the last page.

        `also` names a second list of the page.
        """
        items: list[Json] = []
        asked = dict(query or {})
        while True:
            asked["limit"] = min(limit - len(items), MOST_ROWS)
            page = self.ask("GET", path, query=asked)
            items += page[name]
            asked[cursor] = next_item = page["next"] if page.get("has_more", True) else None
            if next_item is None or len(items) >= limit:
                break
        second = {} if also is None else {also[0]: page[also[0]]}
        if self.print_json({name: items, "next": next_item} | second):
            return page
        print_table(columns, chain.from_iterable(map(rows, items)))
        if next_item is not None:
            say(f"There are more than these {limit}: use --limit.")
        if also is not None and second[also[0]]:
            print_table(also[1], second[also[0]])
        return page


def client_command(run: Callable[..., None], *, prints: bool = True) -> Callable[..., None]:
    """Make a function of a `Caller` a command. It has `--json` only if it `prints` JSON."""
    own, gather = unfold_flags(run, "call")

    def run_command(
        *,
        url: Url = DEFAULT_URL,
        token: Token = None,
        as_json: AsJson = False,
        **given: Any,  # noqa: ANN401 - as the command's
    ) -> None:
        with report_errors(), closing(Transport(url, token=token)) as transport:
            run(Caller(transport, as_json), **gather(given))

    hidden = {"given"} if prints else {"given", "as_json"}
    flags = ({each.name: each for each in own} | list_flags(run_command)).values()
    return set_flags(run_command, (each for each in flags if each.name not in hidden), run)


def writer_path(stream: str, writer: str, *below: str) -> str:
    return stream_path(stream, "writers", validate_name("writer", writer), *below)
