"""Two shops append their orders to a log, and each notes up to when it has written all of them.

Needs a controller: `noted-time serve`. The log is in the directory `log`.
"""

import os
import sys
from datetime import UTC, datetime

import httpx

from noted_time_extensions.files import SegmentLogWriter
from writer_client import WriterClient

CONTROLLER = os.environ.get("NOTED_TIME_URL", "http://127.0.0.1:7464")
HALF_PAST_NINE = datetime(2013, 1, 1, 9, 30, tzinfo=UTC)
TEN = datetime(2013, 1, 1, 10, tzinfo=UTC)
SHOPS = ("berlin", "lima")

# time waits for both shops from the start, whichever of them begins
settings = {"expected_writers": SHOPS}
try:
    httpx.put(f"{CONTROLLER}/v1/streams/orders", json=settings).raise_for_status()
except httpx.TransportError as error:
    sys.exit(f"no answer from {CONTROLLER}: {error}; run noted-time serve, or set NOTED_TIME_URL")

for segment, shop in enumerate(SHOPS):
    with WriterClient("orders", shop, controller=CONTROLLER) as client:
        log = SegmentLogWriter(
            "log", "orders", segments=[segment], client=client, event_time="ordered"
        )
        client.flush()  # joined
        log.append([{"ordered": HALF_PAST_NINE, "shop": shop}])
        log.note_time(TEN)  # no order of before ten will follow
        print(shop, client.flush())
