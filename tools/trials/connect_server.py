"""A Spark Connect server on loopback that reads Kafka, without this project."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from spark_integration.session.versions import parse_release
from tools.trials.cluster import CONNECT, HOME, free_ports, submit_words
from tools.trials.daemons import Daemon
from tools.trials.kafka import HOME as JARS_HOME
from tools.trials.kafka import connector
from tools.trials.maven import Jar, fetch
from tools.trials.ports import LOOPBACK, listens
from tools.trials.spark_programs import environment
from tools.trials.spark_settings import JAVA_OPTIONS, ON_LOOPBACK
from tools.trials.waiting import wait_until

OF_3_5 = Jar(
    "org.apache.spark",
    "spark-connect_2.12",
    "3.5.7",
    "15366e21273a874c760b51fa00743a2acb8fa78642cc35d7a076a3ade0c5eef6",
)
"""The server of PySpark 3.5, which does not contain it as later releases do."""

JARS = (OF_3_5,) if parse_release(pyspark.__version__) < (4, 0) else ()


def install(repository: str | None = None) -> None:
    """Fetch the server, 14 MB, if PySpark lacks it; raises as `fetch`."""
    fetch(JARS, JARS_HOME / "connect-server", repository=repository)


def plain_python() -> str:
    """Return the Python that made this environment, without this project."""
    return str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}"))


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """Yield the address of a server of two cores, whose Python is `plain_python()`."""
    port = free_ports(1)
    jars = [*connector(), *(str(JARS_HOME / "connect-server" / jar.file) for jar in JARS)]
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "700m",
        **ON_LOOPBACK,
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.port": str(port),
    }
    if parse_release(pyspark.__version__) >= (4, 0):
        settings["spark.connect.grpc.binding.address"] = LOOPBACK
    words = [*submit_words(settings, "--master", "local[2]"), *CONNECT]
    python = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), plain_python())
    own_variables = (
        environment() | {"JAVA_TOOL_OPTIONS": JAVA_OPTIONS, "SPARK_HOME": str(HOME)} | python
    )
    own_variables = {
        k: v for k, v in own_variables.items() if not k.startswith(("NOTED_TIME_", "PYTHONPATH"))
    }
    with Daemon(words, directory / "connect-server.log", own_variables) as server:
        wait_until(lambda: server.running() and listens(port))
        yield f"sc://{LOOPBACK}:{port}"
