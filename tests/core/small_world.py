"""A small world: a stream with its store, and a few honest writers all of whose rows are known.

A writer has a segment of its own, and writes a row before each note that adds to its position. The
row may have any time that its writer has not excluded, so it stands for all rows that an honest
writer could have written there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controller.aggregation.draft import Draft
from noted_time.values import Accepted, Mark, Note, State, StreamSettings
from tests.support.kept_stream import FEW, KeptStream
from tools.trials.memory_store import MemoryStore

WRITER_NAMES = ("A", "B", "C")
ALL_DOMAINS = ("default", "ship")
TIME_STEP = 10_000
CLOCK_MS = 10**9
TIMEOUT_MS = 500
RETENTION_MS = 50
ANY_TIME = -1
"""The least time of a row whose writer has excluded none."""

Act = tuple[Any, ...]
"""A method of `SmallWorld`, and its arguments."""


class Row(NamedTuple):
    """A row below a cut that reaches `end` in its writer's segment.

    Its time in a domain is at or above the one in `least_times`, or is any time.
    """

    end: int
    least_times: dict[str, int]

    def find_least_time(self, domain: str) -> int:
        return self.least_times.get(domain, ANY_TIME)


class TimedNote(NamedTuple):
    """A note of a time, with the end of the rows that it covers."""

    domain: str
    time: int
    end: int


@dataclass
class Author:
    """An honest writer, and what it knows of itself.

    - `end`: the end of its rows in its segment.
    - `promised`: its last time in each domain, below which it writes no more rows.
    - `unbound`: the domains that it dropped before it noted a time there, or finished since.
    - `is_removed`: whether an operator removed it since its last note.
    """

    name: str
    segment: int
    end: int
    state: State = "finished"
    domains: tuple[str, ...] = ALL_DOMAINS
    promised: dict[str, int] = field(default_factory=dict)
    unbound: set[str] = field(default_factory=set)
    is_removed: bool = False
    rows: list[Row] = field(default_factory=list)
    notes: list[TimedNote] = field(default_factory=list)

    def find_promised(self, domain: str) -> int:
        return self.promised.get(domain, ANY_TIME)


class SmallWorld:
    """See the module. `owing` has the writers that owe rows to a mark, by domain and seq."""

    def __init__(self, writers: int, **settings: Any) -> None:  # noqa: ANN401 - settings
        defaults = {"writer_timeout_ms": TIMEOUT_MS, "writer_retention_ms": RETENTION_MS}
        stream_settings = StreamSettings(**defaults | {"max_time_ahead_ms": None} | settings)
        self.kept = KeptStream(MemoryStore(), stream_settings)
        self.kept.now = CLOCK_MS
        self.authors: dict[str, Author] = {}
        for number, name in enumerate(WRITER_NAMES[:writers], start=1):
            self.authors[name] = Author(name, 100 + number, 1000 * number)
        self.owing: dict[tuple[str, int], set[str]] = {}
        self.latest_time = TIME_STEP

    def perform(self, act: Act) -> None:
        name, *parts = act
        getattr(self, name)(*parts)
        self._take_marks()

    def note(self, writer: str, domain: str, time: int) -> None:
        """Write, and note a time for what was written."""
        author = self.authors[writer]
        self._send(author, Note(writer, time, self._write(author), domain))
        author.promised[domain] = time
        author.notes.append(TimedNote(domain, time, author.end))
        self.latest_time = max(time, self.latest_time)

    def write(self, writer: str, state: State = "live") -> None:
        """Write, and note what was written without a time."""
        author = self.authors[writer]
        self._send(author, Note(writer, position=self._write(author), state=state))

    def greet(self, writer: str, state: State = "live") -> None:
        """Note a state, and no rows."""
        self._send(self.authors[writer], Note(writer, state=state))

    def vouch(self, writer: str, *domains: str) -> None:
        """Name the domains that the writer vouches for from now on."""
        author = self.authors[writer]
        for domain in {*author.domains} - {*domains}:
            if not self._has_vouched(author, domain):
                author.unbound.add(domain)
        author.domains = domains
        self._send(author, Note(writer, domains=domains, domain=domains[0]))

    def remove(self, writer: str) -> None:
        author = self.authors[writer]
        self.kept.remove(writer)
        author.unbound |= {*ALL_DOMAINS} - {*author.domains}
        author.is_removed = True

    def expect(self, writer: str) -> None:
        """Let the stream expect a writer that is no member."""
        names = self.kept.stream.settings.expected_writers
        self.kept.reconfigure(expected_writers=(*names, writer))
        self.authors[writer].state = "live"

    def add_domain(self) -> None:
        self.kept.reconfigure(domains=ALL_DOMAINS)

    def advance(self) -> None:
        self.kept.advance()

    def wait(self) -> None:
        """Let the silent writers time out."""
        self.kept.wait(TIMEOUT_MS + 1, expire=True)

    def forget(self) -> None:
        self.kept.wait(RETENTION_MS + 1, expire=False)
        self.kept.forget()

    def age(self) -> None:
        self.kept.age()

    def seal(self) -> None:
        self.kept.seal()

    def restart(self) -> None:
        """Replace the stream by one that is read from the store."""
        self.kept.streams.add(self.kept.load_again())

    def list_acts(self) -> Iterator[Act]:
        """Yield the acts of writers and operators that may change the world."""
        stream = self.kept.stream
        aggregator = stream.aggregator
        if aggregator.sealed is not None:
            return
        for author in self.list_active(with_next=True):
            yield from self._list_acts_of(author)
        if any(aggregator.may_advance(domain) for domain in stream.settings.domains):
            yield ("advance",)
        if len(stream.settings.domains) < len(ALL_DOMAINS):
            yield ("add_domain",)
        if aggregator.next_timeout() is not None:
            yield ("wait",)
        if any(aggregator.member(writer).has_left for writer in aggregator.writers()):
            yield ("forget",)
        if self._has_records():
            yield ("age",)
        yield ("seal",)

    def _has_records(self) -> bool:
        """Whether a mark lacks a writer, or may lack rows."""
        stream = self.kept.stream
        for missing_writers in stream.missing.values():
            if [*missing_writers.list_first_seqs()]:
                return True
        return any(len(reports) > 0 for reports in stream.late_reports.values())

    def list_active(self, *, with_next: bool = False) -> Iterator[Author]:
        """Yield the writers that have acted, and with `with_next` the next one."""
        for author in self.authors.values():
            has_acted = author.rows or author.state != "finished"
            if not has_acted and author.name not in self.kept.stream.aggregator:
                if with_next:
                    yield author
                return
            yield author

    def _list_acts_of(self, author: Author) -> Iterator[Act]:
        aggregator = self.kept.stream.aggregator
        name = author.name
        domains = self.kept.stream.settings.domains
        is_member = name in aggregator
        for domain in domains:
            if domain in author.domains:
                for time in self._list_times(author, domain):
                    yield ("note", name, domain, time)
        yield ("write", name)
        if not (is_member and aggregator.member(name).is_active):
            yield ("greet", name)
        if not is_member:
            yield ("expect", name)
            return
        if author.state != "idle":
            yield ("write", name, "idle")
            if not author.rows:
                yield ("greet", name, "idle")
        if author.state != "finished":
            yield ("write", name, "finished")
        if aggregator.member(name).excluded != "removed":
            yield ("remove", name)
        if len(domains) > 1:
            is_narrow = len(author.domains) < len(ALL_DOMAINS)
            yield ("vouch", name, *(ALL_DOMAINS if is_narrow else ALL_DOMAINS[:1]))

    def _list_times(self, author: Author, domain: str) -> Iterator[int]:
        """Yield a time above all others, and as honesty allows the lower and one just below it."""
        yield self.latest_time + TIME_STEP
        last = self.kept.stream.histories[domain].last
        promised_time = author.find_promised(domain)
        if last is not None and promised_time < last.lower:
            yield last.lower
            earlier_time = last.lower - TIME_STEP // 2
            if promised_time < earlier_time:
                yield earlier_time

    def _send(self, author: Author, note: Note) -> None:
        """Post a note, which must be accepted."""
        answers: list[object] = []

        def take_note(draft: Draft) -> None:
            answers.extend(self.kept.stream.take_notes([note], draft, FEW))

        self.kept.commit(take_note)
        assert isinstance(answers[0], Accepted), (note, answers)
        author.state = note.state
        author.is_removed = False
        if note.state == "finished":
            author.unbound |= {*ALL_DOMAINS} - {*author.domains}

    def _write(self, author: Author) -> dict[int, int]:
        author.end += 10
        author.rows.append(Row(author.end, dict(author.promised)))
        return {author.segment: author.end}

    def _has_vouched(self, author: Author, domain: str) -> bool:
        """Return whether the author is a member with a time in a domain with marks."""
        is_member = author.name in self.kept.stream.aggregator and not author.is_removed
        has_marks = self.kept.stream.histories[domain].last is not None
        return is_member and has_marks and domain in author.promised

    def _take_marks(self) -> None:
        for domain, history in self.kept.stream.histories.items():
            for mark in history.after(0, FEW):
                if (domain, mark.seq) not in self.owing:
                    self.owing[domain, mark.seq] = {*self._list_owing(domain, mark)}

    def _list_owing(self, domain: str, mark: Mark) -> Iterator[str]:
        """Yield the live members that may have rows below the lower of a new mark.

        The mark goes on without them. The final mark of a sealed stream owes nothing.
        """
        for author in [] if mark.final else self.authors.values():
            is_live = author.name in self.kept.stream.aggregator and author.state == "live"
            is_bound = domain in author.domains and not author.is_removed
            if is_live and is_bound and author.find_promised(domain) < mark.lower:
                yield author.name
