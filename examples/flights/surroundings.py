"""What the demo starts and always ends: a controller and a Spark of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK = "127.0.0.1"
ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0
STOP_S = 10.0

LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

# Hadoop's default local file systems start two processes for every file of a checkpoint, 80 ms of
# CPU a micro-batch. With these and a plain compiler, one costs 0.12 s of CPU in place of 0.3.
SMALL_BATCHES = {
    "spark.sql.shuffle.partitions": "1",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.fileSource.log.compactInterval": "1000",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.pollingDelay": "1ms",
}
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
    "-Djdk.lang.Process.launchMechanism=VFORK -Dlog4j2.configurationFile="
)


class SurroundingsError(Exception):
    """The demo cannot start what it needs; the message says what to do."""


@contextmanager
def controller(database: Path, directory: Path) -> Iterator[str]:
    """Serve a controller on a free port of this machine, with its log in `directory`.

    `database` is its SQLite file, complete once the block has ended. Yields its URL. Raises
    `SurroundingsError`, with the end of its log, if it does not start.
    """
    url = f"http://{LOOPBACK}:{_free_port()}"
    log = directory / "controller.log"
    process = _start_controller(database, url.rpartition(":")[2], log)
    try:
        _wait_until_ready(process, url, log)
        yield url
    finally:
        _end(process)


def keep_database(database: Path, kept: Path) -> None:
    """Copy a SQLite file that is not served to `kept`, replacing what is there."""
    for file in (kept, *(kept.with_name(f"{kept.name}-{part}") for part in ("wal", "shm"))):
        file.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(kept)) as target:
        source.backup(target)


@contextmanager
def spark_session(directory: Path) -> Iterator[SparkSession]:
    """Yield a local Spark whose log goes to a file in `directory`.

    Raises `SurroundingsError` if there is no Java.
    """
    require_java()
    log = directory / "spark.log"
    interrupt = signal.getsignal(signal.SIGINT)
    with _stderr_to(log):
        session = _session_builder(directory).getOrCreate()
    signal.signal(
        signal.SIGINT, interrupt
    )  # Spark's own handler calls Java from any point of the program
    try:
        yield session
    finally:
        session.stop()


def require_java() -> None:
    """Raise `SurroundingsError` if no Java is found."""
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin", "java").exists()) and not shutil.which("java"):
        raise SurroundingsError(
            "Spark needs Java 17 or newer: install one and put it on the PATH, or start the demo "
            "by `./run demo`, which brings its own."
        )


def _start_controller(database: Path, port: str, log: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "controller", "serve", "--host", LOOPBACK, "--port", port]
    with log.open("wb") as output:
        # A session of its own: Ctrl-C is for the demo, which then ends the controller.
        return subprocess.Popen(  # noqa: S603 - our own program
            [*words, "--database", f"sqlite:///{database.resolve()}"],
            cwd=ROOT,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not _is_ready(url):
        if process.poll() is not None or time.monotonic() > deadline:
            last_words = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise SurroundingsError(f"the controller did not start:\n{last_words}")
        time.sleep(0.05)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _session_builder(directory: Path) -> SparkSession.Builder:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    # the workers import the source from this clone
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([inherited] if inherited else [])])
    log4j = directory / "log4j2.properties"
    log4j.write_text(LOG4J)
    settings = {
        **SMALL_BATCHES,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS}{log4j.as_uri()}",
        "spark.local.dir": str(directory / "spark"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000000",
    }
    builder = SparkSession.builder.master("local[2]").appName("noted-time demo flights")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Redirect the stderr of programs that start in the block, and of theirs, to `log`."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as output:
        os.dup2(output.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
