"""The jars of Kafka and of Spark's connector, which `install` fetches."""

from __future__ import annotations

import pyspark

from tools.trials.broker import HOME, JARS, Broker, Record, Settings
from tools.trials.maven import fetch, find_jars, list_jars, list_jars_by_release

__all__ = ["HOME", "Broker", "Record", "Settings"]


BROKER = list_jars(JARS)
"""A broker with all it needs."""

CONNECT = list_jars(JARS.with_name("connect_jars.txt"))
"""What Kafka Connect needs beyond a broker, and its file source."""

CLIENTS = list_jars(JARS.with_name("client_jars.txt"))
"""Older versions of Kafka's client, for the interceptor."""

CONNECTORS = list_jars_by_release(JARS.with_name("connector_jars.txt"))
"""The jars of `kafka_package()`, by the oldest release of Spark that they fit."""

CONNECTOR = CONNECTORS[max(each for each in CONNECTORS if each <= pyspark.__version__)]
"""The connector of the running PySpark."""

ALL = {"broker": BROKER, "connector": CONNECTOR, "connect": CONNECT, "clients": CLIENTS}
"""All jars by their directory."""

MISSING = (
    f"no Kafka in {HOME}: `./run kafka --fetch` installs a broker, Kafka Connect and Spark's "
    "connector there"
)


def connector() -> list[str]:
    """Return the jars that Spark needs, none if they are not installed."""
    return find_jars(HOME / "connector", CONNECTOR)


def is_installed() -> bool:
    """Whether a broker, the other clients and the connector are installed."""
    return all(find_jars(HOME / name, ALL[name]) for name in ("broker", "connector", "clients"))


def connect() -> str:
    """Return the class path of Kafka Connect, empty if not installed."""
    is_there = find_jars(HOME / "connect", CONNECT) and is_installed()
    return f"{HOME}/broker/*:{HOME}/connect/*" if is_there else ""


def install(repository: str | None = None) -> None:
    """Fetch all jars, 76 MB; raises as `fetch`."""
    for name, jars in ALL.items():
        fetch(jars, HOME / name, repository=repository)
