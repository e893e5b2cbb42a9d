"""The times and the position that a writer has noted, and additions to its notes."""

from __future__ import annotations

import os
import secrets
import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from noted_time.values import (
    HOUR_MS,
    MAX_INT64,
    MIN_INT64,
    MOST_DOMAINS,
    MOST_LATE,
    UNCHANGED_TIMEOUT,
    InvalidNote,
    LateRows,
    LogFact,
    Note,
    Rejected,
    Session,
    choose_domain,
    convert_position,
    join_into,
    list_reports,
    validate_name,
)

EMPTY_POSITION: Mapping[int, int] = {}


class HeldBack(NamedTuple):
    """An event above the allowed `bound`; later notes do not declare its time."""

    domain: str | None
    time: int
    bound: int
    written: Mapping[int, int]  # the event's exclusive offsets, as far as known


class VouchedTimes:
    """A writer's position, and its times by domain; none goes back.

    `position` is replaced, never changed: waiting notes share it.
    """

    def __init__(self, writer: str, domains: Sequence[str] | None) -> None:
        self.writer = writer
        self.position: dict[int, int] = {}
        self.last_domain = domains[0] if domains else None
        self.known_times: Mapping[str, int] = {}  # at the controller
        self.known_timeout_ms: int | None = None  # as of the last join
        self._vouched = None if domains is None else tuple(domains)
        self._times: dict[str | None, int] = {}
        self._largest: dict[str | None, int] = {}
        self._written: dict[str | None, Mapping[int, int]] = {}
        self._held_back: dict[str | None, int] = {}
        self.declared_domains: tuple[str, ...] = ()

    def get_time(self, domain: str | None) -> int | None:
        return self._times.get(domain)

    def get_largest(self, domain: str | None) -> int | None:
        """Return the largest event time to declare.

        After a refusal it is `None` until the writer's time has passed the refused time: a smaller
        one would not bound the written events.
        """
        held_time = self._held_back.get(domain)
        if held_time is not None and self._times.get(domain, held_time - 1) < held_time:
            return None
        return self._largest.get(domain)

    def add_max_times(self, note: Note) -> Note:
        """Add the times that bound all rows below the note's position when it is sent."""
        max_times: dict[str, int] = {}
        for domain in self._largest.keys() - {note.domain}:
            name = self._find_name(domain)
            time = self.get_largest(domain)
            if name is not None and time is not None:
                max_times[name] = max(time, max_times.get(name, time))
        listed_times = dict(islice(sorted(max_times.items()), MOST_DOMAINS))
        return replace(note, max_time=self.get_largest(note.domain), max_times=listed_times or None)

    @property
    def domains(self) -> int:
        return min(len(self._largest), MOST_DOMAINS)

    def get_known_time(self, domain: str | None) -> int | None:
        return self.known_times.get(self._find_known_name(domain))

    def learn_time(self, domain: str | None, last: int) -> None:
        self.known_times = {**self.known_times, self._find_known_name(domain): last}

    def _find_known_name(self, domain: str | None) -> str:
        return domain or choose_domain(self.declared_domains)

    def _find_name(self, domain: str | None) -> str | None:
        """Return the name of a domain, `None` if the default is not a domain of the stream."""
        if domain is not None:
            return domain
        name = choose_domain(self.declared_domains)
        if self.declared_domains and name not in self.declared_domains:
            return None
        return name

    def check_time(self, time: int, domain: str | None) -> None:
        check_int64("time", time)
        self._check_domain(domain)
        last = self._times.get(domain)
        if last is not None and time < last:
            raise InvalidNote(self.writer, "invalid_time", last)

    def note(self, time: int, domain: str | None) -> None:
        self._times[domain] = time
        self.last_domain = domain

    def declare(
        self, domain: str | None, event_time: int, offsets: Mapping[int, int] = EMPTY_POSITION
    ) -> None:
        check_int64("event time", event_time)
        self._check_domain(domain)
        if event_time > self._largest.get(domain, MIN_INT64 - 1):
            self._largest[domain] = event_time
            self._written[domain] = offsets

    def move(self, position: Mapping[int, int]) -> None:
        earlier_position = self.position
        offsets = convert_position(position)
        behind = {
            segment: earlier_position[segment]
            for segment, offset in offsets.items()
            if offset < earlier_position.get(segment, 0)
        }
        if behind:
            raise InvalidNote(self.writer, "invalid_position", behind)
        self.learn(offsets)

    def learn(self, offsets: Mapping[int, int]) -> None:
        position = self.position
        if any(offset > position.get(segment, -1) for segment, offset in offsets.items()):
            position = dict(position)
            join_into(position, offsets)
            self.position = position

    def keep(self, declared_domains: tuple[str, ...]) -> list[str]:
        """Stop declaring times of all other domains, and return these."""
        self.declared_domains = declared_domains
        unknown_domains = [
            domain
            for domain in self._largest
            if domain is not None and domain not in declared_domains
        ]
        for domain in unknown_domains:
            del self._largest[domain]
            self._held_back.pop(domain, None)
        return unknown_domains

    def is_named(self, domain: str | None, declared_domains: tuple[str, ...]) -> bool:
        return self._find_name(domain) in declared_domains

    def take_back(self, domain: str | None, bound: int) -> list[HeldBack]:
        """Stop declaring times above `bound`, which the controller refuses.

        Returns the events that were not held back before.
        """
        if self._times.get(domain, bound) > bound:
            del self._times[domain]
        new_events = []
        for name, time in self._largest.items():
            if time > bound and self._held_back.get(name) != time:
                self._held_back[name] = time
                new_events.append(HeldBack(name, time, bound, self._written[name]))
        return new_events

    def forget(self, domain: str | None, *, instead: str) -> None:
        self._times.pop(domain, None)
        self._largest.pop(domain, None)
        self._held_back.pop(domain, None)
        self.last_domain = instead

    def _check_domain(self, domain: str | None) -> None:
        if domain is None:
            return
        validate_name("domain", domain)
        if self._vouched is not None and domain not in self._vouched:
            raise InvalidNote(self.writer, "not_vouched", self._vouched)


class Process(NamedTuple):
    """A process that notes."""

    session: str | None
    label: str

    @classmethod
    def own(cls) -> Process:
        return cls(secrets.token_hex(8), f"{socket.gethostname()[:100]}:{os.getpid()}")


class LateHours:
    """Late rows that are not reported yet, in a limited number of groups by hour."""

    __slots__ = ("_reports",)

    def __init__(self) -> None:
        self._reports: dict[tuple[int, int], LateRows] = {}

    def add(self, late: LateRows) -> None:
        reports = self._reports
        max_time = MAX_INT64 if late.max_time is None else late.max_time
        hours = (late.min_time // HOUR_MS, max_time // HOUR_MS)
        earlier_rows = reports.get(hours)
        reports[hours] = late if earlier_rows is None else earlier_rows.join(late)
        if len(reports) > MOST_LATE:
            first, second = sorted(reports)[:2]
            self.add(reports.pop(first).join(reports.pop(second)))

    def take(self) -> tuple[LateRows, ...]:
        reports = tuple(self._reports.values())
        self._reports = {}
        return reports


class NoteExtras:
    """The parts that a client adds to every note: its process, its terms and its late rows.

    Until the first note is accepted, each one asks to take over the writer's name. Terms are sent
    with each live note, because the stream may be recreated.
    """

    def __init__(
        self,
        domains: Sequence[str] | None,
        timeout_ms: int | None,
        process: Process | None,
        contact: str | None = None,
    ) -> None:
        self.takes_over = process is not None
        self.took_over: tuple[str, ...] = ()  # the sessions that lost the name
        self.no_time_reason: str | None = None  # why the live writer does not note
        self.log: str | None = None
        self.observes = False
        self.because: tuple[LogFact, ...] = ()
        self._process = process or Process(None, "")
        self._contact = contact
        self.total = 0
        self._domains = None if domains is None else tuple(domains)
        self._timeout_ms = UNCHANGED_TIMEOUT if timeout_ms is None else timeout_ms
        self._unreported: defaultdict[str | None, LateHours] = defaultdict(LateHours)

    @property
    def late_domains(self) -> list[str | None]:
        return list(self._unreported)

    def add(self, domain: str | None, late: LateRows) -> None:
        self.total += late.rows
        self._unreported[domain].add(late)

    def attach(self, note: Note) -> Note:
        late_hours = self._unreported.pop(note.domain, LateHours())
        took_over = None
        if self.takes_over and self.took_over:
            took_over = self.took_over
        note = replace(
            note,
            late_rows=late_hours.take() or None,
            session=self._process.session,
            takes_over=self.takes_over and not self.took_over,
            took_over=took_over,
            label=self._process.label,
        )
        if note.state != "live":
            return note
        return replace(
            note,
            domains=self._domains,
            timeout_ms=self._timeout_ms,
            no_time_reason=self.no_time_reason,
            log=self.log,
            observes=self.observes,
            because=self.because,
            contact=self._contact,
        )

    def takes_over_again(self, session: Session) -> bool:
        """Take the name over again if a restored controller forgot the takeover of the session."""
        if self.takes_over or session.id not in self.took_over:
            return False
        self.takes_over = True
        return True

    def detach(self, note: Note) -> Note:
        for late in list_reports(note.late_rows):
            self._unreported[note.domain].add(late)
        return replace(note, late_rows=None)


def validate_domains(domains: Sequence[str] | None) -> tuple[str, ...] | None:
    if domains is None:
        return None
    if isinstance(domains, str) or not domains:
        raise Rejected(f"domains must be a list of one or more names, not {domains!r}")
    return tuple(validate_name("domain", domain) for domain in dict.fromkeys(domains))


def check_int64(name: str, value: int) -> None:
    if not MIN_INT64 < value < MAX_INT64:
        ends = " within its ends" if value in (MIN_INT64, MAX_INT64) else ""
        raise Rejected(f"{name} {value} is not an int64{ends}")
