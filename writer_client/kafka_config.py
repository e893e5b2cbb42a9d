"""How a producer of Kafka is configured so that it can note, and started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from noted_time.values import Rejected, Unreachable
from writer_client.kafka_deliveries import error_of, log

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
