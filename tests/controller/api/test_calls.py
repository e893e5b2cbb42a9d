"""Calls of the API and their answers; see `calls/*.txt`.

A paragraph of these files has a fact, more about it, and acts, indented. Calls have the form of
`tests/support/api_acts.py`. There is a stream `s` that marks every advance, and the wall clock
stands at 1700000000000. There are more acts:

    serve 5000                           the controller serves for that many milliseconds
    skip 7776000000                      likewise, for longer; the wall clock stands still
    pass 5000                            the clock moves, and no controller serves
    step -5000                           the wall clock is set back
    maintain                             what is silent, departed or old is excluded or deleted
    restart 5000                         a new controller serves the database, after so long
    fail PUT s {} -> 503                 a call whose commit fails; the controller is ready again
    bound controller.aggregation.fencing.FENCED_SHOWN 2      a limit of the code is lowered
    scrape holders -> {"default,s": 1.0}     the samples of a metric by their labels
"""

import json
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from unittest.mock import patch

import pytest

from controller.aggregation import retention
from controller.api.gate.access import Gate
from controller.service import maintenance
from controller.service.controller import Controller
from controller.store.port import StoreUnavailable
from tests.support.api_acts import read_api_act
from tests.support.controllers import (
    GivenTime,
    Watched,
    WatchedMemory,
    serve_for,
    skip_served_time,
    wait_until_async,
)
from tests.support.http import Caller, serve_app
from tests.support.paragraphs import read_paragraphs
from tests.support.scrapes import scrape

FILES = sorted(Path(__file__).with_name("calls").glob("*.txt"))


MAINTENANCE = (
    maintenance.exclude_silent_writers,
    maintenance.take_silent_readers_offline,
    maintenance.forget_departed,
    maintenance.forget_unused_groups,
    retention.forget_old_marks,
    retention.forget_old_records,
)


class Calls(AsyncExitStack):
    """Acts on the stream."""

    call: Caller

    def __init__(self, store: Watched, time: GivenTime, gate: Gate | None = None) -> None:
        super().__init__()
        self.store = store
        self.time = time
        self.gate = gate

    async def start(self) -> None:
        app = serve_app(Controller(self.store, self.time.clocks()), self.gate)
        self.call = await self.enter_async_context(app)

    async def play(self, acts: Iterable[str]) -> None:
        """Perform acts on a new stream `s`, and close the controller."""
        async with self:
            await self.start()
            for act in ('PUT s {"mark_interval_ms": 0}', *acts):
                await self.perform(act)

    async def restart(self, down_ms: int) -> None:
        await self.aclose()
        self.time.passes(down_ms)
        self.store = self.store.reopen()
        await self.start()

    def move_clocks(self, verb: str, ms: int) -> None:
        if verb == "serve":
            serve_for(self.call.controller, self.time, ms)
        elif verb == "skip":
            skip_served_time(self.call.controller, ms)
        elif verb == "pass":
            self.time.passes(ms)
        else:
            assert verb == "step"
            self.time.wall += ms

    async def perform(self, line: str) -> None:
        """Perform one act, and compare the answer with the expected one."""
        api_act = read_api_act(line)
        if api_act is not None:
            answer = await self.call.send(api_act.method, api_act.path, api_act.body.encode())
            api_act.check(answer)
            return
        verb, _, rest = line.partition(" ")
        if verb == "scrape":
            self._compare_samples(rest)
        elif verb == "maintain":
            for work in MAINTENANCE:
                await self.call.controller._committer.submit(work)
        elif verb == "restart":
            await self.restart(int(rest))
        elif verb == "fail":
            self.store.watch.failures = [StoreUnavailable("the disk is full")]
            await self.perform(rest)
            await wait_until_async(lambda: self.call.controller._committer.ready)
        elif verb == "bound":
            limit, _, value = rest.partition(" ")
            self.enter_context(patch(limit, int(value)))
        else:
            self.move_clocks(verb, int(rest))

    def _compare_samples(self, text: str) -> None:
        name, _, expected = text.partition(" -> ")
        samples = scrape(self.call.controller, f"noted_time_{name}")
        values = {",".join(labels): value for labels, value in samples.items()}
        assert values == json.loads(expected), (name, values)


@pytest.mark.parametrize(
    "acts", [paragraph for file in FILES for paragraph in read_paragraphs(file)]
)
async def test_calls(request: pytest.FixtureRequest, time: GivenTime, acts: list[str]) -> None:
    restarts = any(act.startswith("restart") for act in acts)
    store = request.getfixturevalue("sqlite" if restarts else "memory")
    await Calls(store, time).play(acts)


REFUSED_NOTES = '{"writer": "a", "time": 5}, {"writer": "a", "time": 4}'


@pytest.mark.parametrize(
    ("act", "answer"),
    [
        (f"note s {REFUSED_NOTES}", "invalid_time"),
        (f'POST s/notes {{"notes": [{REFUSED_NOTES}]}}', "invalid_time"),
        ('note s {"writer": "a", "domain": "x"}', "unknown_domain"),
        ("GET s/writers/b -> 404 unknown_writer | there is no writer 'b'", "lists them"),
    ],
)
async def test_call_with_another_answer_fails(
    memory: WatchedMemory, time: GivenTime, act: str, answer: str
) -> None:
    """Either a note without an arrow was refused, or the text is only the beginning."""
    with pytest.raises(AssertionError, match=answer):
        await Calls(memory, time).play([act])


async def test_refused_note_fails_the_test_that_sent_it(call: Caller) -> None:
    with pytest.raises(AssertionError, match="invalid_time"):
        await call.note({"writer": "a", "time": 5}, {"writer": "a", "time": 4})
