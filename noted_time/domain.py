"""The members of a stream and one time domain: what was noted, who holds, and how it advances.

Every member that is waited for is in one of two places. Those whose time is above the last lower
are *ahead*, in a queue by time; the others *hold*. While anybody holds, time stands; when nobody
does, the least time ahead is the next lower, and those at exactly that time hold from then on. So a
note costs O(log members), and so does a member's share of an advance; nothing scans all members.

Entries may be stale: a member's time only rises, so an entry is at most too low, and is queued
again when its turn comes. What the cut of the next mark will be is in `running_cut`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING, Literal

from noted_time.cut import MIN_INT64
from noted_time.decision import Advance, Decision, Hold, Quiet, Waiting
from noted_time.mark import Mark
from noted_time.running_cut import RunningCut
from noted_time.time_queue import TimeQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from noted_time.note import State

HOLDERS_NAMED = 1000
"""A decision names so many holders; at the first advance of a large stream all of them hold."""


BEFORE_ALL_TIME = MIN_INT64 - 1
"""The time of a member that has not noted a key yet: below every int64."""

Role = Literal["ahead", "holds", "rests"]
"""`ahead` of the last lower; `holds` time back; `rests`: not waited for."""


@dataclass(slots=True, eq=False)
class Member:
    """A writer that has noted; membership is per writer, for all keys at once.

    `noted_at`, its last accepted note, and `since`, the last change of its membership, are on the
    service clock. `sequence` is the largest that it gave a request of which a note was accepted, 0
    where it gave none. Its tracks are those of the first key and the others: most streams have but
    one, and among 100,000 members each object more is a wait for memory.
    """

    writer: str
    state: State = "live"
    left_out: bool = False
    noted_at: int = 0
    since: int = 0
    sequence: int = 0
    position: dict[int, int] = field(default_factory=dict)
    first: Track = field(init=False)
    others: tuple[Track, ...] = ()
    is_queued_as_gone: bool = False

    @property
    def tracks(self) -> tuple[Track, ...]:
        """What it noted of each key, in the order of the keys."""
        return (self.first, *self.others)

    @property
    def vouches(self) -> bool:
        """Whether it is live and was heard in time."""
        return self.state == "live" and not self.left_out

    @property
    def is_gone(self) -> bool:
        """Whether it left or was left out."""
        return self.state == "left" or self.left_out

    @property
    def silent_since(self) -> int:
        """When (service clock) it was last heard of, or went."""
        return max(self.noted_at, self.since)


@dataclass(slots=True, eq=False)
class Track:
    """What one member noted of one key.

    `began` is the service time at which it last began to hold time back. The flags say which of
    the domain's queues hold an entry for this track, so that each holds at most one.
    """

    member: Member
    domain: Domain
    time: int = BEFORE_ALL_TIME
    max_time: int | None = None
    excluded: bool = False
    began: int = 0
    role: Role = "rests"
    in_ahead: bool = False
    in_timeouts: bool = False
    in_unrecorded: bool = False

    def left_out_at(self, timeout_ms: int) -> int:
        """Return when the member, if it holds and stays silent, is left out (service clock).

        The writer timeout counts from its last accepted note or the moment it began to hold,
        whichever is later.
        """
        return max(self.member.noted_at, self.began) + timeout_ms


class Domain:
    """The running state of one key; times on the service clock are called `now`."""

    __slots__ = (
        "_ahead",
        "_timeouts",
        "_unrecorded",
        "cut",
        "highest",
        "holders",
        "key",
        "last",
        "lower",
        "moved_at",
        "number",
        "upper",
    )

    def __init__(self, key: str, number: int, last: Mark | None = None, moved_at: int = 0) -> None:
        """Begin at the mark `last`, appended (or the key declared) at `moved_at`.

        `number` is the place of the key among those of the stream, and of a member's track of it.
        """
        self.key = key
        self.number = number
        self.last = last
        self.lower = last.lower if last else BEFORE_ALL_TIME
        self.moved_at = moved_at
        self.highest = BEFORE_ALL_TIME
        self.upper = last.upper if last else BEFORE_ALL_TIME
        self.holders: dict[str, Track] = {}
        self.cut = RunningCut(self.lower, last.cut if last else None)
        self._ahead: TimeQueue[Track] = TimeQueue()
        self._timeouts: TimeQueue[Track] = TimeQueue()
        self._unrecorded: TimeQueue[Track] = TimeQueue()

    # What notes do: plain code without small calls, since every note goes through it

    def note(self, track: Track, time: int | None, max_time: int | None) -> None:
        """Take in the time that the member noted and the largest event time that it wrote."""
        if max_time is not None:
            if max_time == time:
                max_time = time  # one object for both: 100,000 members more are in the cache
            if track.max_time is None or max_time > track.max_time:
                track.max_time = max_time
            if max_time > self.upper:  # noqa: PLR1730 - `max` would cost two calls a note
                self.upper = max_time
        if time is None:
            return
        if time > self.lower:
            track.excluded = False
        if time > track.time:  # noqa: PLR1730
            track.time = time
        if time > self.highest:  # noqa: PLR1730
            self.highest = time
        if time > self.upper and track.max_time is None:
            self.upper = time

    def place(self, track: Track, timeout_ms: int, now: int) -> None:
        """Put the track where its member's state and time belong."""
        member = track.member
        role: Role
        if member.left_out or member.state != "live" or track.excluded:
            role = "rests"
        else:
            role = "ahead" if track.time > self.lower else "holds"
        if role != track.role:
            self._change_role(track, role, timeout_ms, now)

    def exclude(self, track: Track) -> None:
        """Go on without a member that came back below the last lower."""
        track.excluded = True
        self.went_on_without(track)

    def went_on_without(self, track: Track) -> None:
        """Remember to record on the next mark above its time that the member is left out."""
        if not track.in_unrecorded:
            track.in_unrecorded = True
            self._unrecorded.push(track.time, track)

    def _change_role(self, track: Track, role: Role, timeout_ms: int, now: int) -> None:
        if track.role == "holds":
            del self.holders[track.member.writer]
        track.role = role
        if role == "holds":
            track.began = max(now, self.moved_at)
            self._hold(track, timeout_ms)
        elif role == "ahead" and not track.in_ahead:
            track.in_ahead = True
            self._ahead.push(track.time, track)

    def _hold(self, track: Track, timeout_ms: int) -> None:
        self.holders[track.member.writer] = track
        if not track.in_timeouts:
            track.in_timeouts = True
            self._timeouts.push(track.left_out_at(timeout_ms), track)

    def is_done_with(self, track: Track) -> bool:
        """Whether no later mark needs anything of a member that is gone.

        The last mark must say all that it said: reach its position and its times, and name it if it
        was left out. Then time goes the same way without it, after a restart too.
        """
        member, last = track.member, self.last
        if track.in_unrecorded and member.left_out:
            return False
        if last is None:
            return (track.time, track.max_time) == (BEFORE_ALL_TIME, None) and not member.position
        said, cut = track.time if track.max_time is None else track.max_time, last.cut.offsets
        # a segment must be named, as a later scale event may tell what naming it implies
        return (
            track.time <= last.lower
            and said <= last.upper
            and all(cut.get(segment, -1) >= offset for segment, offset in member.position.items())
        )

    # What time does

    def next_timeout(self) -> int | None:
        """Return a moment before which nobody here is left out, `None` if nobody holds."""
        return self._timeouts.least

    def overdue(self, now: int, timeout_ms: int) -> Iterator[Member]:
        """Yield the holders that were silent for the writer timeout at `now`."""
        while self._timeouts.due(now + 1):
            for track in self._timeouts.pop():
                track.in_timeouts = False
                if track.role != "holds":
                    continue
                if track.left_out_at(timeout_ms) <= now:
                    yield track.member
                else:
                    self._hold(track, timeout_ms)

    def requeue_timeouts(self, timeout_ms: int) -> None:
        """Take a changed writer timeout into account."""
        while self._timeouts:
            for track in self._timeouts.pop():
                track.in_timeouts = False
        for track in self.holders.values():
            self._hold(track, timeout_ms)

    # What comes of it

    def next_step(self) -> Advance | None:
        """Return where time may go now, `None` while it stands: the loop's cheap question."""
        if self.holders:
            return None
        least = self._least_ahead()
        if least is not None:
            return Advance(least)
        return Advance(self.highest, flush=True) if self.highest > self.lower else None

    def decide(self, now: int, timeout_ms: int) -> Decision:
        """Return what holds of time now, with the reason."""
        step = self.next_step()
        if step is not None:
            return step
        if not self.holders:
            return Quiet()
        longest = nsmallest(
            HOLDERS_NAMED, self.holders.values(), key=lambda each: (each.began, each.member.writer)
        )
        waiting = tuple(self._waiting(track, now, timeout_ms) for track in longest)
        return Hold(waiting, len(self.holders))

    def without(self, writer: str) -> int | None:
        """Return the lower that the stream would have if `writer` were left out now."""
        if len(self.holders) > (writer in self.holders):
            return self.last.lower if self.last else None
        least = self._least_ahead_without(writer)
        lower = max(self.highest, self.lower) if least is None else least
        return None if lower == BEFORE_ALL_TIME else lower

    def move(self, step: Advance, *, now: int, written_at: int, timeout_ms: int) -> Mark:
        """Advance to the step's lower and return the mark; the caller appends it."""
        lower = step.lower
        self.last = Mark(
            seq=self.last.seq + 1 if self.last else 1,
            lower=lower,
            upper=self.upper,
            cut=self.cut.at(lower),
            written_at=written_at,
            left_out=self._record_left_out(lower),
        )
        self.lower = lower
        self.moved_at = now
        if self._least_ahead() == lower:
            for track in self._ahead.pop():
                if track.role == "ahead" and track.time == lower:
                    track.in_ahead = False
                    track.role = "holds"
                    track.began = now
                    self._hold(track, timeout_ms)
                else:
                    self._queue_again(track)
        return self.last

    def _waiting(self, track: Track, now: int, timeout_ms: int) -> Waiting:
        return Waiting(
            writer=track.member.writer,
            time=None if track.time == BEFORE_ALL_TIME else track.time,
            since_ms=now - track.began,
            left_out_in_ms=max(0, track.left_out_at(timeout_ms) - now),
        )

    def _least_ahead(self) -> int | None:
        ahead = self._ahead
        while ahead:
            time, tracks = ahead.least, ahead.at_least()
            while tracks:
                track = tracks[-1]
                if track.role == "ahead":
                    if track.time == time:
                        return time
                    ahead.push(track.time, track)  # `_queue_again` without a call for each
                else:
                    track.in_ahead = False
                del tracks[-1]
            ahead.pop()
        return None

    def _queue_again(self, track: Track) -> None:
        """Queue a member where it is now, if it is still ahead: its entry was too low."""
        track.in_ahead = track.role == "ahead"
        if track.in_ahead:
            self._ahead.push(track.time, track)

    def _least_ahead_without(self, writer: str) -> int | None:
        least = self._least_ahead()
        if least is None or self._ahead.at_least()[-1].member.writer != writer:
            return least
        itself = self._ahead.at_least().pop()
        next_least = self._least_ahead()
        self._ahead.push(least, itself)
        return next_least

    def _record_left_out(self, lower: int) -> tuple[str, ...]:
        names: list[str] = []
        while self._unrecorded.due(lower):
            for track in self._unrecorded.pop():
                track.in_unrecorded = False
                if not (track.member.left_out or track.excluded):
                    continue
                if track.time < lower:
                    names.append(track.member.writer)
                else:
                    self.went_on_without(track)
        return tuple(sorted(names))
