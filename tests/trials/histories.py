"""Random histories of streams: what writers, operators and readers call, chosen from a seed.

The paragraphs of `calls.txt` are: how a stream is created, what changes it, what else a note may
have, and then questions. One line of a paragraph is chosen at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from string import Template
from typing import NamedTuple

import httpx

from tools.trials.calls import TEN, wire

CREATIONS, CHANGES, EXTRAS, *QUESTIONS = (
    paragraph.strip().splitlines()
    for paragraph in Path(__file__).with_name("calls.txt").read_text().split("\n\n")
)
DOMAINS = ("order", "ship")
WRITERS = ("a", "b", "c")
EXPECTED = ("[]", '["a", "b"]', '["a", "c"]', '["a", "e"]')
"""Lists of expected writers, of whom `e` never notes."""

REQUIREMENTS = ("", "all", "known", "a", "e")
"""Whom a question requires, as `tests.support.asking.ask` names them."""

MINUTE_MS = 60_000
JSON_TYPE = "application/json"


class Call(NamedTuple):
    """A request below ``/v1/streams/`` in the history of a seed."""

    seed: int
    method: str
    path: str
    body: str = ""

    def build_request(self) -> httpx.Request:
        url = f"http://localhost/v1/streams/{self.path}"
        headers = {"content-type": JSON_TYPE}
        return httpx.Request(self.method, url, content=self.body, headers=headers)


class History:
    """A random history of one stream: each method returns calls that are made next."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.name = f"s{seed}"
        self.chance = Random(seed)
        self._segments = dict(zip(WRITERS, range(3), strict=True))
        self._times = {writer: dict.fromkeys(DOMAINS, TEN) for writer in WRITERS}
        self._ends = dict.fromkeys(range(3), 0)
        self._successors: dict[int, int] = {}

    def create(self) -> Call:
        return self._choose(CREATIONS)

    def act(self) -> Call:
        """Note, mostly; or scale, or change the stream, its members or a group of readers."""
        kind = self.chance.randrange(12)
        if kind == 0:
            return self._scale()
        return self._choose(CHANGES) if kind < 4 else self._note()

    def ask(self) -> list[Call]:
        return [*map(self._choose, QUESTIONS)]

    def guess_time(self) -> int:
        return TEN + self.chance.randrange(-2, 9) * MINUTE_MS

    def _choose(self, lines: list[str]) -> Call:
        chance = self.chance
        position = {segment: chance.randrange(end + 1) for segment, end in self._ends.items()}
        words = {
            "stream": self.name,
            "writer": chance.choice("abce"),
            "reader": chance.choice("xy"),
            "domain": chance.choice(DOMAINS),
            "time": self.guess_time(),
            "timeout": chance.choice([1500, 4000, 60_000]),
            "expected": chance.choice(EXPECTED),
            "position": json.dumps(wire(position)),
        }
        return Call(self.seed, *Template(chance.choice(lines)).substitute(words).split(" ", 2))

    def _note(self) -> Call:
        writers = self.chance.sample(WRITERS, self.chance.randrange(1, 4))
        notes: list[dict[str, object]] = []
        for writer in writers:
            notes += self._note_domains(writer)
        return Call(self.seed, "POST", f"{self.name}/notes", json.dumps({"notes": notes}))

    def _note_domains(self, writer: str) -> Iterator[dict[str, object]]:
        """Yield the notes of a writer in one domain, or in both."""
        chance = self.chance
        times = self._times[writer]
        segment = self._segments[writer]
        while segment in self._successors:
            segment = self._successors[segment]
        self._ends[segment] += chance.randrange(9)
        for domain in chance.choice([DOMAINS, DOMAINS, DOMAINS[:1], DOMAINS[1:]]):
            times[domain] += chance.choice([-1, 0, 1, 1, 2, 5]) * MINUTE_MS
            note = json.loads(chance.choice(EXTRAS))
            time = chance.choice([*[times[domain]] * 9, None])
            state = chance.choice([*["live"] * 9, "idle", "finished"])
            note |= {"writer": writer, "domain": domain, "time": time, "state": state}
            yield note | {"position": {str(segment): self._ends[segment]}}

    def _scale(self) -> Call:
        """Seal an open segment, whose writers continue in the first of one or two new ones."""
        old_segment = self.chance.choice(
            [segment for segment in self._ends if segment not in self._successors]
        )
        new_segments = [len(self._ends) + number for number in range(self.chance.randrange(1, 3))]
        self._successors[old_segment] = new_segments[0]
        self._ends |= dict.fromkeys(new_segments, 0)
        created_segments = {str(segment): [old_segment] for segment in new_segments}
        body = json.dumps(
            {"sealed": {str(old_segment): self._ends[old_segment]}, "created": created_segments}
        )
        return Call(self.seed, "POST", f"{self.name}/scale", body)
