"""A worker of Kafka Connect on loopback with Debezium's connector for PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import httpx

from tools.trials import classes, kafka
from tools.trials.broker import HOME, JARS, Broker
from tools.trials.daemons import Daemon
from tools.trials.maven import fetch, find_jars, list_jars
from tools.trials.ports import LOOPBACK, free_port
from tools.trials.postgres import PASSWORD, Server
from tools.trials.waiting import wait_until

DEBEZIUM = list_jars(JARS.with_name("debezium_jars.txt"))
"""The connector for PostgreSQL, and its dependencies beyond Kafka Connect."""

MISSING = f"no Debezium in {HOME}: `./run kafka --fetch` installs it there"

LOGICAL = ("wal_level=logical", "track_commit_timestamp=on", "max_prepared_transactions=4")
"""Settings of a server that Debezium reads, and that keeps the commit times."""

WORKER = {
    "offset.storage.topic": "connect-offsets",
    "offset.storage.replication.factor": 1,
    "offset.storage.partitions": 2,
    "config.storage.topic": "connect-configs",
    "config.storage.replication.factor": 1,
    "status.storage.topic": "connect-status",
    "status.storage.replication.factor": 1,
    "status.storage.partitions": 1,
    "offset.flush.interval.ms": 500,
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "plugin.discovery": "service_load",
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 2000,
    "scheduled.rebalance.max.delay.ms": 0,
}

CONNECTOR = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": "1",
    "plugin.name": "pgoutput",
    "heartbeat.interval.ms": "500",
    "heartbeat.action.query": "SELECT pg_logical_emit_message(true, 'noted-time', '')",
    "topic.creation.default.partitions": "2",
    "topic.creation.default.replication.factor": "1",
    "poll.interval.ms": "100",
    "offset.mismatch.strategy": "trust_offset",
}


def install(repository: str | None = None) -> None:
    """Fetch the jars, 12 MB; raises as `fetch`."""
    fetch(DEBEZIUM, HOME / "debezium", repository=repository)


def find_class_path() -> str:
    """Return the class path of a worker with Debezium, empty if it is not installed."""
    connect = kafka.connect()
    is_installed = bool(connect and find_jars(HOME / "debezium", DEBEZIUM))
    return f"{connect}:{HOME}/debezium/*" if is_installed else ""


class Worker:
    """A distributed worker, which the end of the block ends."""

    def __init__(
        self, broker: Broker, directory: Path, settings: Mapping[str, object] | None = None
    ) -> None:
        """Start it."""
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.url = f"http://{LOOPBACK}:{free_port()}"
        own_settings = {
            "bootstrap.servers": broker.address,
            "group.id": "connect",
            "listeners": self.url,
            **WORKER,
            **(settings or {}),
        }
        lines = [f"{name}={value}\n" for name, value in own_settings.items()]
        (directory / "worker.properties").write_text("".join(lines))
        self.start()

    def start(self) -> None:
        """Start its process."""
        options = ["-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        program = "org.apache.kafka.connect.cli.ConnectDistributed"
        words = [classes.java(), *options, "-cp", find_class_path(), program]
        words.append(str(self._directory / "worker.properties"))
        self._process = Daemon(words, self._directory / "log", os.environ)

    def wait(self) -> None:
        """Wait until it answers."""
        wait_until(lambda: self._process.running() and self._answers())

    def kill(self) -> None:
        """Kill it (-9)."""
        self._process.kill()

    def stop(self) -> None:
        """End it in order."""
        self._process.__exit__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def set_connector(
        self,
        name: str,
        server: Server,
        database: str,
        tables: str,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create a connector for tables of a database, whose topics begin with its name."""
        own_settings = {
            **CONNECTOR,
            "database.hostname": LOOPBACK,
            "database.port": str(server.port),
            "database.user": "noted",
            "database.password": PASSWORD,
            "database.dbname": database,
            "topic.prefix": name,
            "slot.name": name,
            "publication.name": name,
            "publication.autocreate.mode": "filtered",
            "table.include.list": tables,
            **(settings or {}),
        }
        url = f"{self.url}/connectors/{name}/config"
        httpx.put(url, json=own_settings, timeout=60).raise_for_status()

    def wait_until_running(self, name: str) -> None:
        """Wait until the task of a connector runs."""
        wait_until(lambda: self._process.running() and self._is_running(name))

    def delete_offsets(self, name: str) -> None:
        """Stop a connector, delete its offsets, and let it begin again."""
        url = f"{self.url}/connectors/{name}"
        httpx.put(f"{url}/stop", timeout=60).raise_for_status()
        wait_until(lambda: httpx.delete(f"{url}/offsets", timeout=60).is_success)
        httpx.put(f"{url}/resume", timeout=60).raise_for_status()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/connectors", timeout=5).is_success
        except httpx.HTTPError:
            return False

    def _is_running(self, name: str) -> bool:
        try:
            answer = httpx.get(f"{self.url}/connectors/{name}/status", timeout=5)
        except httpx.HTTPError:
            return False
        tasks = answer.json().get("tasks", []) if answer.is_success else []
        states = [task["state"] for task in tasks]
        assert "FAILED" not in states, tasks
        return states == ["RUNNING"]
