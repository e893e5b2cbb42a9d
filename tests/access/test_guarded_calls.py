"""The rights of tokens and of pages, as in `calls.txt`.

Paragraphs have the form of `tests/controller/api/test_calls.py`, and five more acts:

    token NAME read write {"streams": ["s"]}    a token with scopes and limits.
    as NAME                                     the next calls send that token; $NAME is its id.
    from http://evil.example                    the next calls come from a page of that origin.
    at rebound.example:7464                     the next calls are to that host, from a page of it.
    names controller-1                          the controller has that host name.
"""

import json
from pathlib import Path

import pytest

from tests.controller.api.test_calls import Calls
from tests.support.controllers import GivenTime, WatchedMemory
from tests.support.gates import Guarded
from tests.support.paragraphs import read_paragraphs


class GuardedCalls(Calls):
    """Calls that may send a token."""

    def __init__(self, guarded: Guarded) -> None:
        super().__init__(WatchedMemory(), GivenTime(), guarded.gate)
        self.guarded = guarded
        self.tokens: dict[str, str] = {}

    async def perform(self, line: str) -> None:
        """Perform one act."""
        verb, _, rest = line.partition(" ")
        if verb == "token":
            words, _, bounds = rest.partition(" {")
            name, *scopes = words.split()
            options = json.loads("{" + bounds) if bounds else {}
            self.tokens[name] = self.guarded.token(*scopes, **options)
        elif verb == "as":
            self.call.client.headers["authorization"] = f"Bearer {self.tokens[rest]}"
        elif verb == "from":
            self.call.client.headers["origin"] = rest
        elif verb == "at":
            self.call.client.base_url = f"http://{rest}"
            self.call.client.headers["origin"] = f"http://{rest}"
        elif verb == "names":
            self.guarded.gate._names = frozenset({rest})
        else:
            for name, token in self.tokens.items():
                line = line.replace(f"${name}", token.split("_")[1])
            await super().perform(line)


@pytest.mark.parametrize("acts", read_paragraphs(Path(__file__).with_name("calls.txt")))
async def test_guarded_calls(acts: list[str]) -> None:
    await GuardedCalls(Guarded()).play(['PUT t {"mark_interval_ms": 0}', *acts])
