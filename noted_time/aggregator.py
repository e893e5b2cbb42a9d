"""How notes aggregate to marks: one stream, all its keys, no clock and no I/O.

The rules are PDP-33's, with Hazelcast's keyed coalescing, made exact: a cut takes each member's
*first* note at or above the new lower, not its latest. The caller feeds notes, asks for timeouts,
and lets time advance; whatever changed is read back through `record` and the marks returned.

>>> from noted_time import Note, StreamSettings
>>> stream = Aggregator(StreamSettings())
>>> for writer in ("UA", "DL"):
...     _ = stream.note(Note(writer), now=0)
>>> for writer, time in (("UA", 5), ("DL", 9)):
...     _ = stream.note(Note(writer, time, {0: time * 10}), now=0)
>>> stream.advance("default", now=0, written_at=0)
Mark(seq=1, lower=5, upper=9, cut=StreamCut({0: 90}), written_at=0, left_out=())
>>> stream.decide("default", now=0)
Hold(waiting_for=(Waiting(writer='UA', time=5, since_ms=0, left_out_in_ms=60000),), holders=1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.answer import Accepted, Refused
from noted_time.census import Census
from noted_time.cut import behind_of, gained_by, join_into
from noted_time.departures import Departures
from noted_time.domain import Domain, Member, Track
from noted_time.errors import InvalidScale, Rejected, UnknownKey
from noted_time.note import SEGMENTS_PER_POSITION, is_above
from noted_time.record import record_of
from noted_time.succession import Succession

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from noted_time.decision import Decision
    from noted_time.mark import Mark
    from noted_time.note import NoteLike, State
    from noted_time.record import MemberRecord
    from noted_time.settings import StreamSettings
    from noted_time.succession import ScaleEvent


class Aggregator:
    """The notes of one stream and the marks that follow from them.

    `now` is always the service clock in ms, `written_at` wall time in Unix ms.
    """

    def __init__(
        self,
        settings: StreamSettings,
        succession: Succession | None = None,
        last_marks: Mapping[str, tuple[Mark, int]] | None = None,
        declared_at: Mapping[str, int] | None = None,
    ) -> None:
        """Begin empty, at the last mark per key and the service time it was appended at.

        A key without a mark begins where it was declared, 0 where that is not said.
        """
        self.settings = settings
        self.succession = succession or Succession()
        self.census = Census()
        self._members: dict[str, Member] = {}
        self._departures = Departures()
        last = last_marks or {}
        declared = declared_at or {}
        self._domains = {
            key: Domain(key, number, *last.get(key, (None, declared.get(key, 0))))
            for number, key in enumerate(settings.keys)
        }
        self._accepted = {key: _accepted(domain) for key, domain in self._domains.items()}
        self._default_key = settings.key_or_default(None)

    # Notes

    def note(  # noqa: C901, PLR0911, PLR0912 - one for each refusal, on the hot path
        self, note: NoteLike, now: int, largest_time: int | None = None
    ) -> Accepted | Refused:
        """Accept the note, or say what it fell behind; a refused note changes nothing.

        Neither its time nor its `max_time` may be above `largest_time`, where that is given: one
        bad clock would make every other writer late. Nor may its `sequence` be below one that was
        accepted of its writer, which went on from there, whatever the note says.
        """
        key, time, sequence = note.key, note.time, note.sequence
        if key is None:
            key = self.key_of(note) if time is None else self._default_key
        domain = self._domains.get(key)
        if domain is None:
            return Refused("unknown_key", self.settings.keys)
        member = self._members.get(note.writer)
        if sequence is not None and member is not None and sequence < member.sequence:
            return Refused("superseded", member.sequence)
        if largest_time is not None and is_above(note, largest_time):
            return Refused("too_far_ahead", largest_time)
        position = note.position
        if self.succession.final:  # what is not sealed implies nothing
            beyond = self.succession.beyond_the_end(position)
            if beyond:
                return Refused("invalid_position", beyond)
            position = self.succession.normalise(position)
        most = SEGMENTS_PER_POSITION
        if member is None:
            if len(position) > most:
                return Refused("too_many_segments", most)
            member = self._join(note.writer, now)
        track = member.others[domain.number - 1] if domain.number else member.first
        if time is not None and time < track.time:
            return Refused("invalid_time", track.time)
        known = member.position
        for segment, offset in position.items():
            if offset <= known.get(segment, -1):
                behind = behind_of(position, known)
                if behind:
                    return Refused("invalid_position", behind)
                position = gained_by(position, known)
                break
        if len(known) + len(position) > most and len(known.keys() | position.keys()) > most:
            return Refused("too_many_segments", most)
        self._accept(track, note, position, now)
        return self._accepted[key]

    def key_of(self, note: NoteLike) -> str:
        """Return the key that a note speaks of, which may be one that is not declared."""
        key = self._default_key if note.key is None else note.key
        if note.key is None and note.time is None and note.max_time is None:
            # it speaks of no key: joining, idle and left apply to all
            return key if key in self._domains else self.settings.keys[0]
        return key

    def _join(
        self, writer: str, now: int, state: State = "left", *, left_out: bool = False
    ) -> Member:
        member = Member(writer, state, left_out, noted_at=now, since=now)
        member.first, *others = [Track(member, domain) for domain in self._domains.values()]
        member.others = tuple(others)
        self._members[writer] = member
        self.census.enter(member)
        return member

    def _accept(self, track: Track, note: NoteLike, gained: Mapping[int, int], now: int) -> None:
        member, domain, state = track.member, track.domain, note.state
        changes, returns = member.left_out or member.state != state, False
        if changes:
            returns = self._change_state(member, state, now)
        member.noted_at = now
        if note.sequence is not None:
            member.sequence = note.sequence
        if gained:
            member.position.update(gained)
            first = member.first
            first.domain.cut.add(first.time, gained)
            for each in member.others:
                each.domain.cut.add(each.time, gained)
        domain.note(track, note.time, note.max_time)
        if returns and self.settings.returning_writer == "exclude":
            self._exclude(member)
        if changes:
            self._place(member, now)
        elif track.role != "ahead":
            domain.place(track, self.settings.writer_timeout_ms, now)
        if state == "left":
            self._departures.add(member)

    def _change_state(self, member: Member, state: State, now: int) -> bool:
        """Change the membership; returns whether the member is waited for from now on."""
        returns = state == "live" and not member.vouches
        self.census.leave(member)
        member.since = now
        member.state = state
        member.left_out = False
        self.census.enter(member)
        if state != "live":
            for track in member.tracks:
                track.excluded = False
        return returns

    def _exclude(self, member: Member) -> None:
        for track in member.tracks:
            domain = track.domain
            if domain.last is not None and track.time <= domain.lower:
                domain.exclude(track)

    def _place(self, member: Member, now: int) -> None:
        timeout_ms = self.settings.writer_timeout_ms
        for track in member.tracks:
            track.domain.place(track, timeout_ms, now)

    # Time

    def expire(self, now: int) -> tuple[str, ...]:
        """Leave out the holders that were silent for the writer timeout; returns their names."""
        timeout_ms = self.settings.writer_timeout_ms
        overdue = {
            member.writer: member
            for domain in self._domains.values()
            for member in domain.overdue(now, timeout_ms)
        }
        for member in overdue.values():
            self.census.leave(member)
            member.left_out = True
            member.since = now
            self.census.enter(member)
            for track in member.tracks:
                track.domain.went_on_without(track)
            self._place(member, now)
            self._departures.add(member)
        return tuple(overdue)

    def forget_departed(self, now: int, limit: int) -> tuple[str, ...]:
        """Forget at most `limit` writers that are gone for the writer retention; returns them.

        Never one that a mark has still to name or to cover. Who comes back after it is new.
        """
        horizon = now - self.settings.writer_retention_ms
        gone = self._departures.due(horizon + 1, _is_done_with, limit)
        for member in gone:
            self.census.leave(member)
            del self._members[member.writer]
        return tuple(member.writer for member in gone)

    def next_timeout(self) -> int | None:
        """Return a service time before which no writer is left out, `None` if nobody holds."""
        times = (domain.next_timeout() for domain in self._domains.values())
        return min((time for time in times if time is not None), default=None)

    def may_advance(self, key: str) -> bool:
        """Whether `advance` would give a mark now."""
        return self._domain(key).next_step() is not None

    def advance(self, key: str, *, now: int, written_at: int) -> Mark | None:
        """Let time go on as far as the notes allow; returns the new mark if it did.

        Why it did not is what `decide` tells.
        """
        domain = self._domain(key)
        step = domain.next_step()
        if step is None:
            return None
        timeout_ms = self.settings.writer_timeout_ms
        mark = domain.move(step, now=now, written_at=written_at, timeout_ms=timeout_ms)
        self._accepted[key] = _accepted(domain)
        return mark

    def decide(self, key: str, now: int) -> Decision:
        """Return the decision for `key` at `now`, with its reason; raises `UnknownKey`."""
        return self._domain(key).decide(now, self.settings.writer_timeout_ms)

    def without(self, key: str, writer: str) -> int | None:
        """Return the lower that the stream would have if `writer` were left out now."""
        return self._domain(key).without(writer)

    def last_mark(self, key: str) -> Mark | None:
        """Return the last mark of `key`; raises `UnknownKey`."""
        return self._domain(key).last

    # Members

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, writer: str) -> bool:
        return writer in self._members

    def writers(self) -> Iterator[str]:
        """Yield the names of all members in the order in which they joined."""
        return iter(self._members)

    def holders(self) -> set[str]:
        """Return the names of the members that hold any key's time back now."""
        return {writer for domain in self._domains.values() for writer in domain.holders}

    def holding(self, key: str) -> Mapping[str, Track]:
        """Return the members that hold `key` back now; a view, for reading only."""
        return self._domain(key).holders

    def record(self, writer: str) -> MemberRecord:
        """Return what must outlive the process of `writer`."""
        return record_of(self._members[writer])

    def holding_since(self, writer: str) -> int | None:
        """Return since when (service clock) `writer` holds any key, `None` if it does not."""
        tracks = self._members[writer].tracks
        return min((track.began for track in tracks if track.role == "holds"), default=None)

    def restore(self, records: Iterable[MemberRecord]) -> None:
        """Take the members back after a restart.

        The history that made cuts tight is gone: each member has one note, at its latest position,
        so the next cut may be loose, never unsound.
        """
        for record in records:
            member = self._join(
                record.writer, record.noted_at, record.state, left_out=record.left_out
            )
            member.since = record.since
            member.sequence = record.sequence
            member.position.update(record.position)
            for track in member.tracks:
                self._restore_track(track, record)
            self._place(member, record.since)
            if member.is_gone:
                self._departures.add(member)

    def _restore_track(self, track: Track, record: MemberRecord) -> None:
        domain = track.domain
        domain.cut.add(track.time, record.position)
        domain.note(track, record.times.get(domain.key), record.max_times.get(domain.key))
        exclude = self.settings.returning_writer == "exclude"
        track.excluded = exclude and track.member.vouches and track.time < domain.lower
        unrecorded = track.time >= domain.lower or record.since > domain.moved_at
        if unrecorded and (record.left_out or track.excluded):
            domain.went_on_without(track)

    # Changes of the stream

    def scale(self, event: ScaleEvent) -> None:
        """Take a scale event in; raises `InvalidScale` and changes nothing where it is wrong."""
        known = self._known_segments()
        self.succession.check(event, known)
        for member in self._members.values():
            for segment, offset in event.sealed.items():
                if member.position.get(segment, 0) > offset:
                    noted = member.position[segment]
                    reason = f"sealed at {offset}, but writer {member.writer!r} noted {noted}"
                    raise InvalidScale(segment, reason)
        self.succession.scale(event, known)
        for segment in event.created:
            self._complete_predecessors(segment)

    def _known_segments(self) -> set[int]:
        cuts = (domain.last.cut.offsets for domain in self._domains.values() if domain.last)
        return set().union(*cuts, *(member.position for member in self._members.values()))

    def _complete_predecessors(self, segment: int) -> None:
        floor = dict(self.succession.normalise({segment: 0}))
        named = frozenset((segment,))
        for member in self._members.values():
            if segment in member.position:
                join_into(member.position, floor)
        for domain in self._domains.values():
            domain.cut.complete(floor, named)

    def reconfigure(self, settings: StreamSettings, now: int) -> None:
        """Take changed settings; keys can be added, not taken away (raises `Rejected`)."""
        missing = [key for key in self.settings.keys if key not in settings.keys]
        if missing:
            message = f"keys can be added, not taken away: {', '.join(missing)} missing"
            raise Rejected(message)
        self.settings = settings
        self._default_key = settings.key_or_default(None)
        for key in settings.keys:
            if key not in self._domains:
                self._declare_key(key, now)
        for member in self._members.values():
            self._reconsider(member, now)
        for domain in self._domains.values():
            domain.requeue_timeouts(settings.writer_timeout_ms)

    def _declare_key(self, key: str, now: int) -> None:
        domain = self._domains[key] = Domain(key, len(self._domains), moved_at=now)
        self._accepted[key] = _accepted(domain)
        for member in self._members.values():
            track = Track(member, domain)
            member.others += (track,)
            domain.cut.add(track.time, member.position)

    def _reconsider(self, member: Member, now: int) -> None:
        exclude = self.settings.returning_writer == "exclude"
        for track in member.tracks:
            domain = track.domain
            if not exclude and track.excluded:
                track.excluded = False
                member.since = now
            elif exclude and member.vouches and not track.excluded and track.time < domain.lower:
                domain.exclude(track)
        self._place(member, now)

    def _domain(self, key: str) -> Domain:
        try:
            return self._domains[key]
        except KeyError:
            raise UnknownKey(key, self._domains) from None


def _is_done_with(member: Member) -> bool:
    return all(track.domain.is_done_with(track) for track in member.tracks)


def _accepted(domain: Domain) -> Accepted:
    """Return the answer to every note of a key until its next mark."""
    return Accepted(domain.last.lower if domain.last else None)
