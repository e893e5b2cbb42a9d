"""An `Aggregator` and the model side by side, driven by the same random steps."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from typing import Self

import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time import InvalidScale, Mark, NotLive, Rejected
from noted_time.reading import MissingWriters
from noted_time.rules import Aggregator
from noted_time.values import Hold, Note, Refused, ScaleEvent, State, StreamSettings, UnknownWriter
from noted_time.values.settings import ReturningWriter
from tests.core.model import NEVER, Model

WRITERS = ("a", "b", "c", "d")
DOMAINS = ("order", "ship")
LATER_DOMAIN = "default"
SEGMENTS = 9


@dataclass(frozen=True)
class NoteStep:
    """A note, relative to the last one: times, offsets and order are steps."""

    writer: str
    domain: str
    step: int | None
    from_lower: bool
    gains: dict[int, int] = field(default_factory=dict)
    state: State = "live"
    max_time: int | None = None
    max_times: dict[str, int] | None = None
    order: int | None = None
    timeout_ms: int | None = 0
    domains: tuple[str, ...] | None = None


@dataclass(frozen=True)
class WaitStep:
    """The service clock advances; with `expire`, silent writers are excluded then."""

    ms: int
    expire: bool


@dataclass(frozen=True)
class RemoveStep:
    """An operator removes a writer, or suspends its timeout for that long (`None`: no longer)."""

    writer: str
    hold_ms: int | None
    removes: bool


@dataclass(frozen=True)
class EndStep:
    """An operator ends a writer's absence from a domain that it left."""

    writer: str
    domain: str


@dataclass(frozen=True)
class AdvanceStep:
    """One domain's time advances, by at most one mark."""

    domain: str


@dataclass(frozen=True)
class ScaleStep:
    """Seal segments a little above or below the noted offsets, and create others."""

    sealed: dict[int, int]
    created: dict[int, tuple[int, ...]]


@dataclass(frozen=True)
class ReconfigureStep:
    """The settings of the stream change."""

    returning: ReturningWriter
    timeout_ms: int
    later_domain: bool
    expected: tuple[str, ...]


Step = NoteStep | RemoveStep | EndStep | WaitStep | AdvanceStep | ScaleStep | ReconfigureStep

_segments = st.integers(0, SEGMENTS - 1)
_domains = st.sampled_from(DOMAINS)
_states: st.SearchStrategy[State] = st.sampled_from(
    ("live", "live", "live", "live", "idle", "finished")
)
_returning: st.SearchStrategy[ReturningWriter] = st.sampled_from(("hold", "exclude"))

says = st.builds(
    NoteStep,
    writer=st.sampled_from(WRITERS),
    domain=st.sampled_from((*DOMAINS, LATER_DOMAIN)),
    step=st.none() | st.integers(-1, 5),
    from_lower=st.booleans(),
    gains=st.dictionaries(_segments, st.integers(-1, 4), max_size=3),
    state=_states,
    max_time=st.none() | st.integers(-3, 3),
    max_times=st.none() | st.dictionaries(st.sampled_from(DOMAINS), st.integers(0, 9), min_size=1),
    order=st.sampled_from((None, -3, -1, 0, 1, 4)),
    timeout_ms=st.sampled_from((0, 0, 0, 0, None, 2, 9)),
    domains=st.one_of(
        *[st.none()] * 4, st.lists(_domains, min_size=1, max_size=2, unique=True).map(tuple)
    ),
)
removes = st.builds(
    RemoveStep,
    writer=st.sampled_from(WRITERS),
    hold_ms=st.none() | st.integers(0, 9),
    removes=st.booleans(),
)
ends = st.builds(EndStep, writer=st.sampled_from(WRITERS), domain=_domains)
waits = st.builds(WaitStep, ms=st.integers(0, 7), expire=st.booleans())
advances = st.builds(AdvanceStep, domain=_domains)
scales = st.builds(
    ScaleStep,
    sealed=st.dictionaries(_segments, st.integers(-1, 2), max_size=2),
    created=st.dictionaries(
        _segments, st.lists(_segments, max_size=2, unique=True).map(tuple), max_size=2
    ),
)
reconfigures = st.builds(
    ReconfigureStep,
    returning=_returning,
    timeout_ms=st.integers(1, 12),
    later_domain=st.booleans(),
    expected=st.just(()) | st.just(("c",)),
)


def accept(said: NoteStep) -> NoteStep:
    """Return a note that is mostly accepted, and of one domain, so that there are many marks."""
    domain = said.domains[0] if said.domains else DOMAINS[0]
    gains = {segment: abs(gain) for segment, gain in said.gains.items()}
    plain = dataclass_replace(said, gains=gains, max_time=None, max_times=None, order=None)
    return dataclass_replace(plain, domain=domain, step=abs(said.step or 1))


_accepted = [says.map(accept)] * 5
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(*_accepted, says, *[advances] * 3, waits, waits, removes, ends, scales, reconfigures),
    min_size=12,
    max_size=40,
)
_notes_of_one = st.builds(
    NoteStep, st.sampled_from(WRITERS), st.just("order"), st.integers(0, 5), st.booleans()
)
_removals = st.builds(
    RemoveStep, st.sampled_from(WRITERS), hold_ms=st.none(), removes=st.just(value=True)
)
_silence = st.builds(WaitStep, st.integers(1, 4), expire=st.just(value=True))
silences: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(*[_notes_of_one] * 3, _silence, _silence, _removals), min_size=12, max_size=30
)
"""Histories of the domain "order" with silent and removed writers."""

starts = st.builds(
    StreamSettings,
    writer_timeout_ms=st.integers(3, 12),
    returning_writer=_returning,
    domains=st.just(DOMAINS),
)


class Twins:
    """The code and the model; every step asserts that both agree."""

    def __init__(self, settings: StreamSettings) -> None:
        self.now = 0
        self.code = Aggregator(settings)
        self.model = Model(settings)
        self.positions: list[dict[int, int]] = []
        self.appended_at: dict[str, int] = {}
        self.declared_at: dict[str, int] = {}
        self.missing: dict[str, MissingWriters] = {}

    @classmethod
    def replay(cls, settings: StreamSettings, history: Iterable[Step]) -> Self:
        twins = cls(settings)
        for step in history:
            twins.take(step)
        return twins

    def take(self, step: Step) -> None:
        match step:
            case NoteStep():
                self.note_step(step)
            case WaitStep():
                self.now += step.ms
                if step.expire:
                    self.expire()
            case AdvanceStep():
                self.advance(step.domain)
            case RemoveStep():
                self.remove(step)
            case EndStep():
                self.end_narrowing(step)
            case ScaleStep():
                self.scale(step)
            case ReconfigureStep():
                self.reconfigure(step)
        self.compare()

    def note_step(self, step: NoteStep) -> None:
        note = self.note(step)
        answer = self.code.note(note, self.now)
        expected = self.model.note(note, self.now)
        self.model.settle(self.now)
        got: tuple[str, object] = (
            (answer.status, answer.last)
            if isinstance(answer, Refused)
            else ("accepted", answer.lower)
        )
        if isinstance(got[1], tuple):
            got = got[0], set(got[1])
        assert got == expected, note

    def note(self, step: NoteStep) -> Note:
        """Make the step absolute: from the writer's last time, or the last lower."""
        writer = self.model.writers.get(step.writer)
        known = step.domain in self.model.marks
        base = writer.time(step.domain) if writer else NEVER
        if step.from_lower and known:
            base = self.model.lower(step.domain)
        base = max(base, 0)
        said, sequence = (writer.position, writer.sequence) if writer else ({}, 0)
        return Note(
            step.writer,
            time=None if step.step is None else base + step.step,
            position={s: max(0, said.get(s, 0) + gain) for s, gain in step.gains.items()},
            domain=step.domain,
            max_time=None if step.max_time is None else base + step.max_time,
            max_times=step.max_times,
            state=step.state,
            sequence=None if step.order is None else max(1, sequence + step.order),
            timeout_ms=step.timeout_ms,
            domains=step.domains,
        )

    def remove(self, step: RemoveStep) -> None:
        writer = self.model.writers.get(step.writer)
        if writer is None:
            with pytest.raises(UnknownWriter):
                self.code.remove(step.writer, self.now)
        elif step.removes:
            self.code.remove(step.writer, self.now, "somebody")
            self.model.remove(writer, self.now)
        else:
            until = None if step.hold_ms is None else self.now + step.hold_ms
            if until is not None and (writer.state != "live" or writer.excluded):
                with pytest.raises(NotLive):
                    self.code.hold(step.writer, until)
                return
            self.code.hold(step.writer, until)
            writer.hold_until = until or 0

    def end_narrowing(self, step: EndStep) -> None:
        writer = self.model.writers.get(step.writer)
        if writer is not None and step.domain in writer.narrowed:
            self.code.end_narrowing(step.writer, step.domain)
            writer.end_narrowing(step.domain)
        else:
            with pytest.raises(Rejected if writer else UnknownWriter):
                self.code.end_narrowing(step.writer, step.domain)

    def expire(self) -> None:
        """Exclude the silent writers; before the promised time none may be silent."""
        promised = self.code.next_timeout()
        out = self.model.expire(self.now)
        assert not out or (promised is not None and promised <= self.now)
        assert set(self.code.expire(self.now)) == out

    def advance(self, domain: str) -> Mark | None:
        before = self.code.domains[domain].last
        mark = self.code.advance(domain, now=self.now, written_at=0)
        if mark is not None:
            self.appended_at[domain] = self.now
            lowers = before.lower if before else None, mark.lower
            roster = self.code.domains[domain].roster
            said = roster.absences, roster.returned
            self.missing.setdefault(domain, MissingWriters()).take(mark.seq, 0, lowers, *said)
        expected = self.model.advance(domain, self.now)
        if mark is not None and expected is not None:
            segment_writers = self.code.domains[domain].segment_writers
            is_bound = expected.upper_is_bound and segment_writers.is_noted(mark.cut.offsets)
            expected = replace(expected, upper_is_bound=is_bound)
        assert _plain(mark) == _plain(expected)
        return mark

    def scale(self, step: ScaleStep) -> None:
        stored = [self.model.complete(w.position) for w in self.model.writers.values()]
        top = {s: max((p.get(s, 0) for p in stored), default=0) for s in step.sealed}
        sealed = {s: max(0, top[s] + more) for s, more in step.sealed.items()}
        event = ScaleEvent(sealed, step.created)
        try:
            self.code.scale(event)
            taken = True
        except InvalidScale:
            taken = False
        assert taken == self.model.scale(event), event

    def reconfigure(self, step: ReconfigureStep) -> None:
        domains = self.code.settings.domains
        if step.later_domain and LATER_DOMAIN not in domains:
            domains = (*domains, LATER_DOMAIN)
            self.declared_at[LATER_DOMAIN] = self.now
        settings = replace(
            self.code.settings,
            returning_writer=step.returning,
            writer_timeout_ms=step.timeout_ms,
            domains=domains,
        )
        self.code.reconfigure(settings, self.now)
        self.model.reconfigure(settings, self.now)
        self.code.expect(step.expected, self.now)
        self.model.expect(step.expected, self.now)

    def compare(self) -> None:
        """Assert that both wait for the same members, since the same time."""
        for domain in self.model.marks:
            decision = self.code.decide(domain, self.now)
            waiting = decision.waiting_for if isinstance(decision, Hold) else ()
            assert {w.writer for w in waiting} == self.model.waiting_for(domain)
            assert self.code.may_advance(domain) == (self.model.next_lower(domain) is not None)
            since = {w.writer: self.now - w.held_for_ms for w in waiting}
            writers = self.model.writers
            began = {
                name: writers[name].began.get(domain, writers[name].late_since.get(domain))
                for name in since
            }
            assert since == began

    def without(self, writer: str) -> dict[str, int | None]:
        """Return each domain's lower after the model has excluded the writer."""
        later = deepcopy(self.model)
        member = later.writers.get(writer)
        if member is not None and not member.excluded:
            later.leave_out(member, self.now)
        for domain in later.marks:
            later.advance(domain, self.now)
        return {domain: later.lower(domain) for domain in later.marks}


def _plain(mark: Mark | None) -> object:
    """Return the part of a mark that must agree; naming a segment at 0 means nothing in a cut."""
    if mark is None:
        return None
    cut = {s: offset for s, offset in mark.cut.offsets.items() if offset}
    return mark.seq, mark.lower, mark.upper, cut, mark.excluded, mark.upper_is_bound
