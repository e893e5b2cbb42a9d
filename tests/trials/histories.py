"""Random histories of streams: what writers, operators and readers call, chosen from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from tests.support.calls import TEN, wire

DOMAINS = ("order", "ship")
WRITERS = ("a", "b", "c")
ABSENT = "e"
"""A writer that some streams expect, and that never notes."""

REQUIREMENTS = ("", "all", "known", "a", ABSENT)
"""Whom a question requires, as `tests.support.asking.ask` names them."""

MINUTE_MS = 60_000


class Call(NamedTuple):
    """A request in a history, and the kind of its answer."""

    seed: int
    kind: str
    method: str
    path: str
    body: object = None


@dataclass
class Pen:
    """A writer: its segment, and its last time in each domain."""

    segment: int
    times: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DOMAINS, TEN))


class History:
    """A random history of one stream: each of its methods returns calls that are made next."""

    def __init__(self, seed: int) -> None:
        self.seed, self.name = seed, f"s{seed}"
        self.chance = Random(seed)
        self._pens = {writer: Pen(number) for number, writer in enumerate(WRITERS)}
        self._ends = dict.fromkeys(range(len(WRITERS)), 0)
        self._successors: dict[int, int] = {}

    def create(self) -> Call:
        """Create the stream."""
        choose = self.chance.choice
        settings = {
            "domains": DOMAINS,
            "mark_interval_ms": 0,
            "writer_timeout_ms": choose([1500, 4000, 60_000]),
            "returning_writer": choose(["hold", "exclude"]),
            "expected_writers": choose([[], ["a", "b"], ["a", "c"], ["a", ABSENT]]),
            "reader_timeout_ms": 3000,
        }
        return self._call("acts", "PUT", "", settings)

    def act(self) -> Call:
        """Note, mostly; or change the stream, its members or a reader group."""
        acts = [*[self._note] * 8, *[self._operate] * 2, self._scale, *[self._read] * 2]
        return self.chance.choice(acts)()

    def _note(self) -> Call:
        writers = self.chance.sample(WRITERS, self.chance.randrange(1, 4))
        notes = [note for writer in writers for note in self._note_domains(writer)]
        return self._call("acts", "POST", "/notes", {"notes": notes})

    def _note_domains(self, writer: str) -> Iterator[dict[str, Any]]:
        """Yield the notes of a writer in one domain, or in both."""
        chance, pen = self.chance, self._pens[writer]
        while pen.segment in self._successors:
            pen.segment = self._successors[pen.segment]
        self._ends[pen.segment] += chance.randrange(9)
        more = {
            "domains": chance.choice([DOMAINS, DOMAINS[:1], DOMAINS[1:]]),
            "late": {"rows": 2, "least": min(pen.times.values()) - 9 * MINUTE_MS},
            "max_time": max(pen.times.values()),
            "since": TEN - 5 * MINUTE_MS,
            "timeout_ms": chance.choice([1000, None]),
        }
        extra = {name: value for name, value in more.items() if chance.random() < 0.15}
        for domain in chance.choice([DOMAINS, DOMAINS, DOMAINS[:1], DOMAINS[1:]]):
            pen.times[domain] += chance.choice([-1, 0, 1, 1, 2, 5]) * MINUTE_MS
            yield {
                "writer": writer,
                "domain": domain,
                "time": chance.choice([*[pen.times[domain]] * 9, None]),
                "position": {str(pen.segment): self._ends[pen.segment]},
                "state": chance.choice([*["live"] * 9, "idle", "finished"]),
                **extra,
            }
            extra = {}

    def _operate(self) -> Call:
        chance, writer = self.chance, self.chance.choice([*WRITERS, ABSENT])
        expected = chance.sample([*WRITERS, ABSENT], chance.randrange(4))
        final_times = chance.choice([{}, {"order": TEN + 40 * MINUTE_MS}])
        method, path, body = chance.choice(
            [
                *[("DELETE", f"/writers/{writer}", None)] * 4,
                *[("POST", f"/writers/{writer}/hold", {"for_ms": 5000})] * 2,
                ("DELETE", f"/writers/{writer}/hold", None),
                ("POST", "/seal", {"final_times": final_times}),
                ("POST", "/truncate", {"cut": self._guess_position()}),
                ("PUT", "?comment=roster", {"expected_writers": expected}),
            ]
        )
        return self._call("acts", method, path, body)

    def _scale(self) -> Call:
        """Seal an open segment, whose writers go on in the first of one or two new ones."""
        old = self.chance.choice([each for each in self._ends if each not in self._successors])
        new = [len(self._ends) + number for number in range(self.chance.randrange(1, 3))]
        self._successors[old] = new[0]
        self._ends |= dict.fromkeys(new, 0)
        created = {str(each): [old] for each in new}
        body = {"sealed": {str(old): self._ends[old]}, "created": created}
        return self._call("acts", "POST", "/scale", body)

    def _read(self) -> Call:
        """Report or take back a position of a group's reader, or change the group's policy."""
        reader = f"/reader-groups/g/readers/{self.chance.choice('xy')}"
        policy = {"watermark_lag_ms": 1000, "behind_ms": 2 * MINUTE_MS, "rule": "sticky"}
        position = {"position": self._guess_position()}
        method, path, body = self.chance.choice(
            [
                ("PUT", reader, position),
                ("PUT", reader, position | {"backlog": True}),
                ("POST", f"{reader}/offline", position),
                ("PUT", "/reader-groups/g", {"backlog": policy}),
            ]
        )
        return self._call("groups", method, path, body)

    def ask_routes(self) -> Iterator[Call]:
        """Yield questions about one domain or both, at random times and positions."""
        chance, domain = self.chance, self.chance.choice(DOMAINS)
        for each in DOMAINS:
            yield self._call("marks", "GET", f"/marks?domain={each}")
        yield self._call("ledger", "GET", f"/ledger?domain={domain}")
        dry_run = chance.choice(["", "&exclude=a", "&writer_timeout_ms=1000"])
        yield self._call("explain", "GET", f"/explain?domain={domain}{dry_run}")
        time = self.guess_time()
        for each in chance.sample(REQUIREMENTS, 2):
            words = f"require_{each}=true" if each in {"all", "known"} else f"require={each}"
            path = f"/cut?domain={domain}&complete_to={time}&wait_ms=300"
            yield self._call("cut", "GET", f"{path}&{words}" if each else path)
        if chance.random() < 0.5:
            yield self._view(domain)
            return
        windows = f"/windows?domain={domain}&size_ms={2 * MINUTE_MS}"
        window = {"position": self._guess_position(), "domain": domain}
        asked = [("POST", "/time-window", window), ("GET", windows, None)]
        asked += [("GET", f"{windows}&changed_since=0", None)]
        yield self._call("window", *chance.choice(asked))

    def _view(self, domain: str) -> Call:
        views = ["writers", "overview", "changes", "reader-groups", "reader-groups/g"]
        views += [f"segments?domain={domain}", f"history?domain={domain}"]
        return self._call("views", "GET", f"/{self.chance.choice(views)}")

    def guess_time(self) -> int:
        return TEN + self.chance.randrange(-2, 9) * MINUTE_MS

    def _guess_position(self) -> dict[str, int]:
        return wire({each: self.chance.randrange(end + 1) for each, end in self._ends.items()})

    def _call(self, kind: str, method: str, path: str, body: object = None) -> Call:
        return Call(self.seed, kind, method, f"/v1/streams/{self.name}{path}", body)
