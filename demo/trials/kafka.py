"""The jars of Kafka and of Spark's connector, which `install` brings, and the broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from demo.trials.broker import HOME, JARS, Broker, Record, Settings
from spark_integration.session.jars import CONNECTOR, Jar, fetch

__all__ = ["HOME", "Broker", "Record", "Settings"]


def _listed(file: Path) -> tuple[Jar, ...]:
    """Return the jars of a file: group, name, version and SHA-256 of each."""
    return tuple(Jar(*line.split()) for line in file.read_text().splitlines())


BROKER = _listed(JARS)
"""A broker with all it needs."""

CONNECT = _listed(JARS.with_name("connect_jars.txt"))
"""What Kafka Connect needs beyond a broker, and its file source."""

CLIENTS = _listed(JARS.with_name("client_jars.txt"))
"""Older versions of Kafka's client, for the interceptor."""

MISSING = (
    f"no Kafka in {HOME}: `./run kafka --fetch` installs a broker, Kafka Connect and Spark's "
    "connector there"
)


def connector() -> list[str]:
    """Return the jars that Spark needs, none if they are not installed."""
    jars = [HOME / "connector" / jar.file for jar in CONNECTOR]
    return [str(jar) for jar in jars] if all(jar.exists() for jar in jars) else []


def installed() -> bool:
    """Whether a broker, the other clients and the connector are there."""
    needed = {"broker": BROKER, "clients": CLIENTS}
    there = ((HOME / name / jar.file).exists() for name, jars in needed.items() for jar in jars)
    return bool(connector()) and all(there)


def connect() -> str:
    """Return the class path of Kafka Connect, nothing if it is not installed."""
    there = all((HOME / "connect" / jar.file).exists() for jar in CONNECT)
    return f"{HOME}/broker/*:{HOME}/connect/*" if there and installed() else ""


def install(**options: Any) -> None:  # noqa: ANN401 - as `fetch`'s
    """Fetch all jars, 76 MB; the options and errors are those of `fetch`."""
    fetch(BROKER, HOME / "broker", **options)
    fetch(CONNECTOR, HOME / "connector", **options)
    fetch(CONNECT, HOME / "connect", **options)
    for jar in CLIENTS:  # one by one: Ivy keeps one version of a module
        fetch([jar], HOME / "clients", **options)
