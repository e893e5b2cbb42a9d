"""The history of a trial, as its writers, readers and faults saw it."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from noted_time.client import Json, position_from_wire
from tests.trials.actors.load import ScaledStream
from tests.trials.facts import Answer, Look, WindowSeen
from tests.trials.judge import Broken
from tests.trials.law import name_law

ACCOUNTS_OF_A_LAW = 20
"""Maximum number of reported violations per law; a lasting fault breaks it at every look."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken law, with its stream or domain, and an account."""

    law: str
    where: str
    account: str


@dataclass(frozen=True, slots=True)
class Span:
    """When a fault of that kind lasted, in seconds of the steady clock."""

    kind: str
    begun: float
    ended: float


@dataclass
class Chain:
    """The marks of one domain of a stream that readers saw, and the answers with its lower.

    `answers` are those to followers. `grew_at` are the moments at which a mark beyond all others
    was first seen. `looks` are the answers with a lower, to notes and to followers. `sent` has when
    which time was noted first that is above all before. `followers` has the seq that each reader
    reached. Truncations that were asked for, and those that were answered, leave the marks from
    `first_asked` and `first_heard` on. `scaled_at` has the last seq when each scaling was answered.
    """

    seen: dict[int, Json] = field(default_factory=dict)
    grew_at: list[float] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    sent: list[tuple[float, int]] = field(default_factory=list)
    windows: list[WindowSeen] = field(default_factory=list)
    lower: int | None = None
    followers: list[int] = field(default_factory=list)
    first_asked: int = 1
    first_heard: int = 1
    scaled_at: list[int] = field(default_factory=list)

    def cut(self, seq: int) -> dict[int, int]:
        """Return the cut of a mark that was seen."""
        return position_from_wire(self.seen[seq]["cut"])

    def whole(self, marks: Sequence[Json]) -> list[Json]:
        """Return these marks, after all marks that readers saw before the first of them."""
        first = marks[0]["seq"] if marks else 1
        return [mark for seq, mark in sorted(self.seen.items()) if seq < first] + list(marks)

    def see(self, after: int, marks: Iterable[Json], seen_at: float) -> None:
        """Add the marks that a reader got after a seq."""
        came = []
        for mark in marks:
            known_mark = self.seen.setdefault(mark["seq"], mark)
            if known_mark is mark:
                self.grow(mark["lower"], seen_at)
            came.append(
                known_mark if known_mark == mark else mark
            )  # cuts are large: each is kept once
        self.answers.append(Answer(after, came, self.first_asked))

    def send(self, time: int, sent_at: float) -> None:
        """Remember that this time is being noted."""
        if not self.sent or time > self.sent[-1][1]:
            self.sent.append((sent_at, time))

    def grow(self, lower: int, grown_at: float) -> None:
        """Advance the lower, if this is above it."""
        if self.lower is None or lower > self.lower:
            self.lower = lower
            self.grew_at.append(grown_at)


@dataclass
class History:
    """The truth about a trial, and the violations so far.

    `silent` names the writer of a stream, if any, that is never heard of again, and
    `absences` counts how often other writers of a stream were silent for too long.
    `reported` is, for each stream and segment, how far a reader of its group was heard to have
    read; `reporting` how far any report went, heard or not.
    """

    streams: Mapping[str, ScaledStream]
    silent: dict[str, str] = field(default_factory=dict)
    absences: dict[str, Counter[str]] = field(default_factory=dict)
    chains: dict[tuple[str, str], Chain] = field(default_factory=dict)
    reported: dict[str, dict[int, int]] = field(default_factory=dict)
    reporting: dict[str, dict[int, int]] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for name, stream in self.streams.items():
            for domain in stream.domains:
                self.chains[name, domain] = Chain()

    def chains_of(self, stream: ScaledStream) -> dict[str, Chain]:
        """Return the chains of a stream by domain."""
        return {domain: self.chains[stream.name, domain] for domain in stream.domains}

    def broke(self, law: str | Callable[..., object], place: str, account: object) -> None:
        """Note that a law, or the law of that name, does not hold."""
        name = law if isinstance(law, str) else name_law(law)
        self.counts[f"broke {name}"] += 1
        if self.counts[f"broke {name}"] <= ACCOUNTS_OF_A_LAW:
            self.violations.append(Violation(name, place, str(account)))

    def add_broken(self, place: str, broken_laws: Iterable[Broken]) -> None:
        """Note the broken laws of a stream or domain."""
        for broken_law in broken_laws:
            self.broke(broken_law.law, place, broken_law.account)

    def steady_chains(self) -> dict[tuple[str, str], Chain]:
        """Return the chains whose time stands still for no other reason than a fault."""
        waiting = self.silent.keys() | self.absences.keys()
        return {key: chain for key, chain in self.chains.items() if key[0] not in waiting}

    def lengths(self) -> dict[tuple[str, str], int]:
        """Return how often each steady chain grew."""
        return {key: len(chain.grew_at) for key, chain in self.steady_chains().items()}

    def standing(self, since: Mapping[tuple[str, str], int]) -> list[str]:
        """Return the steady chains that did not grow since they had these lengths."""
        now = self.lengths()
        return [
            f"{stream}/{domain}"
            for (stream, domain), n in since.items()
            if now[stream, domain] <= n
        ]


def now() -> float:
    """Return the steady clock, in seconds."""
    return time.monotonic()


NoteRecorder = Callable[..., None]
"""Takes a note that is made, or its answer, by fields."""

_encode = msgspec.json.Encoder().encode


class Journal:
    """Writes the notes while they are made, as there are too many to remember them.

    Each is recorded twice: when it is first sent, and when it is answered, with all tries before.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._notes = (directory / "notes.jsonl").open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._notes.close()

    def note(self, **line: Any) -> None:  # noqa: ANN401 - any JSON
        """Write a request or an answer."""
        self._notes.write(_encode(line) + b"\n")

    def keep(self, history: History) -> None:
        """Write all that is remembered."""
        self._write("faults", history.spans)
        self._write("violations", history.violations)
        self._write("events", _list_events(history))
        for (stream, domain), chain in history.chains.items():
            self._write(f"marks-{stream}-{domain}", chain.seen.values())
            self._write(f"windows-{stream}-{domain}", chain.windows)

    def _write(self, name: str, lines: Iterable[object]) -> None:
        with (self._directory / f"{name}.jsonl").open("wb") as file:
            file.writelines(_encode(line) + b"\n" for line in lines)


def _list_events(history: History) -> Iterator[Json]:
    for stream in history.streams.values():
        for event in stream.events:
            place = [event.segment, event.offset]
            yield {"stream": stream.name, "at": place, "times": event.times}
