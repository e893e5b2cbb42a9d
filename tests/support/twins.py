"""An `Aggregator` and the model side by side, driven by the same random steps."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from noted_time import (
    Aggregator,
    Hold,
    InvalidScale,
    Mark,
    Note,
    Refused,
    ScaleEvent,
    StreamSettings,
)
from tests.support.model import NEVER, Model

if TYPE_CHECKING:
    from noted_time.note import State
    from noted_time.settings import ReturningWriter

WRITERS = ("a", "b", "c", "d")
KEYS = ("order", "ship")
LATER_KEY = "default"
SEGMENTS = 9


@dataclass(frozen=True)
class Says:
    """A note relative to what went before: times, offsets and the order are steps, not values."""

    writer: str
    key: str
    step: int | None
    from_lower: bool
    gains: dict[int, int]
    state: State
    max_time: int | None
    order: int | None


@dataclass(frozen=True)
class Waits:
    """The service clock goes on, then the silent are left out (or nobody looks)."""

    ms: int
    expire: bool


@dataclass(frozen=True)
class Advances:
    """One key's time goes on, by one mark at most."""

    key: str


@dataclass(frozen=True)
class Scales:
    """Seal segments a little above (or below) what was noted, and create others."""

    sealed: dict[int, int]
    created: dict[int, tuple[int, ...]]


@dataclass(frozen=True)
class Reconfigures:
    """The settings of the stream change."""

    returning: ReturningWriter
    timeout_ms: int
    later_key: bool


Step = Says | Waits | Advances | Scales | Reconfigures

_segments = st.integers(0, SEGMENTS - 1)
_keys = st.sampled_from(KEYS)
_states: st.SearchStrategy[State] = st.sampled_from(
    ("live", "live", "live", "live", "idle", "left")
)
_returning: st.SearchStrategy[ReturningWriter] = st.sampled_from(("hold", "exclude"))

says = st.builds(
    Says,
    writer=st.sampled_from(WRITERS),
    key=st.sampled_from((*KEYS, LATER_KEY)),
    step=st.none() | st.integers(-1, 5),
    from_lower=st.booleans(),
    gains=st.dictionaries(_segments, st.integers(-1, 4), max_size=3),
    state=_states,
    max_time=st.none() | st.integers(-3, 3),
    order=st.sampled_from((None, -3, -1, 0, 1, 4)),
)
waits = st.builds(Waits, ms=st.integers(0, 7), expire=st.booleans())
advances = st.builds(Advances, key=_keys)
scales = st.builds(
    Scales,
    sealed=st.dictionaries(_segments, st.integers(-1, 2), max_size=2),
    created=st.dictionaries(
        _segments, st.lists(_segments, max_size=2, unique=True).map(tuple), max_size=2
    ),
)
reconfigures = st.builds(
    Reconfigures, returning=_returning, timeout_ms=st.integers(1, 12), later_key=st.booleans()
)
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(says, says, says, says, says, advances, advances, waits, scales, reconfigures),
    max_size=30,
)
starts = st.builds(
    StreamSettings,
    writer_timeout_ms=st.integers(3, 12),
    returning_writer=_returning,
    keys=st.just(KEYS),
)


class Twins:
    """The code and the model; every step asserts that both say the same."""

    def __init__(self, settings: StreamSettings) -> None:
        self.now = 0
        self.code = Aggregator(settings)
        self.model = Model(settings)
        self.positions: list[dict[int, int]] = []

    def take(self, step: Step) -> None:
        """Take one step on both sides and compare all that can be asked."""
        match step:
            case Says():
                self.says(step)
            case Waits():
                self.now += step.ms
                if step.expire:
                    self.expires()
            case Advances():
                self.advances(step.key)
            case Scales():
                self.scales(step)
            case Reconfigures():
                self.reconfigures(step)
        self.compare()

    def says(self, step: Says) -> None:
        """Hand the note to both."""
        note = self.note(step)
        answer = self.code.note(note, self.now)
        expected = self.model.note(note, self.now)
        self.model.settle(self.now)
        status, value = (
            (answer.status, answer.last)
            if isinstance(answer, Refused)
            else ("accepted", answer.lower)
        )
        assert (status, value) == expected, note

    def note(self, step: Says) -> Note:
        """Make the step absolute: from the writer's last time, or from the last lower."""
        writer = self.model.writers.get(step.writer)
        known = step.key in self.model.marks
        base = writer.time(step.key) if writer else NEVER
        if step.from_lower and known:
            base = self.model.lower(step.key)
        base = max(base, 0)
        said, sequence = (writer.position, writer.sequence) if writer else ({}, 0)
        return Note(
            step.writer,
            time=None if step.step is None else base + step.step,
            position={s: max(0, said.get(s, 0) + gain) for s, gain in step.gains.items()},
            key=step.key,
            max_time=None if step.max_time is None else base + step.max_time,
            state=step.state,
            sequence=None if step.order is None else max(1, sequence + step.order),
        )

    def expires(self) -> None:
        """Leave out the silent; before the time that was promised nobody may be silent."""
        promised = self.code.next_timeout()
        out = self.model.expire(self.now)
        assert not out or (promised is not None and promised <= self.now)
        assert set(self.code.expire(self.now)) == out

    def advances(self, key: str) -> Mark | None:
        """Let one key's time go on by a mark."""
        mark = self.code.advance(key, now=self.now, written_at=0)
        expected = self.model.advance(key, self.now)
        assert _plain(mark) == _plain(expected)
        return mark

    def scales(self, step: Scales) -> None:
        """Hand a scale event, right or wrong, to both."""
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

    def reconfigures(self, step: Reconfigures) -> None:
        """Change the settings of both."""
        keys = self.code.settings.keys
        if step.later_key and LATER_KEY not in keys:
            keys = (*keys, LATER_KEY)
        settings = replace(
            self.code.settings,
            returning_writer=step.returning,
            writer_timeout_ms=step.timeout_ms,
            keys=keys,
        )
        self.code.reconfigure(settings, self.now)
        self.model.reconfigure(settings, self.now)

    def compare(self) -> None:
        """Assert that both wait for the same members, since the same time."""
        for key in self.model.marks:
            decision = self.code.decide(key, self.now)
            waiting = decision.waiting_for if isinstance(decision, Hold) else ()
            assert {w.writer for w in waiting} == self.model.waiting_for(key)
            assert self.code.may_advance(key) == (self.model.next_lower(key) is not None)
            since = {w.writer: self.now - w.since_ms for w in waiting}
            began = {name: self.model.writers[name].began[key] for name in since}
            assert since == began

    def without(self, writer: str) -> dict[str, int | None]:
        """Return each key's lower once the model has really left the writer out."""
        later = deepcopy(self.model)
        member = later.writers.get(writer)
        if member is not None and member.state == "live":
            later.leave_out(member, self.now)
        for key in later.marks:
            later.advance(key, self.now)
        return {key: later.lower(key) for key in later.marks}


def _plain(mark: Mark | None) -> object:
    """Return what of a mark must agree; naming a segment at 0 says nothing in a cut."""
    if mark is None:
        return None
    cut = {s: offset for s, offset in mark.cut.offsets.items() if offset}
    return mark.seq, mark.lower, mark.upper, cut, mark.left_out
