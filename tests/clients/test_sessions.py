"""Sessions of programs that write and read; see `sessions/*.txt`.

A paragraph of these files has a fact, more about it, and acts, indented. Each session runs twice:
with the clients for threads, and with the clients for asyncio. There is a stream `s` that marks
every advance, without writers. Calls of the API have the form of `tests/support/api_acts.py`; there
are more acts:

    UA = Writer("s", "UA", domains=["ship"])      a client, open to the end of the session
    UA.note_time(5, {0: 10})                      a call in Python, with literals for arguments
    UA.flush() -> {"lower": 5, …}                 the JSON of its result: these fields, and others
    UA.find_known_time() -> 9                     likewise a call of its `InnerWriter`
    r = Reader("s", group="g", reader="r")
    r.marks(after=1) -> []                        all that an iterator yields
    marks = r.marks(wait=9)                       an iterator, of which `take 1 marks` are taken
    r.position ~> {"0": 10}                       an attribute, sooner or later
    r.cut_at(6) raises NotCompleteYet time 6 …    an error, where `…` stands for any text
    GET s ~> {"sealed": true, …}                  an answer of the API, sooner or later
    proxy caches GET                              later clients call through a `CachingProxy`
    stop                                          the controller stops; `start` ends that
    clock 5                                       the clock of writers, at first 0
    logged writer 'UA' of stream 's': …           the next warning: all are shown, or none;
    logged nothing                                there was none so far
    excluded -> [{…}]                             what `on_excluded` of all writers was called with

Instead of the controller, answers of the session may be given:

    answer {"status": "accepted", "lower": 9}     the result of the next post of a note
    answer 422 {"title": "No"}                    the next answer; `always 403 {}` is every one
    posted -> [{"writer": "UA", …}]               all notes so far; others are accepted
"""

import ast
import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import httpx
import pytest

import noted_time
from noted_time import Lag, TimeWindow
from noted_time.client import Backoff
from reader_client import AsyncReaderClient, ReaderClient
from tests.support.api_acts import ApiAct, read_api_act
from tests.support.caching_proxy import CachingProxy
from tests.support.http import as_json
from tests.support.paragraphs import matches, parse_expected, read_files
from tests.writer_client.scripted import URL, Scripted, results
from tools.trials.served import Served
from tools.trials.waiting import PATIENCE_S, wait_until
from writer_client import AsyncWriterClient, Pace, WriterClient
from writer_client.sending.writer import get_inner_writer

FILES = sorted(Path(__file__).with_name("sessions").glob("*.txt"))
KINDS: dict[str, dict[str, type[Any]]] = {
    "threads": {"Writer": WriterClient, "Reader": ReaderClient},
    "asyncio": {"Writer": AsyncWriterClient, "Reader": AsyncReaderClient},
}
ACT = re.compile(r"(.+?)(?: (->|~>|raises) (.+))?")
CALL = re.compile(r"(?:(\w+) = )?(?:(\w+)\.)?(\w+)(?:\((.*)\))?")


class Session(AsyncExitStack):
    """The clients of a session, by name; those for threads block the event loop."""

    def __init__(
        self, served: Served, kinds: dict[str, type[Any]], caplog: pytest.LogCaptureFixture
    ) -> None:
        super().__init__()
        self.served = served
        self.kinds = kinds
        self.caplog = caplog
        self.url = ""  # the controller's
        self.clients: dict[str, Any] = {}
        self.excluded: list[object] = []
        self.now = self.warnings_shown = 0
        self.network: Scripted | None = None

    async def perform(self, act: str) -> None:
        """Perform an act, and compare its outcome with the expected one."""
        match = ACT.fullmatch(re.sub(r"\n +", " ", act))
        assert match, act
        request, operator, expected = match.groups()
        api_act = read_api_act(f"{request} -> {expected}" if expected else request)
        if api_act is not None:
            await self.call_api(api_act, is_soon=operator == "~>")
            return
        if operator == "raises":
            name, _, text = expected.partition(" ")
            with pytest.raises(getattr(noted_time, name), match=as_pattern(text)):
                await self.ask(request)
            return
        is_soon = operator == "~>"
        until = time.monotonic() + PATIENCE_S
        answer = await self.ask(request)
        while is_soon and not matches(parse_expected(expected), answer):
            assert time.monotonic() < until, (act, answer)
            await asyncio.sleep(0.01)
            answer = await self.ask(request)
        assert operator is None or matches(parse_expected(expected), answer), (act, answer)

    async def call_api(self, act: ApiAct, *, is_soon: bool) -> None:
        """Call the API; the answer is as expected, or becomes so."""
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = act.ask(self.served)
            try:
                act.check(answer)
            except AssertionError:
                if not is_soon or time.monotonic() > until:
                    raise
                await asyncio.sleep(0.01)
            else:
                return

    async def ask(self, request: str) -> Any:  # noqa: ANN401 - any JSON
        """Return the outcome of an act."""
        verb, _, rest = request.partition(" ")
        found: object = None
        if verb in {"stop", "start"}:
            getattr(self.served, verb)()
        elif verb == "proxy":
            self.url = self.enter_context(CachingProxy(self.served.url, rest)).url
        elif verb == "clock":
            self.now = int(rest)
        elif verb == "take":
            count, _, name = rest.partition(" ")
            found = await take(int(count), self.clients[name])
        elif verb in {"answer", "always"}:
            self.plan(verb, rest)
        elif verb == "logged":
            await self.expect_warning(rest)
        elif verb == "posted":
            assert self.network is not None
            found = [*chain.from_iterable(self.network.posts)]
        else:
            found = self.excluded if verb == "excluded" else await self.call(request)
        return as_json(found._asdict() if isinstance(found, TimeWindow | Lag) else found)

    def plan(self, verb: str, plan: str) -> None:
        """Plan an answer in place of the controller's."""
        self.network = self.network or Scripted()
        status, _, body = plan.partition(" ")
        if verb == "always":
            self.network.handler = lambda _: httpx.Response(int(status), text=body)
        elif status.isdigit():
            elsewhere = {"location": "http://elsewhere/"}
            self.network.planned.append(httpx.Response(int(status), text=body, headers=elsewhere))
        else:
            self.network.planned.append(results(json.loads(plan)))

    async def expect_warning(self, text: str) -> None:
        shown_count = self.warnings_shown
        if text == "nothing":
            assert self.caplog.messages[shown_count:] == []
            return
        await asyncio.to_thread(wait_until, lambda: len(self.caplog.messages) > shown_count)
        message = self.caplog.messages[shown_count]
        assert re.search(as_pattern(text), message), message
        self.warnings_shown += 1

    async def call(self, request: str) -> object:
        """Open a client, call it, or return an attribute."""
        match = CALL.fullmatch(request)
        assert match, request
        name, client, target, arguments = match.groups()
        values, options = read_arguments(arguments or "")
        if client is None:
            await self.open(name, target, values, options)
            return None
        owner = self.clients[client]
        if not hasattr(owner, target):
            owner = get_inner_writer(owner)
        result = getattr(owner, target)
        result = result if arguments is None else result(*values, **options)
        if name is not None:
            self.clients[name] = result
            return None
        if isinstance(result, Iterator | AsyncIterator):
            return await take(None, result)
        return await result if isinstance(result, Awaitable) else result

    async def open(
        self, name: str | None, kind: str, values: list[Any], options: dict[str, Any]
    ) -> None:
        """Open a client that retries quickly."""
        url = options.pop("url", URL if self.network else self.url or self.served.url)
        backoff_s = options.pop("backoff_s", 0.001)
        backoff = Backoff(backoff_s, backoff_s)
        if kind == "Writer":
            options["pace"] = Pace(note_period_ms=5, backoff=backoff)
            options |= {"on_excluded": self.excluded.append, "clock": lambda: self.now}
        else:
            options = {"backoff": backoff, "refresh_ms": 20, **options}
        client = self.kinds[kind](*values, controller=url, transport=self.network, **options)
        is_async = hasattr(client, "__aenter__")
        await self.enter_async_context(client) if is_async else self.enter_context(client)
        self.clients[name or ""] = client


async def take(
    count: int | None, results: Iterator[object] | AsyncIterator[object]
) -> list[object]:
    """Return so many items, or all."""
    if isinstance(results, Iterator):
        return list(islice(results, count))
    taken_results: list[object] = []
    with suppress(StopAsyncIteration):
        while len(taken_results) != count:
            taken_results.append(await anext(results))
    return taken_results


def read_arguments(arguments: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call.

    >>> read_arguments("5, {0: 10}, domain='ship'")
    ([5, {0: 10}], {'domain': 'ship'})
    """
    call = ast.parse(f"f({arguments})", mode="eval").body
    assert isinstance(call, ast.Call)
    keywords = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in call.keywords}
    return [ast.literal_eval(argument) for argument in call.args], keywords


def as_pattern(text: str) -> str:
    """Return a pattern of a whole text, where `…` stands for any part."""
    return rf"(?s)\A{re.escape(text).replace('…', '.*')}\Z" if text else ""


def list_own_work() -> set[object]:
    """Return the threads and tasks of clients."""
    work = {thread: thread.name for thread in threading.enumerate()}
    tasks = {task: task.get_name() for task in asyncio.all_tasks()}
    return {
        work_piece for work_piece, name in (work | tasks).items() if name.startswith("noted-time")
    }


@pytest.mark.parametrize("acts", read_files(FILES))
@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
async def test_sessions(
    served: Served, caplog: pytest.LogCaptureFixture, kinds: dict[str, type[Any]], acts: list[str]
) -> None:
    """Closed clients leave no thread or task behind."""
    before = list_own_work()
    served.ask("DELETE", "/streams/s")
    served.create("s")
    async with Session(served, kinds, caplog) as session:
        for act in acts:
            await session.perform(act)
    assert session.network is None or session.network.planned == []
    if session.warnings_shown:
        assert caplog.messages[session.warnings_shown :] == []
    assert list_own_work() - before == set()
