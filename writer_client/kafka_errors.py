"""What librdkafka refuses, as errors of ours: configurations, events, transactions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from noted_time.values import ClientFailed, Fenced, NotedTimeError, Rejected, Session, Unreachable
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


def created(config: Mapping[str, Any], log: logging.Logger) -> Producer:
    """Return a producer that logs to `log`; raises `Rejected` for what librdkafka refuses."""
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


def error_of(error: KafkaException) -> KafkaError:
    """Return what librdkafka says."""
    found: KafkaError = error.args[0]
    return found


def is_fenced(error: KafkaError) -> bool:
    """Whether another producer has taken over the `transactional.id`."""
    fenced = (KafkaError.PRODUCER_FENCED, KafkaError._FENCED)  # noqa: SLF001 - librdkafka's own codes begin so
    return error.code() in fenced


def lasting(producer: Producer, error: KafkaError) -> KafkaError | None:
    """Return the error because of which the producer can do nothing any more, if it is such a one.

    A call only says that there is one; to begin a transaction says which.
    """
    if error.code() == KafkaError._FATAL:  # noqa: SLF001 - likewise
        try:
            producer.begin_transaction()
        except KafkaException as again:
            return error_of(again) if error_of(again).fatal() else error
    return error if error.fatal() else None


def ended(error: KafkaError, writer: str, transactions: str | None) -> NotedTimeError:
    """Return the error that a producer raises from now on."""
    if is_fenced(error):
        label = f"another producer with transactional.id {transactions!r}"
        return Fenced(writer, Session(None, label, unix_ms()), 0)
    return ClientFailed(
        f"Kafka's client of writer {writer!r} failed for good: {error.str()}; create a new "
        "producer, which begins at the ends of the topic"
    )
