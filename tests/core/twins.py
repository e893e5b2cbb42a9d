"""An `Aggregator` and the model side by side, driven by the same random steps."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any, Self

import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time import Mark, Rejected
from noted_time.reading import MissingWriters
from noted_time.rules import Aggregator, Named, merge_named
from noted_time.values import (
    InvalidScale,
    Note,
    NotLive,
    Refused,
    ScaleEvent,
    StreamSettings,
    UnknownWriter,
    WaitForWriters,
)
from noted_time.values.settings import ReturningWriter
from tests.core.model import Model, Writer, join

WRITERS = ("a", "b", "c", "d")
DOMAINS = ("order", "ship")
LATER_DOMAIN = "default"
SEGMENTS = 9


Step = tuple[str, dict[str, Any]]
"""A method of `Twins`, and its arguments."""

_writers = st.sampled_from(WRITERS)
_segments = st.integers(0, SEGMENTS - 1)
_domains = st.sampled_from(DOMAINS)
_returning: st.SearchStrategy[ReturningWriter] = st.sampled_from(("wait", "exclude"))


def _step(name: str, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), st.fixed_dictionaries(parts))


says = _step(
    "note",
    writer=_writers,
    domain=st.sampled_from((*DOMAINS, LATER_DOMAIN)),
    step=st.none() | st.integers(-1, 5),
    from_lower=st.booleans(),
    gains=st.dictionaries(_segments, st.integers(-1, 4), max_size=3),
    state=st.sampled_from(("live", "live", "live", "live", "idle", "finished")),
    max_time=st.none() | st.integers(-3, 3),
    max_times=st.none() | st.dictionaries(_domains, st.integers(0, 9), min_size=1),
    order=st.sampled_from((None, -3, -1, 0, 1, 4)),
    timeout_ms=st.sampled_from((0, 0, 0, 0, None, 2, 9)),
    domains=st.one_of(
        *[st.none()] * 4, st.lists(_domains, min_size=1, max_size=2, unique=True).map(tuple)
    ),
)
removes = _step("remove", writer=_writers)
holds = _step("suspend_timeout", writer=_writers, ms=st.none() | st.integers(0, 9))
ends = _step("end_narrowing", writer=_writers, domain=_domains)
waits = _step("wait", ms=st.integers(0, 7), expire=st.booleans())
advances = _step("advance", domain=_domains)
scales = _step(
    "scale",
    sealed=st.dictionaries(_segments, st.integers(-1, 2), max_size=2),
    created=st.dictionaries(
        _segments, st.lists(_segments, max_size=2, unique=True).map(tuple), max_size=2
    ),
)
reconfigures = _step(
    "reconfigure",
    returning=_returning,
    timeout_ms=st.integers(1, 12),
    later_domain=st.booleans(),
    expected=st.sampled_from(((), ("c",))),
)


def accept(step: Step) -> Step:
    """Return a note that is mostly accepted, and of one domain, so that there are many marks."""
    name, fields = step
    domain = fields["domains"][0] if fields["domains"] else DOMAINS[0]
    gains = {segment: abs(gain) for segment, gain in fields["gains"].items()}
    plain = fields | {"gains": gains, "max_time": None, "max_times": None, "order": None}
    return name, plain | {"domain": domain, "step": abs(fields["step"] or 1)}


_accepted = [says.map(accept)] * 5
_others = (removes, holds, ends, scales, reconfigures)
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(*_accepted, says, *[advances] * 3, waits, waits, *_others), min_size=12, max_size=40
)
_notes_of_one = _step(
    "note",
    writer=_writers,
    domain=st.just("order"),
    step=st.integers(0, 5),
    from_lower=st.booleans(),
)
_silence = _step("wait", ms=st.integers(1, 4), expire=st.just(value=True))
silences: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(*[_notes_of_one] * 3, _silence, _silence, removes), min_size=12, max_size=30
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
        self.appended_served_ms: dict[str, int] = {}
        self.declared_served_ms: dict[str, int] = {}
        self.missing: dict[str, MissingWriters] = {}

    @classmethod
    def replay(cls, settings: StreamSettings, history: Iterable[Step]) -> Self:
        twins = cls(settings)
        for step in history:
            twins.take(step)
        return twins

    def take(self, step: Step) -> None:
        name, parts = step
        getattr(self, name)(**parts)
        self.compare()

    def note(self, **said: Any) -> None:  # noqa: ANN401 - as below
        note = self.build_note(**said)
        answer = self.code.note(note, self.now)
        expected = self.model.note(note, self.now)
        self.model.settle(self.now)
        if not isinstance(answer, Refused):
            assert ("accepted", answer.lower) == expected, note
        elif isinstance(answer.last, tuple):
            assert (answer.status, set(answer.last)) == expected, note
        else:
            assert (answer.status, answer.last) == expected, note

    def build_note(  # noqa: PLR0913 - as drawn
        self,
        writer: str,
        domain: str,
        step: int | None,
        *,
        from_lower: bool,
        gains: Mapping[int, int] = MappingProxyType({}),
        max_time: int | None = None,
        order: int | None = None,
        **terms: Any,  # noqa: ANN401 - other fields of a note
    ) -> Note:
        """Return a note that is relative to the writer's last time, or to the last lower."""
        model_writer = self.model.writers.get(writer, Writer(writer))
        base = model_writer.time(domain)
        if from_lower and domain in self.model.marks:
            base = self.model.lower(domain)
        base = max(base, 0)
        position = {}
        for segment, gain in gains.items():
            position[segment] = max(0, model_writer.position.get(segment, 0) + gain)
        return Note(
            writer,
            time=None if step is None else base + step,
            position=position,
            domain=domain,
            max_time=None if max_time is None else base + max_time,
            sequence=None if order is None else max(1, model_writer.sequence + order),
            **terms,
        )

    def wait(self, ms: int, *, expire: bool) -> None:
        """Let the service clock advance; with `expire`, silent writers are excluded then."""
        self.now += ms
        if expire:
            self.expire()

    def remove(self, writer: str) -> None:
        model_writer = self.model.writers.get(writer)
        if model_writer is None:
            with pytest.raises(UnknownWriter):
                self.code.remove(writer, self.now)
            return
        self.code.remove(writer, self.now, "somebody")
        self.model.remove(model_writer, self.now)

    def suspend_timeout(self, writer: str, ms: int | None) -> None:
        """Suspend a writer's timeout for that long, or no longer."""
        model_writer = self.model.writers.get(writer)
        until = None if ms is None else self.now + ms
        if model_writer is None or (
            until is not None and (model_writer.state != "live" or model_writer.excluded)
        ):
            with pytest.raises(NotLive if model_writer else UnknownWriter):
                self.code.suspend_timeout(writer, until)
            return
        self.code.suspend_timeout(writer, until)
        model_writer.suspension_ends_served_ms = until or 0

    def end_narrowing(self, writer: str, domain: str) -> None:
        """End a writer's absence from a domain that it left."""
        model_writer = self.model.writers.get(writer)
        if model_writer is not None and domain in model_writer.narrowed:
            self.code.end_narrowing(writer, domain)
            model_writer.end_narrowing(domain)
        else:
            with pytest.raises(Rejected if model_writer else UnknownWriter):
                self.code.end_narrowing(writer, domain)

    def expire(self) -> None:
        """Exclude the silent writers; before the promised time none may be silent."""
        promised_served_ms = self.code.next_timeout()
        out = self.model.expire(self.now)
        assert not out or (promised_served_ms is not None and promised_served_ms <= self.now)
        excluded_writers = set(self.code.expire(self.now, 1))
        while self.code.is_expiring:
            for domain in self.code.domains.numbers:
                assert not self.code.may_advance(domain)
            excluded_writers |= set(self.code.expire(self.now, 1))
        assert excluded_writers == out

    def advance(self, domain: str) -> Mark | None:
        before = self.code.domains[domain].last
        parts = self._name_in_parts(domain) if self.now % 2 else []
        mark = self.code.advance(domain, now=self.now, written_at=0)
        if mark is not None:
            self.appended_served_ms[domain] = self.now
            lowers = before.lower if before else None, mark.lower
            roster = self.code.domains[domain].roster
            named_writers = roster.named = merge_named([*parts, roster.named])
            absences_and_returns = named_writers.absences, named_writers.returned_writers
            self.missing.setdefault(domain, MissingWriters()).take(
                mark.seq, 0, lowers, *absences_and_returns
            )
        expected = self.model.advance(domain, self.now)
        if mark is not None and expected is not None:
            segment_writers = self.code.domains[domain].segment_writers
            is_bound = expected.upper_is_bound and segment_writers.is_noted(mark.cut.offsets)
            expected = replace(expected, upper_is_bound=is_bound)
        assert _plain(mark) == _plain(expected), (_plain(mark), _plain(expected))
        return mark

    def _name_in_parts(self, domain: str) -> list[Named]:
        """Name each writer of the next mark on its own, but for the last one."""
        parts = []
        while (named_part := self.code.name_some(domain, 1)) is not None:
            parts.append(named_part)
        return parts

    def scale(self, sealed: dict[int, int], created: dict[int, tuple[int, ...]]) -> None:
        """Seal segments a little above or below the noted offsets, and create others."""
        top_offsets: dict[int, int] = {}
        for writer in self.model.writers.values():
            top_offsets = join(top_offsets, self.model.complete(writer.position))
        ends = {s: max(0, top_offsets.get(s, 0) + more) for s, more in sealed.items()}
        event = ScaleEvent(ends, created)
        try:
            self.code.scale(event)
            is_taken = True
        except InvalidScale:
            is_taken = False
        assert is_taken == self.model.scale(event), event

    def reconfigure(
        self,
        returning: ReturningWriter,
        timeout_ms: int,
        *,
        later_domain: bool,
        expected: tuple[str, ...],
    ) -> None:
        domains = self.code.settings.domains
        if later_domain and LATER_DOMAIN not in domains:
            domains = (*domains, LATER_DOMAIN)
            self.declared_served_ms[LATER_DOMAIN] = self.now
        terms = {"returning_writer": returning, "writer_timeout_ms": timeout_ms}
        settings = replace(self.code.settings, domains=domains, **terms)
        for stream in (self.code, self.model):
            stream.reconfigure(settings, self.now)
            stream.expect(expected, self.now)

    def compare(self) -> None:
        """Assert that both wait for the same members, since the same time; the longest is first."""
        for domain in self.model.marks:
            decision = self.code.decide(domain, self.now)
            waiting = decision.waiting_for if isinstance(decision, WaitForWriters) else ()
            assert {w.writer for w in waiting} == self.model.waiting_for(domain)
            assert self.code.may_advance(domain) == (self.model.next_lower(domain) is not None)
            since = {w.writer: self.now - w.held_back_ms for w in waiting}
            assert [*since.values()] == sorted(since.values())
            writers = self.model.writers
            began: dict[str, int | None] = {}
            for name in since:
                late_since = writers[name].late_since.get(domain)
                began[name] = writers[name].began.get(domain, late_since)
            assert since == began

    def without(self, writer: str) -> dict[str, int | None]:
        """Return each domain's lower after the model has excluded the writer."""
        later_model = deepcopy(self.model)
        member = later_model.writers.get(writer)
        if member is not None and not member.excluded:
            later_model.leave_out(member, self.now)
        for domain in later_model.marks:
            later_model.advance(domain, self.now)
        return {domain: later_model.lower(domain) for domain in later_model.marks}


def _plain(mark: Mark | None) -> object:
    """Return the part of a mark that must agree; naming a segment at 0 means nothing in a cut."""
    if mark is None:
        return None
    cut = {s: offset for s, offset in mark.cut.offsets.items() if offset}
    return mark.seq, mark.lower, mark.upper, cut, mark.excluded, mark.upper_is_bound
