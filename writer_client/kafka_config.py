"""How a producer of Kafka is configured so that it can note, started, and limited."""

from __future__ import annotations

import time as clocks
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from noted_time.kafka import Topic
from noted_time.values import (
    LARGEST_TIME,
    NotedTimeError,
    Rejected,
    Unreachable,
    shown_duration,
    shown_time,
)
from writer_client.kafka_deliveries import error_of, log
from writer_client.posting import unix_ms

NO = ("false", "f", "0")

REFUSED = (
    (("acks", "request.required.acks"), ("0",), "reports no offsets"),
    (("enable.idempotence",), NO, "writes events twice, or out of order"),
    (("delivery.report.only.error",), ("true", "t", "1"), "reports no offsets"),
)
"""Settings that leave nothing to note: their names, the values refused, and why."""


def checked(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that reports where events are written; raises `Rejected`."""
    for names, values, why in REFUSED:
        for name in names:
            if str(config.get(name, "")).lower() in values:
                raise Rejected(
                    f"{name}={config[name]} {why}, so time cannot be noted: leave it out"
                )
    return {**config, "enable.idempotence": True}


def created(config: Mapping[str, Any]) -> Producer:
    """Return a producer that logs by `logging`; raises `Rejected` for what librdkafka refuses."""
    try:
        return Producer({"logger": log, **config})
    except (KafkaException, TypeError, ValueError) as error:
        raise Rejected(f"Kafka's client refuses its configuration: {error}") from error


def take_over(producer: Producer, timeout_s: float) -> None:
    """End the transactions of the producer's former self, which is fenced from then on.

    Raises `Unreachable` if Kafka does not answer, `Rejected` if it refuses.
    """
    try:
        producer.init_transactions(timeout_s)
    except KafkaException as error:
        kind = Unreachable if error_of(error).retriable() else Rejected
        raise kind(f"Kafka begins no transactions: {error_of(error).str()}") from error


OWN_BYTES = 1_000_000
"""librdkafka's own `message.max.bytes`, if it is not set."""

BATCH_BYTES = 61
"""What a batch of records has before the first."""

SETTINGS_S = 2.0
"""How long the settings of a topic are waited for, and how long they count at least."""

Text = str | bytes | None
Headers = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]


class EventLimits:
    """What the client and the topic's settings refuse of an event: known before it is sent.

    Only an event with a time outside `earliest` to `latest`, more than `light` bytes or characters,
    or headers needs a `check`. Without the right to read the settings, the broker alone judges.
    """

    def __init__(self, topic: Topic, config: Mapping[str, Any]) -> None:
        self._topic = topic
        self._own = int(config.get("message.max.bytes", OWN_BYTES))
        codec = config.get("compression.type", config.get("compression.codec", "none"))
        self._is_compressed = str(codec).lower() != "none"
        self._read_at = -SETTINGS_S
        self._before = self._after = self._bytes = LARGEST_TIME
        self._read()

    def check(self, stamp: int, value: Text, key: Text, headers: Headers | None) -> None:
        """Raise `Rejected`, with the limit, for an event that would be refused."""
        if self._fault(stamp, value, key, headers):
            self._read()  # they may have been changed
            fault = self._fault(stamp, value, key, headers)
            if fault:
                raise Rejected(f"the event was not sent: {fault}")

    def _fault(self, stamp: int, value: Text, key: Text, headers: Headers | None) -> str:
        now, name = unix_ms(), f"Kafka topic {self._topic.name!r}"
        self.earliest, self.latest = now - self._before, now + self._after
        at = f"event_time {shown_time(stamp)} is {shown_duration(abs(stamp - now))}"
        if stamp > self.latest:
            limit = f"message.timestamp.after.max.ms={self._after}"
            return f"{at} ahead of this clock, and {name} has {limit}"
        if stamp < self.earliest:
            limit = f"message.timestamp.before.max.ms={self._before}"
            return f"{at} behind this clock, and {name} has {limit}"
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

    def _read(self) -> None:
        """Read the settings, unless that was just done; what cannot be read is left as it was."""
        if clocks.monotonic() - self._read_at < SETTINGS_S:
            return
        try:
            found = self._topic.settings(timeout_s=SETTINGS_S)
        except NotedTimeError as error:
            log.info("what Kafka topic %r refuses is not known: %s", self._topic.name, error)
        else:
            is_own = found.get("message.timestamp.type") != "LogAppendTime"
            between = found.get("message.timestamp.difference.max.ms", LARGEST_TIME)
            self._before, self._after = (
                int(found.get(f"message.timestamp.{side}.max.ms", between))
                if is_own
                else LARGEST_TIME
                for side in ("before", "after")
            )
            self._bytes = int(found.get("max.message.bytes", LARGEST_TIME))
        self._read_at = clocks.monotonic()
        self.earliest, self.latest = unix_ms() - self._before, unix_ms() + self._after
        is_aging = self._before < unix_ms()  # then each event is checked
        self.light = -1 if is_aging else min(self._own, self._bytes) // 4 - BATCH_BYTES


def _bytes(part: Text) -> int:
    return len(part.encode() if isinstance(part, str) else part or b"")


def _varint(number: int) -> int:
    """Return how many bytes Kafka writes a length in."""
    return max(1, ((number << 1).bit_length() + 6) // 7)
