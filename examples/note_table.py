"""Observe the table `noted` of a PostgreSQL database, and note its times, until Ctrl-C.

Needs a controller, `noted-time serve`, and the table of the page "Writers in Python".
"""

import os
import sys
import time
from contextlib import suppress

import httpx
import psycopg

from writer_client import WriterClient

CONTROLLER = os.environ.get("NOTED_TIME_URL", "http://127.0.0.1:7464")
DATABASE = os.environ.get("DATABASE_URL", "postgresql://127.0.0.1/shop")
WRITER = "berlin"

settings = {"expected_writers": [WRITER]}
try:
    httpx.put(f"{CONTROLLER}/v1/streams/orders", json=settings).raise_for_status()
except httpx.TransportError as error:
    sys.exit(f"no answer from {CONTROLLER}: {error}; run noted-time serve, or set NOTED_TIME_URL")

with (
    psycopg.connect(DATABASE, autocommit=True) as database,
    WriterClient("orders", WRITER, controller=CONTROLLER) as client,
    suppress(KeyboardInterrupt),
):
    while True:
        query = "SELECT time FROM noted WHERE writer = %s"
        for (noted,) in database.execute(query, [WRITER]):
            client.note_time(noted)  # the same time again is a sign of life
        time.sleep(1)
