"""Calls of the API and their answers; see `calls/*.txt`.

A paragraph of these files has a fact, more about it, and calls, indented: method, path and body.
Paths are below `/v1/streams/`, unless they begin with a slash. There is a stream `s` that
marks every advance, and the wall clock stands at 1700000000000. After an arrow follow the status of
the answer, and its body:

    PUT s {"domains": []} -> 422 invalid_request body.domains    a code and the places of its faults
    PUT s {"domains": 5} -> 422 invalid_request body.domains | must be a list      part of its text
    GET s/writers/a -> 200 {"writer": "a", "...": 0}             these fields, and others
    note {"writer": "a"}, {"writer": "b", "time": 5} -> accepted accepted     two notes in one call
    serve 5000                                      the controller serves for that many milliseconds
    pass 5000                                       the clock moves, and no controller serves
    expire                                          silent writers are excluded, others forgotten
    scrape holders -> {"default,s": 1.0}            the samples of a metric by their labels
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.service.maintenance import exclude_silent_writers, forget_departed
from tests.support.controllers import GivenTime, serve_for
from tests.support.http import Caller, places, problem
from tests.support.paragraphs import matches, read_paragraphs
from tests.support.scrapes import scrape

CALL = re.compile(
    r"(?P<method>\S+)(?: (?P<path>[^\s{]\S*))?(?: (?P<body>.*?))??(?:\s-> (?P<expected>.*))?",
    re.DOTALL,
)
FILES = sorted(Path(__file__).with_name("calls").glob("*.txt"))


@dataclass
class Calls:
    """Acts on the stream."""

    call: Caller
    time: GivenTime

    async def perform(self, line: str) -> None:
        """Perform one act, and compare the answer with the expected one."""
        act = CALL.fullmatch(re.sub(r"\n +", " ", line))
        assert act, line
        method, expected = act["method"], act["expected"]
        if method == "note" and (expected is None or expected[0].isalpha()):
            results = await self.call.note(*json.loads(f"[{act['body']}]"))
            statuses = [each["status"] for each in results]
            assert expected is None or statuses == expected.split(), (line, results)
        elif method == "note":
            body = f'{{"notes": [{act["body"]}]}}'
            await self._call("POST", "s/notes", body, expected, line)
        elif method == "scrape":
            samples = scrape(self.call.controller, f"noted_time_{act['path']}")
            assert {",".join(k): v for k, v in samples.items()} == json.loads(expected), line
        elif method == "serve":
            serve_for(self.call.controller, self.time, int(act["path"]))
        elif method == "pass":
            self.time.passes(int(act["path"]))
        elif method == "expire":
            await self.call.controller._committer.submit(exclude_silent_writers)
            await self.call.controller._committer.submit(forget_departed)
        else:
            await self._call(method, act["path"], act["body"] or "", expected, line)

    async def _call(
        self, method: str, path: str, body: str, expected: str | None, line: str
    ) -> None:
        path = path if path.startswith("/") else f"/v1/streams/{path}"
        answer = await self.call.send(method, path, body.encode())
        if expected is None:
            assert answer.is_success, (line, answer.text)
            return
        status, _, rest = expected.partition(" ")
        assert answer.status_code == int(status), (line, answer.text)
        if rest.startswith(("{", "[")):
            assert matches(json.loads(rest), answer.json()), (line, answer.text)
        elif rest:
            words, _, text = rest.partition(" | ")
            (_, code, detail), faults = problem(answer), places(answer)
            assert [code, *faults] == words.split(), (line, answer.text)
            assert text in detail, (line, answer.text)
            assert "Input should" not in detail, (line, answer.text)


@pytest.mark.parametrize("acts", [each for file in FILES for each in read_paragraphs(file)])
async def test_calls(call: Caller, time: GivenTime, acts: list[str]) -> None:
    for act in acts:
        await Calls(call, time).perform(act)
