"""What Kafka refuses of an event, known before it is sent."""

from __future__ import annotations

import logging
import time as clocks
from collections.abc import Mapping
from typing import Any

from noted_time.kafka import Topic
from noted_time.values import (
    LARGEST_TIME,
    NotedTimeError,
    Rejected,
    shown_duration,
    shown_time,
)
from writer_client.sending.clock import unix_ms

OWN_BYTES = 1_000_000
"""librdkafka's own `message.max.bytes`, if it is not set."""

BATCH_BYTES = 61
"""What a batch of records has before the first."""

TIME_LIMITS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")

SETTINGS_S = 2.0
"""How long the settings of a topic are waited for, and how long they count at least."""

Text = str | bytes | None
Headers = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]

log = logging.getLogger("noted_time.writer.kafka")


class EventLimits:
    """What the client and the topic's settings refuse of an event: known before it is sent.

    Only an event with a time outside `earliest` to `latest`, more than `light` bytes or characters,
    or headers needs a `check`. Until the settings are read, and without the right to read them, the
    broker alone judges.
    """

    def __init__(self, topic: Topic, config: Mapping[str, Any]) -> None:
        self._topic = topic
        self._own = int(config.get("message.max.bytes", OWN_BYTES))
        codec = config.get("compression.type", config.get("compression.codec", "none"))
        self._is_compressed = str(codec).lower() != "none"
        self._read_at = -SETTINGS_S
        self._before = self._after = self._bytes = LARGEST_TIME
        self._weigh()

    def check(self, stamp: int, value: Text, key: Text, headers: Headers | None) -> None:
        """Raise `Rejected`, with the limit, for an event that would be refused."""
        if self._fault(stamp, value, key, headers):
            self.read()  # they may have been changed
            fault = self._fault(stamp, value, key, headers)
            if fault:
                raise Rejected(f"the event was not sent: {fault}")

    def _fault(self, stamp: int, value: Text, key: Text, headers: Headers | None) -> str:
        now, name = self._bound(), f"Kafka topic {self._topic.name!r}"
        if not 0 < stamp < LARGEST_TIME:
            return f"event_time must be positive and in int64, got {stamp}: Kafka reads 0 as 'now'"
        if not self.earliest <= stamp <= self.latest:
            is_ahead = stamp > now
            limit = f"after.max.ms={self._after}" if is_ahead else f"before.max.ms={self._before}"
            apart = f"{shown_duration(abs(stamp - now))} {'ahead of' if is_ahead else 'behind'}"
            at = f"event_time {shown_time(stamp)} is {apart} this clock"
            return f"{at}, and {name} has message.timestamp.{limit}"
        parts = [_bytes(value), _bytes(key)]
        names = list(headers.items() if isinstance(headers, dict) else headers or ())
        parts += [_bytes(each) for header in names for each in header]
        if sum(parts) > self._own:
            return f"it has {sum(parts)} bytes, and this client message.max.bytes={self._own}"
        size = 3 + _varint(len(names)) + sum(_varint(part) + part for part in parts)
        size += BATCH_BYTES + _varint(size)
        if size > self._bytes and not self._is_compressed:
            return f"it takes {size} bytes, and {name} has max.message.bytes={self._bytes}"
        return ""

    def _bound(self) -> int:
        """Move the bounds of times with the clock, and return it."""
        now = unix_ms()
        self.earliest = max(1, now - self._before)
        self.latest = min(LARGEST_TIME - 1, now + self._after)
        return now

    def read(self) -> None:
        """Read the settings, unless that was just done; what cannot be read is left as it was."""
        if clocks.monotonic() - self._read_at < SETTINGS_S:
            return
        try:
            found = self._topic.settings(timeout_s=SETTINGS_S)
        except NotedTimeError as error:
            log.info("what Kafka topic %r refuses is not known: %s", self._topic.name, error)
        else:
            any_time = found.get("message.timestamp.type") == "LogAppendTime"
            between = found.get("message.timestamp.difference.max.ms", LARGEST_TIME)
            self._before, self._after = (
                LARGEST_TIME if any_time else int(found.get(name, between)) for name in TIME_LIMITS
            )
            self._bytes = int(found.get("max.message.bytes", LARGEST_TIME))
        self._read_at = clocks.monotonic()
        self._weigh()

    def _weigh(self) -> None:
        is_aging = self._before < self._bound()  # then each event is checked
        self.light = -1 if is_aging else min(self._own, self._bytes) // 4 - BATCH_BYTES


def _bytes(part: Text) -> int:
    return len(part.encode() if isinstance(part, str) else part or b"")


def _varint(number: int) -> int:
    """Return how many bytes Kafka writes a length in."""
    return max(1, ((number << 1).bit_length() + 6) // 7)
