"""The base of commands that call a controller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from typing import Any, TypeVar

from msgspec.json import format as format_json

from noted_time import NotedTimeError, UnexpectedAnswer, UnknownStream
from noted_time.answers import StreamsPage, WritersPage
from noted_time.client import ForeignAnswer, Json, Question, Reply, ask_in_turn, stream_path
from noted_time.client.protocol import STREAMS_PATH
from noted_time.client.transport import Transport
from noted_time.coding import convert_to_json, encode
from noted_time.installation import name_program
from noted_time.values import UnknownWriter, validate_name
from noted_time.verdict import SIMILARITY_CUTOFF
from noted_time_cli.terminal.flags import list_flags, set_flags, unfold_flags
from noted_time_cli.terminal.options import DEFAULT_URL, AsJson, Token, Url
from noted_time_cli.terminal.output import Columns, echo_json, print_table, report_errors, say

MOST_ROWS = 1000

Answer = TypeVar("Answer")
Page = TypeVar("Page")


def _list_item(item: Json) -> list[Json]:
    return [item]


@dataclass(frozen=True, slots=True)
class Caller:
    """The controllers that a command calls, and whether it prints JSON."""

    transport: Transport
    as_json: bool = False

    def ask(self, question: Question[Answer]) -> Answer:
        return self.answer(question)[1]

    def ask_json(self, question: Question[Any]) -> Json:
        """Return an answer as dicts, whose fields are checked."""
        answer: Json = convert_to_json(self.ask(question))
        return answer

    def answer(self, question: Question[Answer]) -> tuple[int, Answer]:
        """Return status and answer. Empty values of the query are not sent."""
        query = {name: value for name, value in question.query.items() if value not in (None, [])}
        sent_question = replace(question, query=query)
        controllers = self.transport.controllers

        def read(reply: Reply) -> tuple[int, Answer]:
            try:
                return reply.status, reply.read(sent_question)
            except ForeignAnswer:
                raise
            except UnexpectedAnswer as other:
                fact = f"sent an unexpected answer: {other.why}"
                if not other.why:
                    fact = f"is not a noted-time controller (HTTP {reply.status})"
                raise UnexpectedAnswer(f"{controllers.current} {fact}", other.why) from other

        try:
            return self.transport.run(ask_in_turn(controllers, lambda: sent_question, read))
        except UnknownStream as unknown:
            alike = self._find_similar(
                unknown.stream,
                Question("GET", STREAMS_PATH, {"limit": MOST_ROWS}, answer=StreamsPage),
                lambda page: [stream.name for stream in page.streams],
            )
            remedy = f"`{name_program()} stream list` lists the streams"
            raise UnknownStream(unknown.stream, alike, remedy) from None
        except UnknownWriter as unknown:
            path = stream_path(question.stream, "writers")
            alike = self._find_similar(
                unknown.writer,
                Question("GET", path, {"limit": MOST_ROWS}, answer=WritersPage),
                lambda page: [row.writer for row in page.writers],
            )
            raise UnknownWriter(unknown.writer, alike, question.stream) from None

    def _find_similar(
        self, name: str, question: Question[Answer], list_names: Callable[[Answer], list[str]]
    ) -> list[str]:
        with suppress(NotedTimeError):
            page = self.transport.ask(question)
            return get_close_matches(name, list_names(page), cutoff=SIMILARITY_CUTOFF)
        return []

    def print_json(self, answer: object) -> bool:
        if self.as_json:
            echo_json(format_json(encode(answer), indent=0).decode())
        return self.as_json

    def print_list(  # noqa: PLR0913 - the differences of lists
        self,
        question: Question[Page],
        name: str,
        columns: Columns,
        *,
        cursor: str,
        limit: int,
        list_rows: Callable[[Json], Iterable[Json]] = _list_item,
        also: tuple[str, Columns] | None = None,
        facts: Sequence[str] = (),
    ) -> tuple[Page, Page]:
        """Print up to `limit` items of a paged list, and return the first and the last page.

        An item fills the rows that `list_rows` returns, by default one. `also` names a second list
        of the page, and its columns. JSON has the `facts` of the first page, too.
        """
        items: list[Json] = []
        next_item = first_page = None
        while True:
            page_query = {**question.query, "limit": min(limit - len(items), MOST_ROWS)}
            if next_item is not None:
                page_query[cursor] = next_item
            page = self.ask(replace(question, query=page_query))
            page_json: Json = convert_to_json(page)
            if first_page is None:
                first_page = page
                first_json = page_json
            items += page_json[name]
            next_item = page_json["next"] if page_json.get("has_more", True) else None
            if next_item is None or len(items) >= limit:
                break
        answer: Json = {name: items, "next": next_item}
        if also is not None:
            second_name, second_columns = also
            answer[second_name] = page_json[second_name]
        for fact in facts:
            answer[fact] = first_json[fact]
        if self.print_json(answer):
            return first_page, page
        rows = [*chain.from_iterable(list_rows(item) for item in items)]  # may ask for more
        print_table(columns, rows)
        if next_item is not None:
            say(f"There are more than these {limit}: use --limit.")
        if also is not None and answer[second_name]:
            print_table(second_columns, answer[second_name])
        return first_page, page


def client_command(run: Callable[..., None], *, prints: bool = True) -> Callable[..., None]:
    """Make a function of a `Caller` a command. It has `--json` only if it `prints` JSON."""
    run_flags, gather = unfold_flags(run, "call")

    def run_command(
        *,
        url: Url = DEFAULT_URL,
        token: Token = None,
        as_json: AsJson = False,
        **values: Any,  # noqa: ANN401 - as the command's
    ) -> None:
        with report_errors(), closing(Transport(url, token=token)) as transport:
            run(Caller(transport, as_json), **gather(values))

    hidden_names = {"values"} if prints else {"values", "as_json"}
    flags = {flag.name: flag for flag in run_flags} | list_flags(run_command)
    shown_flags = [flag for name, flag in flags.items() if name not in hidden_names]
    return set_flags(run_command, shown_flags, run)


def writer_path(stream: str, writer: str, *steps: str) -> str:
    return stream_path(stream, "writers", validate_name("writer", writer), *steps)
