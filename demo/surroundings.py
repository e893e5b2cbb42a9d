"""Starts a controller and a Spark for the demo, and ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
from pyspark.sql import SparkSession

from noted_time import Rejected
from tools.trials import classes, kafka
from tools.trials.daemons import Daemon
from tools.trials.ports import LOOPBACK, free_port
from tools.trials.spark_programs import environment
from tools.trials.spark_settings import JAVA_OPTIONS, ON_LOOPBACK, SMALL_BATCHES

REMEDY = "See that memory and disk space are left, and start the demo again."

WATCH_INTERVAL_S = 0.2

ORDERLY_STATUSES = frozenset((0, -signal.SIGINT, -signal.SIGTERM, 130, 143))
"""Those of a broker that a signal asked to end; Java's own are 128 and the signal."""


@contextmanager
def controller(database: Path, directory: Path, *, port: int = 0) -> Iterator[str]:
    """Serve a controller with its log in `directory`; port 0 is any free one.

    `database` is its SQLite file, complete after the block. Yields its URL. Raises `Rejected`, with
    the end of its log, if it does not start.
    """
    port = port or free_port()
    url = f"http://{LOOPBACK}:{port}"
    words = [sys.executable, "-m", "controller", "serve", "--host", LOOPBACK, "--port", str(port)]
    words += ["--database", f"sqlite:///{database.resolve()}"]
    with Daemon(words, directory / "controller.log", os.environ) as serving:
        try:
            serving.wait_until(partial(_is_ready, url))
        except AssertionError as error:
            raise Rejected(f"the controller did not start:\n{error}") from error
        yield url


@contextmanager
def spark_session(directory: Path, jars: str = "") -> Iterator[SparkSession]:
    """Yield a local Spark with these `spark.jars`, whose log is a file in `directory`.

    Raises `Rejected` without Java.
    """
    require_java()
    os.environ |= environment()  # for the workers
    builder = SparkSession.builder.master("local[2]").appName("flights")
    settings: dict[str, bool | float | str | None] = {
        **SMALL_BATCHES,
        **ON_LOOPBACK,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.jars": jars,
        "spark.local.dir": str(directory / "spark"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.streaming.numRecentProgressUpdates": "1000000",
    }
    interrupt = signal.getsignal(signal.SIGINT)
    with _stderr_to(directory / "spark.log"):
        session = builder.config(map=settings).getOrCreate()
    # Spark's own handler calls Java at any point
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def kafka_broker(directory: Path) -> Iterator[kafka.Broker]:
    """Yield a Kafka broker with its data in `directory`.

    Raises `Rejected` if it does not start. If it has ended when the block fails, that is the cause,
    and `Rejected` says so in place of the error of a client.
    """
    broker = kafka.Broker(directory)
    try:
        broker.start()
    except (AssertionError, OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stderr", None) or str(error)
        raise Rejected(f"Kafka's broker did not start: {_find_cause(output)}. {REMEDY}") from error
    has_ended = threading.Event()
    threading.Thread(target=_watch_broker, args=(broker, has_ended), daemon=True).start()
    try:
        yield broker
    except (Exception, SystemExit) as error:
        status = broker.poll()
        if status is None:
            raise
        raise Rejected(
            f"Kafka's broker ended with status {status}, so the demo could not go on. {REMEDY}"
        ) from error
    finally:
        has_ended.set()
        broker.stop()


def _watch_broker(broker: kafka.Broker, has_ended: threading.Event) -> None:
    """End the block by SIGTERM once its broker is killed or fails: clients wait for minutes.

    At Ctrl-C and SIGTERM, which may reach the broker too, the block ends by itself.
    """
    while not has_ended.wait(WATCH_INTERVAL_S):
        status = broker.poll()
        if status is not None:
            if status not in ORDERLY_STATUSES:
                os.kill(os.getpid(), signal.SIGTERM)
            return


def _find_cause(output: str | bytes) -> str:
    r"""Return the line of an error in the output of Java, or the last line.

    >>> _find_cause("SLF4J: no logger\njava.net.BindException: Address in use\n  at sun.nio")
    'java.net.BindException: Address in use'
    """
    if isinstance(output, bytes):
        output = output.decode(errors="replace")
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("SLF4J:")]
    for line in lines:
        if "Error" in line or "Exception" in line:
            return line.strip()
    return lines[-1].strip() if lines else "it ended without a message"


def require_java(program: str = "Spark") -> None:
    if not classes.tool("java"):
        raise Rejected(
            f"{program} needs Java 17 or newer: install one and put it on the PATH, or start the "
            "demo by `./run demo`, which brings its own."
        )


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Redirect the stderr of programs started in the block to `log`."""
    sys.stderr.flush()
    kept_descriptor = os.dup(2)
    with log.open("ab") as output:
        os.dup2(output.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept_descriptor, 2)
        os.close(kept_descriptor)
