"""Produce a departure to a Kafka topic, and note up to when all departures are produced.

Needs a controller, `noted-time serve`, and a broker with the topic `flights`, `./run kafka`.
"""

import os
import sys
import time

import httpx

from writer_client import KafkaNotedProducer

CONTROLLER = os.environ.get("NOTED_TIME_URL", "http://127.0.0.1:7464")
KAFKA = {"bootstrap.servers": os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")}
DAY, HOUR = 86_400_000, 3_600_000  # in ms
TEN = int(time.time() * 1000) // DAY * DAY - 14 * HOUR  # ten o'clock yesterday, in UTC

# a mark at each advance, not five a second at most; none before UA notes
settings = {"mark_interval_ms": 0, "expected_writers": ["UA"]}
try:
    httpx.put(f"{CONTROLLER}/v1/streams/flights", json=settings).raise_for_status()
except httpx.TransportError as error:
    sys.exit(f"no answer from {CONTROLLER}: {error}; run noted-time serve, or set NOTED_TIME_URL")

with KafkaNotedProducer(KAFKA, "flights", "UA", controller=CONTROLLER) as united:
    united.produce(value="UA 15 to HNL", key="EWR", event_time=TEN - HOUR)
    united.note_time(TEN)  # no departure before ten will follow
    print(united.flush())
