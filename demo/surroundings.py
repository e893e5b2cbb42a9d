"""What the demo starts and always ends: a controller and a Spark of its own."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from pyspark.sql import SparkSession

from demo.trials.ports import LOOPBACK, free_port, listens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
KAFKA = Path(sys.prefix, "kafka")
"""Where `./run kafka` keeps jars, those of Spark in `connector`."""

START_S = 60.0
STOP_S = 60.0

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
    "-Djdk.lang.Process.launchMechanism=VFORK"
)


class SurroundingsError(Exception):
    """The demo cannot start what it needs; the message says what to do."""


@contextmanager
def controller(database: Path, directory: Path, *, port: int = 0) -> Iterator[str]:
    """Serve a controller on this machine, with its log in `directory`; port 0 is any free one.

    `database` is its SQLite file, complete once the block has ended. Yields its URL. Raises
    `SurroundingsError`, with the end of its log, if it does not start.
    """
    port = port or free_port()
    url = f"http://{LOOPBACK}:{port}"
    words = ["-m", "controller", "serve", "--host", LOOPBACK, "--port", str(port)]
    words += ["--database", f"sqlite:///{database.resolve()}"]
    with _running("controller", words, directory, lambda: _is_ready(url)):
        yield url


@contextmanager
def broker(directory: Path) -> Iterator[str]:
    """Run a Kafka broker with its data in `directory`, and yield its address.

    Its jars are fetched first if they are not there. Raises `SurroundingsError` if that fails, or
    if it does not start.
    """
    fetch = [sys.executable, "run", "kafka", "--fetch"]
    if subprocess.run(fetch, cwd=ROOT, check=False).returncode:
        raise SurroundingsError("the jars of Kafka could not be fetched, see above")
    port = free_port()
    words = ["run", "kafka", "--port", str(port), "--data", str(directory / "kafka")]
    with _running("broker", words, directory, lambda: listens(port)):
        yield f"{LOOPBACK}:{port}"


def keep_database(database: Path, kept: Path) -> None:
    """Copy a SQLite file that is not served to `kept`, replacing what is there."""
    for file in (kept, *(kept.with_name(f"{kept.name}-{part}") for part in ("wal", "shm"))):
        file.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(kept)) as target:
        source.backup(target)


@contextmanager
def spark_session(directory: Path, jars: str = "") -> Iterator[SparkSession]:
    """Yield a local Spark with these `spark.jars`, whose log goes to a file in `directory`.

    Raises `SurroundingsError` if there is no Java.
    """
    require_java()
    log = directory / "spark.log"
    interrupt = signal.getsignal(signal.SIGINT)
    with _stderr_to(log):
        session = _session_builder(directory, jars).getOrCreate()
    # Spark's own handler calls Java from any point of the program
    signal.signal(signal.SIGINT, interrupt)
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


@contextmanager
def _running(
    name: str, words: Sequence[str], directory: Path, is_ready: Callable[[], bool]
) -> Iterator[None]:
    """Run a program of this clone while the block lasts, which begins once it is ready."""
    process = start(name, words, directory)
    deadline = time.monotonic() + START_S
    try:
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SurroundingsError(f"the {name} did not start:\n{last_words(name, directory)}")
            time.sleep(0.05)
        yield
    finally:
        end(process)


def start(
    name: str, words: Sequence[str], directory: Path, *, answers: bool = False
) -> subprocess.Popen[str]:
    """Start Python on a program of this clone, whose output goes to a log, but for its answers.

    It has a session of its own: Ctrl-C is for the demo, which then ends what it started.
    """
    with (directory / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            stdin=subprocess.PIPE if answers else subprocess.DEVNULL,
            stdout=subprocess.PIPE if answers else log,
            stderr=log,
            text=True,
            start_new_session=True,
        )


def last_words(name: str, directory: Path) -> str:
    """Return the last lines that a program logged."""
    log = (directory / f"{name}.log").read_text(errors="replace")
    return "\n".join(log.splitlines()[-5:])


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False


def end(process: subprocess.Popen[str]) -> None:
    """End a program, which may have ended already."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in filter(None, (process.stdin, process.stdout)):
        with suppress(BrokenPipeError):
            pipe.close()


def _session_builder(directory: Path, jars: str) -> SparkSession.Builder:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    # the workers import the source from this clone
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([inherited] if inherited else [])])
    settings = {
        **SMALL_BATCHES,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.jars": jars,
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
