"""Acts that call the HTTP API, in the one form of calls, sessions, scenes and transcripts.

A path is below `/v1/streams/`, unless it begins with a slash:

    PUT s {"domains": ["ship"]}                  the call succeeds, and all notes in it are accepted
    GET s/writers/a -> {"writer": "a", …}        it succeeds with these fields, and others
    GET s/writers/a -> 200 {"writer": "a", …}    it has this status, too
    PUT s {"domains": []} -> 422 invalid_request body.domains    a code and the places of its faults
    GET s/writers/x -> 404 unknown_writer | there is no writer 'x': …   its text; `…` is any part
    note s {"writer": "a"}, {"writer": "b", "time": 5}           two notes in one call are accepted
    note s a=10:00 b=5                           both are, at position 0:10; see `read_time`
    note s {"writer": "b", "time": 4} -> invalid_time            another is refused
    note s {"writer": 7} -> 422 invalid_request body.notes.0.writer      so is a whole call
"""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import httpx

from noted_time.values import parse_time
from tests.support.http import list_refusals, places, problem
from tests.support.paragraphs import is_answer, matches, parse_expected
from tools.trials.calls import Calls

ACT = re.compile(
    r"(?P<method>GET|HEAD|OPTIONS|PATCH|POST|PUT|DELETE|note) (?P<path>[^\s{]\S*)"
    r"(?: (?P<body>.*?))??(?: -> (?P<expected>.*))?",
    re.DOTALL,
)


class ApiAct(NamedTuple):
    """A call, and what its answer must be; without `expected` it must succeed."""

    method: str
    path: str
    body: str
    expected: str | None = None

    @property
    def json_body(self) -> Any:  # noqa: ANN401 - any JSON
        return json.loads(self.body) if self.body else None

    def ask(self, calls: Calls) -> httpx.Response:
        """Make the call, and return any answer."""
        return calls.ask(self.method, self.path.removeprefix("/v1"), self.json_body)

    def check(self, answer: httpx.Response) -> None:
        """Raise `AssertionError` if the answer is not the expected one."""
        if self.expected is None:
            self._check_success(answer)
            return
        status, _, rest = self.expected.partition(" ")
        if status.isdigit():
            assert answer.status_code == int(status), (self, answer.text)
            self._check_content(answer, rest)
        elif self.expected.startswith(("{", "[")):
            assert answer.is_success, (self, answer.text)
            self._check_content(answer, self.expected)
        else:  # a call whose notes are all refused has their statuses, too
            assert _list_statuses(answer) == self.expected.split(), (self, answer.text)

    def _check_success(self, answer: httpx.Response) -> None:
        assert answer.is_success, (self, answer.text)
        if self.path.endswith("/notes"):
            assert list_refusals(answer.json()["results"]) == [], (self, answer.text)

    def _check_content(self, answer: httpx.Response, expected: str) -> None:
        """Compare the JSON of an answer, or the code, places and text of a problem."""
        if expected.startswith(("{", "[")):
            assert matches(parse_expected(expected), answer.json()), (self, answer.text)
        elif expected:
            words, _, text = expected.partition(" | ")
            _, code, detail = problem(answer)
            assert [code, *places(answer)] == words.split(), (self, answer.text)
            assert not text or is_answer(text, detail), (self, answer.text)
            assert "Input should" not in detail, (self, answer.text)


def read_api_act(line: str) -> ApiAct | None:
    """Return the call of a line, `None` if it is another act.

    >>> read_api_act("note s a=5 -> invalid_time")[:2]
    ('POST', '/v1/streams/s/notes')
    >>> read_api_act("GET /healthz")
    ApiAct(method='GET', path='/healthz', body='', expected=None)
    >>> read_api_act("restart 0") is None
    True
    """
    match = ACT.fullmatch(re.sub(r"\n +", " ", line))
    if match is None:
        return None
    method, path, body, expected = match.groups()
    path = path if path.startswith("/") else f"/v1/streams/{path}"
    if method != "note":
        return ApiAct(method, path, body or "", expected)
    notes = body if body.startswith("{") else json.dumps(read_short_notes(body.split()))[1:-1]
    return ApiAct("POST", f"{path}/notes", f'{{"notes": [{notes}]}}', expected)


def read_short_notes(words: Iterable[str]) -> list[dict[str, Any]]:
    """Return notes at position 0:10, whose writers declare their time as the largest.

    >>> read_short_notes(["a=5"])
    [{'writer': 'a', 'time': 5, 'max_time': 5, 'position': {'0': 10}}]
    """
    notes: list[dict[str, Any]] = []
    for word in words:
        writer, _, text = word.partition("=")
        time = read_time(text)
        notes.append({"writer": writer, "time": time, "max_time": time, "position": {"0": 10}})
    return notes


def read_time(text: str) -> int:
    """Return a time of 2013-01-01, or any other, as an integer.

    >>> read_time("10:00"), read_time("5"), read_time("2013-01-01T10:01Z")
    (1357034400000, 5, 1357034460000)
    """
    return parse_time(f"2013-01-01T{text}Z" if text[2:3] == ":" else text)


def _list_statuses(answer: httpx.Response) -> list[str]:
    return [result["status"] for result in answer.json().get("results", [])]
