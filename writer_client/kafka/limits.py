"""Checks an event's timestamp against the topic's limits."""

from __future__ import annotations

import logging
import time as clocks
from collections.abc import Mapping

from noted_time.kafka import Topic
from noted_time.values import LARGEST_TIME, NotedTimeError, Rejected, format_duration, format_time
from writer_client.sending.clock import unix_ms

BEFORE_LIMIT = "message.timestamp.before.max.ms"
AFTER_LIMIT = "message.timestamp.after.max.ms"

SETTINGS_S = 2.0  # the timeout of a read of the settings, and the pause between reads

APPEND_TIME_WARNING = (
    "Kafka topic %r stamps its records with the broker's time "
    "(message.timestamp.type=LogAppendTime): readers have to take the event time from the value, "
    "not from the timestamp"
)

DELETION_WARNING = (
    "Kafka will delete this record: its event_time %s is %s behind this clock, and topic %r has "
    "retention.ms=%d. Set retention.ms=-1, or more than the age of the events"
)

log = logging.getLogger("noted_time.writer.kafka")


def find_retention_ms(settings: Mapping[str, str]) -> int | None:
    """Return the age of the event times that a topic deletes, if it deletes any.

    >>> find_retention_ms({"retention.ms": "1000", "cleanup.policy": "compact,delete"})
    1000
    >>> find_retention_ms({"retention.ms": "-1", "cleanup.policy": "delete"})
    >>> find_retention_ms({"retention.ms": "1000", "cleanup.policy": "compact"})
    """
    if settings.get("message.timestamp.type") == "LogAppendTime":
        return None
    if "delete" not in settings.get("cleanup.policy", ""):
        return None
    retention_ms = int(settings.get("retention.ms", "-1"))
    return retention_ms if retention_ms >= 0 else None


class EventLimits:
    """The timestamps that a topic's settings accept and keep.

    Kafka refuses a whole batch for one bad timestamp. So call `check` for times outside `earliest`
    to `latest`. `check` also warns, once, of an event that Kafka will soon delete.
    """

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._read_at = -SETTINGS_S
        self._before = LARGEST_TIME
        self._after = LARGEST_TIME
        self._any_time = False
        self._retention_ms: int | None = None
        self._has_warned = False
        self._set_bounds()

    def check(self, stamp: int) -> None:
        if self._find_fault(stamp):
            self.read()  # the settings may have changed
            fault = self._find_fault(stamp)
            if fault:
                raise Rejected(f"the event was not sent: {fault}")
        self._warn_of_deletion(stamp)

    def _warn_of_deletion(self, stamp: int) -> None:
        retention_ms = self._retention_ms
        age_ms = unix_ms() - stamp
        if self._has_warned or retention_ms is None or age_ms <= retention_ms:
            return
        self._has_warned = True
        age = format_duration(age_ms)
        log.warning(DELETION_WARNING, format_time(stamp), age, self._topic.name, retention_ms)
        self._set_bounds()

    def _find_fault(self, stamp: int) -> str:
        now = self._set_bounds()
        if not 0 < stamp < LARGEST_TIME:
            return f"event_time must be positive and in int64, got {stamp}: Kafka reads 0 as 'now'"
        if now - self._before <= stamp <= self.latest:
            return ""
        gap = format_duration(abs(stamp - now))
        if stamp > now:
            distance = f"{gap} ahead of this clock"
            limit = f"after.max.ms={self._after}"
        else:
            distance = f"{gap} behind this clock"
            limit = f"before.max.ms={self._before}"
        return (
            f"event_time {format_time(stamp)} is {distance}, and Kafka topic {self._topic.name!r} "
            f"has message.timestamp.{limit}"
        )

    def _set_bounds(self) -> int:
        """Set the range that needs no check, and return the clock.

        The range is empty if the topic has a lower limit, because this rises with the clock.
        """
        now = unix_ms()
        self.earliest = 1 if self._before >= now else LARGEST_TIME
        if self._retention_ms is not None and not self._has_warned:
            self.earliest = max(self.earliest, now - self._retention_ms)
        self.latest = min(LARGEST_TIME - 1, now + self._after)
        return now

    def read(self) -> None:
        if clocks.monotonic() - self._read_at < SETTINGS_S:
            return
        try:
            values = self._topic.settings(timeout_s=SETTINGS_S)
        except NotedTimeError as error:
            log.info(
                "the timestamp limits of Kafka topic %r are not known: %s", self._topic.name, error
            )
        else:
            self._apply(values)
        self._read_at = clocks.monotonic()
        self._set_bounds()

    def _apply(self, settings: Mapping[str, str]) -> None:
        any_time = settings.get("message.timestamp.type") == "LogAppendTime"
        if any_time and not self._any_time:
            log.warning(APPEND_TIME_WARNING, self._topic.name)
        self._any_time = any_time
        self._retention_ms = find_retention_ms(settings)
        if any_time:
            self._before = LARGEST_TIME
            self._after = LARGEST_TIME
        else:
            # Kafka before 3.6 has one limit for both
            difference = settings.get("message.timestamp.difference.max.ms", LARGEST_TIME)
            self._before = int(settings.get(BEFORE_LIMIT, difference))
            self._after = int(settings.get(AFTER_LIMIT, difference))
