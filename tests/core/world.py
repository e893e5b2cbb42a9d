"""Honest writers over a real log, and an `Aggregator` that only hears their notes.

Vouched events follow from the notes alone, so a mark can be judged against everything written.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace

from noted_time.rules import Aggregator
from noted_time.values import (
    Accepted,
    InvalidScale,
    Mark,
    Note,
    NotLive,
    ScaleEvent,
    State,
    StreamSettings,
    UnknownWriter,
)
from tests.support.honest import Event, HonestWriter, Log, find_left_out, is_below
from tests.support.streams import restart, seal

NEVER = -(2**63) - 1
Declares = Literal["nothing", "own", "all"]
"""The domains whose largest event time a note carries: none, its own, or all of the stream."""


@dataclass(kw_only=True)
class Author(HonestWriter):
    """A writer that vouches for its `domains`, and `noted` how far it wrote.

    It is missing in a domain that it left, unless that is `unbound`: it never vouched there for a
    time, or it finished or was removed since. `requests` counts its requests; `answered` is the
    last accepted one. The stream knew that it had noted `kept` when it forgot the writer last.
    """

    domains: tuple[str, ...]
    noted: dict[int, int] = field(default_factory=dict)
    kept: dict[int, int] = field(default_factory=dict)
    state: State = "finished"
    excluded: bool = False
    returned_below: set[str] = field(default_factory=set)
    unbound: set[str] = field(default_factory=set)
    requests: int = 0
    answered: int = 0

    def vouches(self, domain: str) -> bool:
        """Whether it is a live member whose time counts."""
        is_out = self.excluded or domain in self.returned_below or domain not in self.domains
        return self.state == "live" and not is_out


@dataclass(frozen=True)
class Made:
    """A mark and the facts at the time when it is made.

    `latest` is the join of the noted positions. `lost` are vouched events below the lower and not
    below the cut. `needless` are segments with a smaller sound cut. `unbound` are events below the
    cut with a time above the upper.
    """

    domain: str
    mark: Mark
    latest: dict[int, int]
    lost: list[Event]
    needless: set[int]
    unbound: list[Event]


class World(Log):
    """A log, its authors and the stream's aggregator; see the module."""

    def __init__(self, settings: StreamSettings, writers: tuple[str, ...], segments: int) -> None:
        super().__init__(ends=Counter(dict.fromkeys(range(segments), 0)))
        self.now = 0
        self.domains = settings.domains
        self.stream = Aggregator(settings)
        self.authors: dict[str, Author] = {}
        for name in writers:
            promised = dict.fromkeys(self.domains, 0)
            self.authors[name] = Author(name=name, promised=promised, domains=self.domains)
        self.names_first = False
        self.states_since = False
        self.open = list(range(segments))
        self.untold: list[ScaleEvent] = []
        self.broken: list[Event] = []  # of writers that had finished, against their word
        self.made: list[Made] = []
        self.notes: list[Note] = []
        self.sent: list[Note] = []
        self.appended_served_ms: dict[str, int] = {}

    def write(self, writer: str, segment: int, later: dict[str, int]) -> None:
        """Append an event at or above what its writer noted, in every domain."""
        author = self.authors[writer]
        segment = self.open[segment % len(self.open)]
        if self.names_first and (segment not in author.noted or author.state == "finished"):
            self.send(author, Note(writer, None, {segment: self.ends[segment]}, author.domains[0]))
        times = {domain: author.promised[domain] + later.get(domain, 0) for domain in self.domains}
        vouched_domains = set()
        for domain, time in times.items():
            if author.vouches(domain) and time >= self.lower(domain):
                vouched_domains.add(domain)
        event = author.write(self, segment, times)
        event.vouched = vouched_domains
        if author.state == "finished" and writer in self.stream:
            self.broken.append(event)

    def note(  # noqa: PLR0913, PLR0917 - the fields of a note
        self,
        writer: str,
        domain: str,
        step: int | None,
        whole: bool,  # noqa: FBT001 - drawn
        state: State,
        declares: Declares,
    ) -> None:
        """Note as high as `step` asks and honesty allows; `whole` gives all that it wrote."""
        author = self.authors[writer]
        is_unknown = state != "live" and writer not in self.stream  # no domain waits for it
        if domain not in author.domains or is_unknown or self.stream.sealed:
            return
        whole = whole or state != "live"
        position = dict(author.position if whole else author.noted)
        time = None if step is None else self.honest(author, domain, step, position)
        max_time = None if declares == "nothing" else author.largest.get(domain)
        max_times = dict(author.largest) if declares == "all" else None
        note = Note(writer, time, position, domain, max_time, state, max_times=max_times)
        self.send(author, replace(note, from_time=self.state_since(author, domain, time)))

    def state_since(self, author: Author, domain: str, time: int | None) -> int | None:
        """Return the time before which it never writes, to state with its first note.

        Rows that a forgotten member of its name had noted do not count.
        """
        times = self.stream.record(author.name).times if author.name in self.stream else {}
        if not self.states_since or time is None or domain in times:
            return None
        since = min([time + 1, *self._list_times_beyond(author, domain, author.kept)])
        author.promised[domain] = max(author.promised[domain], since)
        return since

    def _list_times_beyond(
        self, author: Author, domain: str, position: dict[int, int]
    ) -> Iterator[int]:
        """Yield the times of the author's events at or beyond a position."""
        for event in self.events:
            if event.writer == author.name and not is_below(event, position):
                yield event.times[domain]

    def vouch(self, writer: str, domains: tuple[str, ...]) -> None:
        """Name the domains it vouches for from now on, as it joins."""
        author = self.authors[writer]
        record = None
        if writer in self.stream and author.state != "finished":
            record = self.stream.record(writer)
        for left in {*author.domains} - {*domains}:
            has_vouched = record and record.excluded != "removed" and left in record.times
            if not has_vouched or self.lower(left) == NEVER:
                author.unbound.add(left)
        author.domains = domains
        self.send(author, Note(writer, None, {}, domains[0], domains=domains))

    def send(self, author: Author, note: Note) -> None:
        """Post the note twice, numbered: the first request gets no answer, the second one does."""
        first = author.requests + 1
        second = author.requests + 2
        author.requests = second
        self.sent += (replace(note, sequence=first), replace(note, sequence=second))
        self.hear(author, self.sent[-1])

    def deliver(self, writer: str, back: int) -> None:
        """Deliver one of a writer's last requests late or again; the writer does not know.

        The last answered one is excluded: it is current, and counts as a sign of life.
        """
        author = self.authors[writer]
        sent_notes = [note for note in self.sent if note.writer == writer]
        if not sent_notes:
            return
        note = sent_notes[-1 - back % len(sent_notes)]
        if note.sequence == author.answered:
            self.hear(author, note)
        else:
            self.stream.note(note, self.now)

    def honest(self, author: Author, domain: str, step: int, position: dict[int, int]) -> int:
        """Return a time such that no event at or beyond the position has a lower one."""
        later_times = self._list_times_beyond(author, domain, position)
        return min([author.promised[domain] + step, *later_times])

    def hear(self, author: Author, note: Note) -> None:
        """Hand over a note, which must be accepted."""
        answer = self.stream.note(note, self.now)
        assert isinstance(answer, Accepted), (note, answer)
        self.notes.append(note)
        assert note.domain is not None
        assert note.sequence is not None
        author.answered = note.sequence
        if note.state == "finished":
            author.unbound |= {*self.domains} - {*author.domains}
        author.noted |= note.position
        author.promised[note.domain] = max(author.promised[note.domain], note.time or 0)
        self._change_state(author, note.state)
        for domain in [*author.returned_below]:
            if note.state != "live" or not self.is_behind(author, domain):
                author.returned_below.discard(domain)

    def _change_state(self, author: Author, state: State) -> None:
        returns = state == "live" and (author.state != "live" or author.excluded)
        author.state = state
        author.excluded = False
        if returns and self.stream.settings.returning_writer == "exclude":
            times = self.stream.record(author.name).times
            for domain in self.domains:
                if times.get(domain, NEVER) < self.lower(domain):
                    author.returned_below.add(domain)

    def expect(self, writer: str) -> None:
        if self.stream.expect([writer], self.now):
            self._change_state(self.authors[writer], "live")

    def suspend_timeout(self, writer: str, ms: int | None) -> None:
        with suppress(UnknownWriter, NotLive):
            self.stream.suspend_timeout(writer, None if ms is None else self.now + ms)

    def is_behind(self, author: Author, domain: str) -> bool:
        """Whether the writer's noted time is not above the last lower."""
        return self.stream.record(author.name).times.get(domain, NEVER) <= self.lower(domain)

    def wait(self, ms: int) -> None:
        """Let the service clock advance and exclude the silent; unwritten events are late then."""
        self.now += ms
        for name in self.stream.expire(self.now):
            self._leave_out(name)

    def _leave_out(self, writer: str) -> None:
        author = self.authors[writer]
        author.excluded = True
        for event in self.events:
            if event.writer == writer and not is_below(event, author.noted):
                event.vouched.clear()

    def forget(self) -> None:
        for name in self.stream.forget_departed(self.now, len(self.authors)):
            self.authors[name].kept = dict(self.authors[name].noted)

    def remove(self, writer: str) -> None:
        if writer in self.stream:
            self.stream.remove(writer, self.now)
            author = self.authors[writer]
            author.unbound |= {*self.domains} - {*author.domains}
            self._leave_out(writer)

    def scale(self, sealed: set[int], created: int) -> None:
        """Seal open segments where they end and create others, unknown to the stream."""
        closing = {self.open[s % len(self.open)] for s in sealed}
        first = len(self.ends)
        new_segments = range(first, first + created)
        self.untold.append(
            ScaleEvent(
                {s: self.ends[s] for s in closing},
                dict.fromkeys(new_segments, tuple(sorted(closing))),
            )
        )
        self.open = [s for s in self.open if s not in closing] + list(new_segments)
        self.ends.update(dict.fromkeys(new_segments, 0))

    def learn(self) -> None:
        """Pass the stream scale events in their order, until one is of segments it never saw."""
        while self.untold:
            try:
                self.stream.scale(self.untold[0])
            except InvalidScale:
                return
            del self.untold[0]

    def restart(self) -> None:
        """Restart with the durable state alone."""
        self.stream = restart(self.stream, self.appended_served_ms)

    def advance(self, domain: str) -> Made | None:
        before = self.stream.domains[domain].last
        mark = self.stream.advance(domain, now=self.now, written_at=0)
        if mark is None:
            return None
        return self.take_mark(domain, before, mark)

    def seal(self) -> None:
        """Seal the stream and take its final marks. It accepts no more notes."""
        lasts = {domain: self.stream.domains[domain].last for domain in self.domains}
        seal(self.stream, now=self.now)
        for domain, before in lasts.items():
            mark = self.stream.domains[domain].last
            if mark is not None and mark is not before:
                self.take_mark(domain, before, mark)

    def take_mark(self, domain: str, before: Mark | None, mark: Mark) -> Made:
        self.appended_served_ms[domain] = self.now
        cut = dict(mark.cut.offsets)
        made_mark = Made(
            domain,
            mark,
            self.latest(),
            lost=self.list_missed(domain, mark.lower, cut),
            needless=self.needless(domain, mark, before),
            unbound=self.unbound(domain, mark),
        )
        self.made.append(made_mark)
        return made_mark

    def marks(self, domain: str) -> list[Mark]:
        return [made_mark.mark for made_mark in self.made if made_mark.domain == domain]

    def lower(self, domain: str) -> int:
        last = self.stream.domains[domain].last
        return last.lower if last else NEVER

    def latest(self) -> dict[int, int]:
        latest: dict[int, int] = {}
        for author in self.authors.values():
            for segment, offset in author.noted.items():
                latest[segment] = max(latest.get(segment, 0), offset)
        return dict(self.stream.succession.normalise(latest))

    def list_missed(self, domain: str, lower: int, position: dict[int, int]) -> list[Event]:
        """Return the vouched events with time < lower that do not lie below the position."""
        vouched_events = (event for event in self.events if domain in event.vouched)
        return find_left_out(vouched_events, domain, lower, position)

    def unbound(self, domain: str, mark: Mark) -> list[Event]:
        """Return the events below the cut with a time above the upper."""
        cut = mark.cut.offsets
        return [
            event
            for event in self.events
            if is_below(event, cut) and event.times[domain] > mark.upper
        ]

    def needless(self, domain: str, mark: Mark, before: Mark | None) -> set[int]:
        """Return the segments whose cut could have been smaller, given the notes.

        The last offset below a cut is needed if the cut before covered it, or if some writer may
        have written an event below the lower there: no note that leaves it out has a time at or
        above the lower.
        """
        floor = self.stream.succession.normalise(before.cut.offsets if before else {})
        needless_segments = set()
        for segment, offset in mark.cut.offsets.items():
            place = (segment, offset - 1)
            is_rising = offset > floor.get(segment, 0)
            if is_rising and not self.may_any_be_below(domain, mark.lower, place):
                needless_segments.add(segment)
        return needless_segments

    def may_any_be_below(self, domain: str, lower: int, place: tuple[int, int]) -> bool:
        return any(self.may_be_below(domain, lower, writer, place) for writer in self.authors)

    def may_be_below(self, domain: str, lower: int, writer: str, place: tuple[int, int]) -> bool:
        """Whether the writer's notes allow an event of its with time < lower at that place."""
        segment, offset = place
        noted_offsets: dict[int, int] = {}
        for note in self.notes:
            if note.writer != writer:
                continue
            noted_offsets |= note.position
            if self.stream.succession.normalise(noted_offsets).get(segment, 0) > offset:
                return True
            if note.domain == domain and note.time is not None and note.time >= lower:
                return False
        return False
