"""A Spark cluster on loopback, from the PySpark that pip installs."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import httpx
import pyspark

from tools.trials import classes
from tools.trials.daemons import Daemon
from tools.trials.ports import LOOPBACK, listens
from tools.trials.spark_programs import SparkProgram, environment
from tools.trials.spark_settings import JAVA_OPTIONS, ON_LOOPBACK, SMALL_BATCHES
from tools.trials.waiting import wait_until

HOME = Path(pyspark.__file__).parent
EXECUTOR = "CoarseGrainedExecutorBackend"
CONNECT = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
CLASS = (str(HOME / "bin" / "spark-class"),)

# Room for two applications, the Connect server and one more: a worker has a core and 512 MiB for
# the first, and a core and Spark's 1 GiB for the second. Cores are only counted.
CORES = 2
MEMORY_MB = 1536
RAW_FILES = "spark.hadoop.fs.file.impl"
"""RocksDB's state does not work on the file system that is fastest for small batches."""

SMALL = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": classes.read(classes.SPARK),
    "spark.driver.memory": "700m",
    **ON_LOOPBACK,
    "spark.pyspark.python": sys.executable,
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming"
    ".state.RocksDBStateStoreProvider",
    **{name: value for name, value in SMALL_BATCHES.items() if name != RAW_FILES},
    "spark.sql.shuffle.partitions": "2",
}
"""Settings of each application: one executor with one core on each worker."""


class Cluster:
    """A master and its workers, each in a process group; a `with` block ends them.

    Logs and the workers' files are in the directory. `port` is the first of three, for the master,
    its page and the Connect server. The file `properties` is for `spark-submit`, and has the
    `jars`.
    """

    def __init__(
        self, directory: Path, *, workers: int = 2, port: int = 0, jars: Sequence[str] = ()
    ) -> None:
        self.directory = directory
        self.properties = directory / "spark.conf"
        self._properties = ("--properties-file", str(self.properties))
        first = port or free_ports(3)
        master, page, self._connect_port = range(first, first + 3)
        self.master = f"spark://{LOOPBACK}:{master}"
        self.page = f"http://{LOOPBACK}:{page}"
        self._ports = ("--port", str(master), "--webui-port", str(page))
        self._workers: list[Daemon | None] = [None] * workers
        self._server: Daemon | None = None
        self._submitted = 0
        self._ending = ExitStack()
        cores = {"spark.master": self.master, "spark.cores.max": str(workers)}
        self._settings = {**cores, **SMALL, "spark.jars": ",".join(jars)}

    def __enter__(self) -> Self:
        """Start it, and return once the master counts all workers, after some 5 s."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = (f"{name} {value}\n" for name, value in self._settings.items())
        self.properties.write_text("".join(lines))
        with ExitStack() as stack:
            words = (*CLASS, "org.apache.spark.deploy.master.Master", "--host", LOOPBACK)
            master = self._daemon("master", (*words, *self._ports), SPARK_DAEMON_MEMORY="384m")
            self._master = stack.enter_context(master)
            stack.callback(self._end_workers)
            wait_until(lambda: self._master.running() and self._state() is not None)
            for number in range(len(self._workers)):
                self._start_worker(number)
            wait_until(self._complete)
            self._ending = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def check(self) -> None:
        """Raise `AssertionError`, with the end of its log, if a process has ended."""
        for daemon in filter(None, (self._master, self._server, *self._workers)):
            daemon.running()

    def executors(self) -> list[int]:
        """Return the process ids of all executors."""
        workers = filter(None, self._workers)
        return [pid for worker in workers for pid in children(worker.pid, EXECUTOR)]

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors (-9), and return once the master has noticed."""
        worker = self._workers[number]
        assert worker, f"worker {number} has ended before"
        worker.kill()
        self._workers[number] = None
        wait_until(self._complete)

    def restart_worker(self, number: int) -> None:
        """Start a worker, killed first if it runs, and return once the master counts it."""
        if self._workers[number]:
            self.kill_worker(number)
        self._start_worker(number)
        wait_until(self._complete)

    @cached_property
    def remote(self) -> str:
        """The address of a Spark Connect server on the cluster, started on first use."""
        settings = {
            "spark.driver.memory": "800m",
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self._connect_port),
        }
        words = [*submit_words(settings, *self._properties), *CONNECT]
        server = self._server = self._ending.enter_context(self._daemon("connect", words))
        wait_until(lambda: server.running() and listens(self._connect_port))
        return f"sc://{LOOPBACK}:{self._connect_port}"

    def submit(
        self,
        program: str | Path,
        arguments: Mapping[str, object],
        settings: Mapping[str, str] | None = None,
    ) -> SparkProgram:
        """Submit a driver: a program of `tests/spark/programs` by name, or a path.

        It receives its arguments as JSON. The settings are added to the cluster's. It
        ends with the cluster at the latest.
        """
        self._submitted += 1
        log = self.directory / f"driver-{self._submitted}.log"
        words = submit_words(settings or {}, *self._properties)
        driver = SparkProgram(program, dict(arguments), log, words)
        self._ending.callback(lambda: None if driver.has_ended() else driver.kill())
        return driver

    def _start_worker(self, number: int) -> None:
        name = f"worker{number}"
        words = [*CLASS, "org.apache.spark.deploy.worker.Worker", "--host", LOOPBACK]
        words += ["--cores", str(CORES), "--memory", f"{MEMORY_MB}m", "--webui-port", "0"]
        worker_variables = {
            "SPARK_WORKER_DIR": str(self.directory / name),
            "SPARK_DAEMON_MEMORY": "384m",
        }
        self._workers[number] = self._daemon(name, (*words, self.master), **worker_variables)

    def _end_workers(self) -> None:
        for worker in filter(None, self._workers):
            worker.kill()

    def _complete(self) -> bool:
        running = [worker for worker in self._workers if worker and worker.running()]
        state = self._state() if self._master.running() else None
        return state is not None and state["aliveworkers"] == len(running)

    def _state(self) -> Any:  # noqa: ANN401 - any JSON
        try:
            return httpx.get(f"{self.page}/json/", trust_env=False).json()
        except (httpx.TransportError, ValueError):  # at first its page answers for all paths
            return None

    def _daemon(self, name: str, words: Sequence[str], **variables: str) -> Daemon:
        own_variables = {"JAVA_TOOL_OPTIONS": JAVA_OPTIONS, **environment(), **variables}
        own_variables |= {"SPARK_DAEMON_JAVA_OPTS": classes.read(classes.SPARK)}
        own_variables |= {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
        }
        del own_variables["PYTHONPATH"]  # executors have their own
        return Daemon(words, self.directory / f"{name}.log", own_variables)


def submit_words(settings: Mapping[str, str], *options: str) -> list[str]:
    """Return the words before a program that submit it."""
    setting_words = [word for setting in settings.items() for word in ("--conf", "=".join(setting))]
    return [str(HOME / "bin" / "spark-submit"), *options, *setting_words]


def children(parent: int, containing: str) -> Iterator[int]:
    """Yield the children of a process whose command line contains a text."""
    for tasks in Path(f"/proc/{parent}/task").glob("*/children"):
        for child in map(int, tasks.read_text().split()):
            with suppress(OSError):  # it may end meanwhile
                if containing in Path(f"/proc/{child}/cmdline").read_text():
                    yield child


def free_ports(count: int) -> int:
    """Return the first of several free ports.

    They are below the ports that systems choose.
    """
    while True:
        first = random.randrange(20_000, 32_000)
        if not any(listens(first + n) for n in range(count)):
            return first
