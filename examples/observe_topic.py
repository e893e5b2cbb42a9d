"""Observe a Kafka topic whose producers do not note, and note for them, until Ctrl-C.

Needs a controller, `noted-time serve`, and a broker with the topic `arrivals`, `./run kafka`.
"""

import os
import sys
import time
from contextlib import suppress

import httpx

from writer_client import EventTimeNoter, KafkaTimes, WriterClient

CONTROLLER = os.environ.get("NOTED_TIME_URL", "http://127.0.0.1:7464")
KAFKA = {"bootstrap.servers": os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")}
TOPIC = sys.argv[1] if len(sys.argv) > 1 else "arrivals"
DELAY_MS = 5 * 60_000  # how far the records of one partition may be out of order

# the stream of a topic has its name; time waits for the observer alone
settings = {"expected_writers": ["observer"]}
try:
    httpx.put(f"{CONTROLLER}/v1/streams/{TOPIC}", json=settings).raise_for_status()
except httpx.TransportError as error:
    sys.exit(f"no answer from {CONTROLLER}: {error}; run noted-time serve, or set NOTED_TIME_URL")

with (
    WriterClient(TOPIC, "observer", controller=CONTROLLER) as client,
    EventTimeNoter(client, KafkaTimes(KAFKA, TOPIC), delay_ms=DELAY_MS) as observer,
    suppress(KeyboardInterrupt),
):
    while True:
        observer.check()  # raises what ended it, if anything did
        time.sleep(1)
