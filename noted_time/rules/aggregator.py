"""How notes aggregate to marks: one stream, all its domains, no clock and no I/O.

The rules are PDP-33's, with Hazelcast's keyed coalescing, made exact: a cut takes each member's
*first* note at or above the new lower, not its latest. The caller feeds notes, asks for timeouts,
and lets time advance; whatever changed is read back through `record` and the marks returned.

>>> from noted_time import Note, StreamSettings
>>> stream = Aggregator(StreamSettings())
>>> for writer in ("UA", "DL"):
...     _ = stream.note(Note(writer), now=0)
>>> for writer, time, segment in (("UA", 5, 0), ("DL", 9, 1)):
...     _ = stream.note(Note(writer, time, {segment: time * 10}, max_time=time), now=0)
>>> stream.advance("default", now=0, written_at=0)  # doctest: +NORMALIZE_WHITESPACE
Mark(seq=1, lower=5, upper=9, cut=StreamCut({0: 50, 1: 90}), written_at=0, excluded=(),
     upper_is_bound=True, final=False)
>>> stream.decide("default", now=0)  # doctest: +NORMALIZE_WHITESPACE
Hold(waiting_for=(Waiting(writer='UA', time=5, held_for_ms=0, times_out_in_ms=60000),),
     holders=1)
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from noted_time.rules.correction import planned, take
from noted_time.rules.domain import Domain
from noted_time.rules.dry_run import Would, would
from noted_time.rules.known_segments import NOT_NAMED, KnownSegments
from noted_time.rules.member import BEFORE_ALL_TIME
from noted_time.rules.record import record_of
from noted_time.rules.roster import Roster
from noted_time.rules.scaling import take_scale
from noted_time.rules.seal import seal
from noted_time.rules.sharing import Sharing
from noted_time.values import (
    LARGEST_TIME,
    LEAST_TIME,
    SEGMENTS_PER_POSITION,
    Accepted,
    AlreadySealed,
    Beyond,
    Refused,
    Rejected,
    StreamSealed,
    Succession,
    UnknownDomain,
    behind_of,
    gained_by,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from noted_time.rules.census import Census
    from noted_time.rules.correction import Correction, CorrectionRequest
    from noted_time.rules.member import Member, Track
    from noted_time.rules.record import MemberRecord
    from noted_time.rules.seal import Seal, SealRequest
    from noted_time.values import Absence, Decision, Mark, Note, ScaleEvent, StreamSettings


DOMAINS_NAMED = 10
"""So many of the domains that a writer vouches for are named where a note is of another."""

SEALED = Refused("sealed")

NO_DOMAIN: Mapping[str, Iterable[str]] = MappingProxyType({})

NOTHING: Mapping[int, int] = MappingProxyType({})
"""The position of a writer that is no member."""


class Aggregator:
    """The notes of one stream and the marks that follow from them.

    `now` is always the service clock in ms, `written_at` wall time in Unix ms. `unix_ahead` is how
    far Unix ms is ahead of the service clock at present: by it moments are kept for people.
    """

    def __init__(  # noqa: PLR0913 - all that a stream begins with
        self,
        settings: StreamSettings,
        succession: Succession | None = None,
        last_marks: Mapping[str, tuple[Mark, int]] | None = None,
        declared_at: Mapping[str, int] | None = None,
        *,
        sealed: Seal | None = None,
        unbounded: Collection[str] = (),
    ) -> None:
        """Begin empty, at the last mark per domain and the service time it was appended at.

        A domain without a mark begins where it was declared, 0 where that is not said. `sealed`
        says that the stream is, and how. `unbounded` is what the property had.
        """
        self.succession = succession or Succession()
        self.sealed = sealed
        last = last_marks or {}
        declared = declared_at or {}
        cuts = [mark.cut.offsets for mark, _ in last.values()]
        sharing = Sharing(self.succession.final, cuts)
        self._domains = {
            name: Domain(name, sharing, *last.get(name, (None, declared.get(name, 0))))
            for name in settings.domains
        }
        for domain in self._domains.values():
            domain.is_sealed = sealed is not None
            domain.is_unbounded = domain.name in unbounded
        self._numbers = {name: number for number, name in enumerate(self._domains)}
        self._segments = _known_segments(settings, self.succession, self._domains.values())
        self._roster = Roster(settings, self._domains.values(), self._segments, sharing)
        self._accepted = {name: _accepted(domain) for name, domain in self._domains.items()}
        self._default_domain = settings.domain_or_default(None)

    @property
    def settings(self) -> StreamSettings:
        """The settings in force."""
        return self._roster.settings

    @property
    def unix_ahead(self) -> int:
        """How far Unix ms is ahead of the service clock at present."""
        return self._roster.unix_ahead

    @unix_ahead.setter
    def unix_ahead(self, ms: int) -> None:
        self._roster.unix_ahead = ms

    @property
    def census(self) -> Census:
        """How many members are in each state."""
        return self._roster.census

    @property
    def unbounded(self) -> tuple[str, ...]:
        """The domains in which no later upper is a bound, as who wrote below the cut is gone."""
        return tuple(name for name, domain in self._domains.items() if domain.is_unbounded)

    # Notes

    def note(  # noqa: C901, PLR0911, PLR0912 - one for each refusal, on the hot path
        self, note: Note, now: int, largest_time: int = LARGEST_TIME
    ) -> Accepted | Refused:
        """Accept the note, or say what it fell behind; a refused note changes nothing.

        Neither its time nor a largest time of it may be above `largest_time`: one bad clock would
        make every other writer late. Nor may its `sequence` be below one that was accepted of its
        writer, which went on from there, whatever the note says. Nor may another process note under
        the writer's name, unless it takes the name over.
        """
        if self.sealed is not None:
            return SEALED
        member, sequence, session = self._roster.get(note.writer), note.sequence, note.session
        if member is not None:
            if sequence is not None and sequence < member.sequence:
                return Refused("superseded", member.sequence)
            held = member.session
            if (
                session != held.id
                and session is not None
                and not held.admits(session, takes_over=note.takes_over)
            ):
                return Refused("fenced", held)
        name, time, max_time, max_times = note.domain, note.time, note.max_time, note.max_times
        if name is None:
            name = self.domain_of(note) if time is None else self._default_domain
        number = self._numbers.get(name)
        if (
            number is None
            or (note.domains is not None and not self._declares(note.domains))
            or (max_times and not max_times.keys() <= self._domains.keys())
        ):
            return Refused("unknown_domain")
        if member is None and note.state != "live":
            return Refused("unknown_writer")
        if (
            (time is not None and not LEAST_TIME <= time <= largest_time)
            or (max_time is not None and not LEAST_TIME <= max_time <= largest_time)
            or (max_times and max(max_times.values()) > largest_time)
            or (max_times and min(max_times.values()) < LEAST_TIME)
        ):
            return _too_far_ahead(note, largest_time)
        vouched = note.domains if member is None else note.domains or member.terms.domains
        if vouched is not None and name not in vouched and _speaks_of_one_domain(note):
            return Refused("not_vouched", tuple(vouched)[:DOMAINS_NAMED])
        position = note.position
        if self.succession.final:  # what is not sealed implies nothing
            beyond = self.succession.beyond_the_end(position)
            if beyond:
                return Refused("invalid_position", beyond)
            position = self.succession.normalise(position)
        if member is not None and time is not None and time < (last := _last_time(member, number)):
            return Refused("invalid_time", last)
        known = NOTHING if member is None else member.position
        most, jump = SEGMENTS_PER_POSITION, self._segments.jump
        if len(known) + len(position) > most and len(known.keys() | position.keys()) > most:
            return Refused("too_many_segments", most)
        for segment, offset in position.items():
            if not 0 < offset - known.get(segment, NOT_NAMED) <= jump:
                behind = behind_of(position, known)
                if behind:
                    return Refused("invalid_position", behind)
                position = gained_by(position, known)
                refusal = self._segments.admit(position)
                if refusal is not None:
                    return refusal
                break
        if member is None:
            member = self._roster.join(note.writer, now)
        track = self._roster.accept(member, number, note, position, now)
        if track.exclusion is None and (time is not None or note.state != "live"):
            return self._accepted[name]
        return self.answer(note)

    def answer(self, note: Note) -> Accepted:
        """Return the answer to a note that was accepted, as of now."""
        name = self.domain_of(note)
        member = self._roster.member(note.writer)
        lower, exclusion = self._accepted[name].lower, member.track(self._numbers[name]).exclusion
        if note.state != "live" or note.time is not None:
            return Accepted(lower, exclusion)
        timeout_ms = member.terms.timeout_ms or self.settings.writer_timeout_ms
        if not member.position:
            return Accepted(lower, exclusion, timeout_ms=timeout_ms)
        times = {domain: member.track(number).time for domain, number in self._numbers.items()}
        noted = {domain: time for domain, time in times.items() if time > BEFORE_ALL_TIME}
        return Accepted(lower, exclusion, member.position, noted, timeout_ms)

    def domain_of(self, note: Note) -> str:
        """Return the domain that a note speaks of, which may be one that is not declared."""
        if _speaks_of_one_domain(note):
            return self._default_domain if note.domain is None else note.domain
        # joining, idle and finished apply to all
        default = self._default_domain
        return default if default in self._domains else self.settings.domains[0]

    def _declares(self, domains: Collection[str]) -> bool:
        return bool(domains) and all(name in self._domains for name in domains)

    # Time

    def expire(self, now: int) -> tuple[str, ...]:
        """Exclude the members that were silent for their timeout; returns their names."""
        return self._roster.expire(now)

    def forget_departed(self, now: int, limit: int) -> tuple[str, ...]:
        """Forget at most `limit` writers that are gone for the writer retention; returns them."""
        return self._roster.forget(now - self.settings.writer_retention_ms, limit)

    def next_timeout(self) -> int | None:
        """Return a service time before which no writer is excluded, `None` if nobody may be."""
        times = (domain.timeouts.next for domain in self._domains.values())
        return min((time for time in times if time is not None), default=None)

    def may_advance(self, domain: str) -> bool:
        """Whether `advance` would give a mark now."""
        return self.domain(domain).next_step() is not None

    def advance(self, domain: str, *, now: int, written_at: int) -> Mark | None:
        """Let time go on as far as the notes allow; returns the new mark if it did.

        Why it did not is what `decide` tells.
        """
        state = self.domain(domain)
        step = state.next_step()
        if step is None:
            return None
        timeout_ms = self.settings.writer_timeout_ms
        mark = state.move(step, now=now, written_at=written_at, timeout_ms=timeout_ms)
        self._accepted[domain] = _accepted(state)
        return mark

    def decide(self, domain: str, now: int) -> Decision:
        """Return the decision for `domain` at `now`, with its reason; raises `UnknownDomain`."""
        return self.domain(domain).decide(now, self.settings.writer_timeout_ms)

    def without(self, domain: str, writer: str) -> int | None:
        """Return the lower that the stream would have if `writer` were excluded now."""
        state = self.domain(domain)
        step = state.step_without(frozenset((writer,)))
        lower = step.lower if step else state.lower
        return None if lower == BEFORE_ALL_TIME else lower

    def would(
        self, domain: str, removed: Collection[str], writer_timeout_ms: int | None, now: int
    ) -> Would:
        """Return what would happen without these writers, or with another writer timeout.

        Nothing changes. Raises `UnknownDomain` and `UnknownWriter`.
        """
        return would(self._roster, self.domain(domain), removed, writer_timeout_ms, now)

    def last_mark(self, domain: str) -> Mark | None:
        """Return the last mark of `domain`; raises `UnknownDomain`."""
        return self.domain(domain).last

    def absences(self, domain: str) -> tuple[Absence, ...]:
        """Return whom the last mark of `domain` went on without, or who reported late rows."""
        return self.domain(domain).named

    def returned(self, domain: str) -> tuple[str, ...]:
        """Return who is missing no longer since the last mark of `domain`."""
        return self.domain(domain).returned

    def missing(self, domain: str) -> AbstractSet[str]:
        """Return the writers that the last mark of `domain` went on without, for reading only."""
        return self.domain(domain).absences.missing

    def late_rows(self, domain: str) -> int:
        """Return how many rows below the lower writers reported since the stream was read."""
        return self.domain(domain).late_rows

    # Members

    def __len__(self) -> int:
        return len(self._roster)

    def __contains__(self, writer: str) -> bool:
        return writer in self._roster

    def writers(self) -> Iterator[str]:
        """Yield the names of all members in the order in which they joined."""
        return self._roster.names()

    def member(self, writer: str) -> Member:
        """Return a member, for reading only; raises `UnknownWriter`."""
        return self._roster.member(writer)

    def tracks(self, domain: str) -> Iterable[Track]:
        """Yield how each member stands in `domain`, in the order in which they joined."""
        return self.domain(domain).tracks()

    def record(self, writer: str) -> MemberRecord:
        """Return what must outlive the process of `writer`; raises `UnknownWriter`."""
        return record_of(self._roster.member(writer), self._domains)

    def holding_since(self, writer: str) -> int | None:
        """Return since when (service clock) `writer` holds any domain, `None` if it does not."""
        tracks = self._roster.member(writer).tracks
        return min((track.began for track in tracks if track.role == "holds"), default=None)

    def expect(self, writers: Iterable[str], now: int) -> list[str]:
        """Make members of those that are none yet, which hold time from now on; returns them.

        Raises `StreamSealed`.
        """
        new = [writer for writer in writers if writer not in self._roster]
        if new and self.sealed is not None:
            raise StreamSealed("writers")
        return self._roster.expect(new, now)

    def remove(self, writer: str, now: int, by: str | None = None) -> None:
        """Exclude a writer by hand, at its last position.

        Raises `UnknownWriter`, and `StreamSealed` as nothing waits for it then.

        Its times count no more. If it comes back it begins anew, but for its position.
        """
        if self.sealed is not None:
            raise StreamSealed("changes of its writers")
        self._roster.remove(writer, now, by)

    def hold(self, writer: str, until: int | None) -> None:
        """Let no timeout exclude `writer` before `until`; `None`: as usual. Raises as `remove`."""
        if self.sealed is not None:
            raise StreamSealed("changes of its writers")
        self._roster.hold(writer, until)

    def restore(
        self, records: Iterable[MemberRecord], missing: Mapping[str, Iterable[str]] = NO_DOMAIN
    ) -> None:
        """Take the members back after a restart, as `Roster.restore` says."""
        self._roster.restore(records, missing)

    # Changes of the stream

    def scale(self, event: ScaleEvent) -> None:
        """Take a scale event in; raises `InvalidScale` and changes nothing where it is wrong.

        Raises `StreamSealed` and `TooManySegments` too.
        """
        if self.sealed is not None:
            raise StreamSealed("scale events")
        take_scale(self._roster, self.succession, event)

    def settle(self, first_cuts: Iterable[Mapping[int, int]]) -> None:
        """Learn the cuts of the first marks that are kept, one for each domain.

        Sealed segments that these have whole count no more towards `max_segments`.
        """
        self._segments.settle(self.succession.final, first_cuts)

    def plan_correction(
        self, writer: str, request: CorrectionRequest, below: Iterable[Mapping[int, int]]
    ) -> Correction:
        """Return what would be taken for wrong offsets, see `correction.planned`.

        Raises `StreamSealed` and `UnknownWriter`; nothing changes.
        """
        if self.sealed is not None:
            raise StreamSealed("corrections")
        return planned(self._roster, writer, request, below)

    def correct(
        self, writer: str, request: CorrectionRequest, correction: Correction, now: int
    ) -> None:
        """Put a writer's position right as it was planned, and all cuts to come."""
        take(self._roster, writer, request, correction, now)

    def seal(self, request: SealRequest, *, now: int, written_at: int) -> Seal:
        """Make the last marks and finish every member, as `noted_time.rules.seal.seal` says.

        The same request again changes nothing; another one raises `AlreadySealed`.
        """
        if self.sealed is None:
            self.sealed = seal(
                self._roster, self.succession, request, now=now, written_at=written_at
            )
            self._accepted = {name: _accepted(each) for name, each in self._domains.items()}
        elif self.sealed.request != request:
            raise AlreadySealed
        return self.sealed

    def reconfigure(self, settings: StreamSettings, now: int) -> None:
        """Take changed settings; domains can be added, not taken away (raises `Rejected`)."""
        missing = [name for name in self.settings.domains if name not in settings.domains]
        if missing:
            message = f"domains can be added, not taken away: {', '.join(missing)} missing"
            raise Rejected(message)
        if self.sealed is not None and len(settings.domains) > len(self._domains):
            raise StreamSealed("domains")
        self._default_domain = settings.domain_or_default(None)
        for name in settings.domains:
            if name not in self._domains:
                domain = self._domains[name] = Domain(name, self._roster.sharing, moved_at=now)
                self._numbers[name] = len(self._numbers)
                self._accepted[name] = _accepted(domain)
                self._roster.declare(domain)
        self._segments.reconfigure(settings)
        self._roster.reconfigure(settings, now)

    def domain(self, name: str) -> Domain:
        """Return the running state of a domain, for reading only; raises `UnknownDomain`."""
        try:
            return self._domains[name]
        except KeyError:
            raise UnknownDomain(name, self._domains) from None


def _known_segments(
    settings: StreamSettings, succession: Succession, domains: Iterable[Domain]
) -> KnownSegments:
    """Return what last marks and scale events say of segments; members add what they noted."""
    segments = KnownSegments(settings)
    segments.offsets |= dict.fromkeys(succession.created, -1)
    segments.join(succession.final)
    for domain in domains:
        segments.join(domain.last.cut.offsets if domain.last else {})
    return segments


def _accepted(domain: Domain) -> Accepted:
    """Return the answer to every note of a domain until its next mark."""
    return Accepted(domain.last.lower if domain.last else None)


def _speaks_of_one_domain(note: Note) -> bool:
    return note.domain is not None or note.time is not None or note.max_time is not None


def _too_far_ahead(note: Note, largest_time: int) -> Refused:
    """Refuse a note for the first of its times that is beyond the bound, or an end of int64."""
    times = [("time", note.time), ("max_time", note.max_time)]
    times += [(f"max_times.{name}", time) for name, time in (note.max_times or {}).items()]
    beyond = (
        Beyond(field, time)
        for field, time in times
        if time is not None and not LEAST_TIME <= time <= largest_time
    )
    return Refused("too_far_ahead", largest_time, next(beyond))


def _last_time(member: Member, number: int) -> int:
    """Return the time that the next may not be below; a removed writer begins anew."""
    return BEFORE_ALL_TIME if member.excluded == "removed" else member.track(number).time
