"""Logs the events of a writer client and calls its callbacks, once per event."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from noted_time.client import Outage
from noted_time.values import (
    Beyond,
    Exclusion,
    NotedTimeError,
    Rejected,
    Session,
    describe_doubt,
    format_gap,
    format_time,
    look_like_seconds,
    pluralize,
)
from writer_client.sending.vouched import HeldBack

LATE_PERIOD_S = 60.0

_log = logging.getLogger("noted_time.writer")


class Notices:
    """The notices of one writer, recorded under its lock and reported by `emit`."""

    def __init__(
        self, stream: str, writer: str, url: str, on_excluded: Callable[[Exclusion], object] | None
    ) -> None:
        self._who = f"writer {writer!r} of stream {stream!r}"
        self._url = url
        self._on_excluded = on_excluded
        self._queue: deque[Callable[[], object]] = deque()
        self._outage = Outage(self._who)
        self._refusals: set[object] = set()
        self._exclusion: object = None
        self._doubted = False
        self._omits_contact = False
        self._is_behind = False
        self._late_reported = 0
        self._lateness = (0, 0)  # ms, and the time of the latest late row
        self._late_after = 0.0

    def __bool__(self) -> bool:
        return bool(self._queue)

    def emit(self) -> None:
        """Call it without the lock, because handlers may be slow."""
        while self._queue:
            try:
                report = self._queue.popleft()
            except IndexError:
                return
            with suppress(Exception):
                report()

    def report_failure(self, error: NotedTimeError, now: float) -> None:
        sentence = self._outage.record_failure(error, now=now)
        if sentence is not None:
            self._queue_warning("%s; notes are kept", sentence)

    def report_recovery(self, now: float) -> None:
        sentence = self._outage.record_answer(now=now)
        if sentence is not None:
            self._queue_warning("%s", sentence)

    def report_refusal(self, error: Rejected) -> None:
        kind = (type(error), getattr(error, "status", None))
        if kind not in self._refusals:
            self._refusals.add(kind)
            self._warn("%s: %s", error)

    def reset_refusals(self) -> None:
        self._refusals.clear()

    def warn_of_seconds(self, time: int) -> None:
        if look_like_seconds(time) and not self._doubted:
            self._doubted = True
            self._warn(
                "%s: it noted %s Times are Unix milliseconds, unless the stream has "
                "max_time_ahead_ms: null",
                describe_doubt(time),
            )

    def warn_of_contact(self, refusal: str) -> None:
        if not self._omits_contact:
            self._omits_contact = True
            self._warn(
                "%s: the controller refuses its contact, so notes are sent without it: upgrade the "
                "controller (%s)",
                refusal,
            )

    def warn_of_clock(self, ms: int) -> None:
        if ms > 0 and not self._is_behind:
            self._warn(
                "%s: its clock is %.1f s behind the last time that it noted. It notes this time "
                "until the clock has passed it. Events that are stamped below it are late",
                ms / 1000,
            )
        self._is_behind = ms > 0

    def warn_of_held_back(self, event: HeldBack) -> None:
        place = ""
        if event.written:
            ends = [f"{segment}:{offset}" for segment, offset in sorted(event.written.items())]
            place += f" below the offset {', '.join(ends)}"
        if event.domain is not None:
            place += f" of {event.domain}"
        self._warn(
            "%s: an event was written with the time %s%s: %s; until the writer notes a later "
            "time it leaves max_time out, and the upper of marks is not a bound",
            format_time(event.time),
            place,
            Beyond("max_time", event.time).sentence(event.bound),
        )

    def report_exclusion(self, exclusion: Exclusion | None) -> None:
        if exclusion is None or (exclusion.reason, exclusion.excluded_at) == self._exclusion:
            return
        self._exclusion = (exclusion.reason, exclusion.excluded_at)
        self._warn("%s is excluded: %s", exclusion.sentence)
        if self._on_excluded is not None:
            self._queue.append(partial(self._call_back, self._on_excluded, exclusion))

    def warn_of_takeover(self, session: Session) -> None:
        self._warn(
            "%s: the controller says that %s has its name, but this process had taken it over. So "
            "the controller's database is a backup, or a standby without the last commits. This "
            "process takes the name over again",
            session.who,
        )

    def count_late_rows(self, least_time: int, bound: int) -> None:
        self._lateness = max(self._lateness, (bound - least_time, least_time))

    def report_late_rows(self, total: int, now: float) -> None:
        if total > self._late_reported and now >= self._late_after:
            self._late_reported = total
            self._late_after = now + LATE_PERIOD_S
            lateness_ms, time = self._lateness
            self._lateness = (0, 0)
            extent = ""
            if lateness_ms:
                extent = f", by up to {format_gap(time, time + lateness_ms)} ({format_time(time)})"
            if total == 1:
                fact = f"1 row is late{extent}: it was written after its time had been noted"
            else:
                rows = pluralize(total, "row")
                fact = f"{rows} are late{extent}: they were written after their time had been noted"
            remedy = "Check the clock, the zone, and whether the input was sent twice"
            self._warn("%s: %s. %s", fact, remedy)

    def report_unsent(
        self, calls: int, last: int | None, error: BaseException | None, late: int
    ) -> None:
        self.report_late_rows(late, self._late_after)
        if calls:
            self._warn(
                "%s: notes not delivered to %s: %d (last time %s); the last error: %s",
                self._url,
                calls,
                format_time(last),
                error or "no answer in time",
            )

    def report_fault(self, fault: BaseException) -> None:
        report = partial(_log.critical, "%s: its sender failed", self._who, exc_info=fault)
        self._queue.append(report)

    def _warn(self, message: str, *facts: object) -> None:
        self._queue_warning(message, self._who, *facts)

    def _queue_warning(self, message: str, *facts: object) -> None:
        self._queue.append(partial(_log.warning, message, *facts))

    def _call_back(self, on_excluded: Callable[[Exclusion], object], exclusion: Exclusion) -> None:
        try:
            on_excluded(exclusion)
        except Exception:  # noqa: BLE001 - the sender survives any callback
            _log.exception("%s: on_excluded failed", self._who)
