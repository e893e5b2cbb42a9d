"""A consumer that writes each record to SQLite, and then commits its offset."""

import os
import sqlite3
import sys
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException


def main(address: str, topic: str, database: str, fault: str) -> None:
    """Run until it is killed, or end by a fault after the first record is written."""
    sink = sqlite3.connect(database)
    sink.execute("CREATE TABLE IF NOT EXISTS events (value TEXT PRIMARY KEY)")
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 2000,
            "heartbeat.interval.ms": 300,
        }
    )
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        sink.execute(
            "INSERT OR REPLACE INTO events VALUES (?)", [(message.value() or b"").decode()]
        )
        sink.commit()
        if fault:
            os._exit(9)
        with suppress(KafkaException):  # the partition went to another, which reads it again
            consumer.commit(message=message, asynchronous=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
