"""A Kafka broker of the test's own, and the jars with which Spark reads it.

``./run python -m tests.support.kafka`` installs both, 55 MB, with the Ivy that PySpark brings.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

HOME = Path(os.environ.get("NOTED_TIME_KAFKA") or Path(sys.prefix, "kafka"))
"""The directory of the jars: by default in the environment that runs the tests."""

BROKER = ("org.apache.kafka", "kafka_2.13", "4.3.1")
CONNECTOR = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)

MISSING = (
    f"no Kafka in {HOME}: `./run python -m tests.support.kafka` installs a broker and "
    "Spark's connector there, 55 MB"
)

_JARS = Path(pyspark.__file__).parent / "jars"
_CLUSTER = "4L6g3nShT-eMCtK--X86sw"


def connector() -> list[str]:
    """Return the jars that Spark needs, none if they are not installed."""
    jars = [HOME / "connector" / f"{name}-{version}.jar" for _, name, version in CONNECTOR]
    return [str(jar) for jar in jars] if all(jar.exists() for jar in jars) else []


def installed() -> bool:
    """Whether both are there."""
    _, name, version = BROKER
    return bool(connector()) and (HOME / "broker" / f"{name}-{version}.jar").exists()


def install() -> None:
    """Fetch the broker with all it needs, and the connector's jars one by one."""
    _ivy("broker", BROKER)
    for module in CONNECTOR:
        _ivy("connector", module, "-notransitive")


def _ivy(directory: str, module: tuple[str, str, str], *options: str) -> None:
    ivy = next(_JARS.glob("ivy-*.jar"))
    pattern = f"{HOME}/{directory}/[artifact]-[revision](-[classifier]).[ext]"
    cache = f"-Divy.default.ivy.user.dir={HOME}/ivy"
    words = [_java(), cache, "-cp", f"{ivy}:{_JARS}/*", "org.apache.ivy.Main", "-warn"]
    wanted = ["-dependency", *module, "-confs", "default", "-types", "jar", "bundle"]
    subprocess.run([*words, *wanted, *options, "-retrieve", pattern], check=True)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"


class Broker:
    """One node on loopback; a topic is created by its first use, with two partitions."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._port, controller = _free_port(), _free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": root / "data",
            "num.partitions": 2,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.retention.ms": -1,
        }

    def __enter__(self) -> Self:
        self._root.mkdir(parents=True, exist_ok=True)
        settings = self._root / "server.properties"
        settings.write_text("".join(f"{k}={v}\n" for k, v in self._settings.items()))
        java = [_java(), "-Xmx256m", "-cp", f"{HOME}/broker/*"]
        kept = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)]
        subprocess.run([*java, *kept], check=True, capture_output=True)
        with (self._root / "out").open("wb") as out:
            self._process = subprocess.Popen(
                [*java, "kafka.Kafka", str(settings)], stdout=out, stderr=subprocess.STDOUT
            )
        self._wait()
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while not _listens(self._port):
            ended = self._process.poll() is not None
            assert not ended, (self._root / "out").read_text()[-2000:]
            assert time.monotonic() < deadline, "the broker did not start"
            time.sleep(0.05)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(30)


def _free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    install()
