"""The jars of Kafka that tests need, which `fetch` brings, and the broker that runs with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_integration.session.jars import CONNECTOR, Jar, fetch
from tests.support.broker import HOME, JARS, Broker, Record, Settings, free_port
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from reader_client import KafkaRelay

__all__ = ["HOME", "Broker", "Record", "Settings", "free_port"]


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
    """Whether a broker and the connector are there."""
    return bool(connector()) and all((HOME / "broker" / jar.file).exists() for jar in BROKER)


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


def relayed(relay: KafkaRelay, broker: Broker, count: int) -> None:
    """Look until so many marks were relayed."""

    def looked() -> int:
        relay.look()
        there = relay.noted.name in broker.topics()
        return there and relay.noted.look().ends.get(0, 0)

    wait_until(lambda: looked() >= count)
