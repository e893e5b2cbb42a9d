"""Serves S3 on loopback, with moto from a separate environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from noted_time import Rejected
from tools.trials.daemons import Daemon
from tools.trials.ports import LOOPBACK, free_port, listens
from tools.trials.waiting import wait_until

PROGRAMS_VARIABLE = "NOTED_TIME_STORES"
"""The directory with the Python that has moto; `./run` sets it."""

BUCKET = "flights"
SERVE = """
import sys, time
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

ThreadedMotoServer("127.0.0.1", int(sys.argv[1]), verbose=False).start()
while True:
    time.sleep(60)
"""


@contextmanager
def serve_s3(python: Path, log: Path) -> Iterator[int]:
    """Yield the port of a server that keeps its objects in memory."""
    port = free_port()
    with Daemon([str(python), "-c", SERVE, str(port)], log, os.environ) as server:
        wait_until(lambda: server.running() and listens(port))
        yield port


@contextmanager
def create_bucket(log: Path) -> Iterator[str]:
    """Yield the URL of a new bucket. This process gets the credentials in its environment.

    Raises `Rejected` outside a clone.
    """
    programs = os.environ.get(PROGRAMS_VARIABLE)
    if programs is None:
        raise Rejected("an S3 server is installed in a clone only: ./run demo --store s3")
    with serve_s3(Path(programs) / "python", log) as port:
        address = f"http://{LOOPBACK}:{port}"
        os.environ |= {
            "AWS_ACCESS_KEY_ID": "demo",
            "AWS_SECRET_ACCESS_KEY": "demo",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": address,
        }
        httpx.put(f"{address}/{BUCKET}", trust_env=False).raise_for_status()
        yield f"s3://{BUCKET}"


def read_parquet(url: str) -> pa.Table:
    """Return the rows below a URL, read by Arrow's own client of S3."""
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    return pq.read_table(
        url.removeprefix("s3://"), filesystem=fs.S3FileSystem(endpoint_override=endpoint)
    )
