"""A Kafka broker for tests and trials; needs Java, its jars, and confluent-kafka."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from time import sleep
from typing import Any, NamedTuple, Self

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from noted_time import NotedTimeError
from noted_time.kafka.connecting import FATAL_ONLY
from noted_time.kafka.topic import Topic
from tools.trials import classes
from tools.trials.ports import free_port, listens
from tools.trials.waiting import PATIENCE_S, wait_until

HOME = Path(os.environ.get("NOTED_TIME_KAFKA") or Path(sys.prefix, "kafka"))
"""The directory of the jars: by default in the environment that runs."""

STOP_PATIENCE_S = 60

JARS = Path(__file__).with_name("kafka_jars.txt")
"""The jars of a broker with all it needs: group, name, version and SHA-256 of each."""

_CLUSTER = "4L6g3nShT-eMCtK--X86sw"
_QUICK = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_OF_ONE_NODE = {
    "node.id": 1,
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "num.network.threads": 2,
}
_WITHOUT_WAITING = {
    "group.initial.rebalance.delay.ms": 0,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    "log.initial.task.delay.ms": 500,
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 500,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.share.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
}
"""Settings that run periodic work such as compaction at once, and soon readmit a killed broker."""

Settings = Mapping[str, object]

_FORMATTED: dict[object, dict[str, bytes]] = {}
"""The files of formatted data, by node."""


class Record(NamedTuple):
    """A committed record of a topic; `time` is its timestamp in ms, or -1."""

    partition: int
    offset: int
    time: int
    key: bytes | None = None
    value: bytes | None = None


class Broker:
    """One node on loopback that keeps its data, port and topics over a restart.

    Retention deletes nothing, and only `create` creates topics.
    """

    def __init__(
        self,
        root: Path,
        *,
        port: int = 0,
        beside: Broker | None = None,
        settings: Settings | None = None,
        java_options: str = classes.read(classes.KAFKA),
    ) -> None:
        """Configure it; `start` or a `with` block starts it, on any free port if `port` is 0.

        With `beside`, it is the second node of that cluster and only leads partitions.
        """
        self._root = root
        self._words = [classes.java(), *_QUICK, *java_options.split(), "-cp", f"{HOME}/broker/*"]
        self._port = port or free_port()
        self.controller: int = beside.controller if beside else free_port()
        self.address = f"127.0.0.1:{self._port}"
        self.config: dict[str, Any] = {"bootstrap.servers": self.address}
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = {
            **_OF_ONE_NODE,
            **_WITHOUT_WAITING,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self.controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": root / "data",
            "log.retention.ms": -1,
        }
        if beside:
            listener = f"PLAINTEXT://{self.address}"
            self._settings |= {"node.id": 2, "process.roles": "broker", "listeners": listener}
        self._settings |= settings or {}

    def start(self) -> None:
        """Start it, and return once it listens: after 2 s, or 10 s on a busy machine."""
        self._root.mkdir(parents=True, exist_ok=True)
        settings = self._root / "server.properties"
        settings.write_text("".join(f"{k}={v}\n" for k, v in self._settings.items()))
        if not (self._root / "data" / "meta.properties").exists():
            self._format(settings)
        with (self._root / "out").open("wb") as out:
            words = [*self._words, "kafka.Kafka", str(settings)]
            self._process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
        try:
            wait_until(self._listens)
        except BaseException:
            self.kill()
            raise

    def _format(self, settings: Path) -> None:
        """Format its data, which takes 1 s of CPU, once in a process for each node."""
        data = self._root / "data"
        node = self._settings["node.id"]
        if node in _FORMATTED:
            data.mkdir()
            for name, content in _FORMATTED[node].items():
                (data / name).write_bytes(content)
            return
        format_words = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)]
        subprocess.run([*self._words, *format_words], check=True, capture_output=True)
        _FORMATTED[node] = {file.name: file.read_bytes() for file in data.iterdir()}

    def wait(self) -> None:
        """Wait until it ends, and raise `AssertionError` with its last lines.

        It polls. A signal that came just before a wait without a timeout would be lost.
        """
        assert self._process is not None
        while self._process.poll() is None:
            sleep(0.1)
        self._listens()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Return its exit status, `None` while it runs."""
        assert self._process is not None
        return self._process.poll()

    def stop(self) -> None:
        """End it in order, if it is running; kill it if it does not end, as if it is frozen."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill it; the system keeps data that is not on the disk yet."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def admin(self) -> AdminClient:
        """A new client: one that knows a former second node may ask it in vain."""
        return AdminClient({**self.config, "log_level": FATAL_ONLY})

    def change(self, ask: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
        """Wait until all requests to a client are done."""
        admin = self.admin
        for future in ask(admin).values():
            future.result()

    def create(
        self,
        topic: str,
        partitions: int = 2,
        settings: Settings | None = None,
        *,
        leaders: Sequence[int] = (),
        replicas: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic, and return once each partition has a leader.

        A topic of that name is deleted first, so the id is new. `leaders` are the nodes that lead
        its partitions, `replicas` the nodes of each, its leader first.
        """
        if topic in self.topics():
            self.delete(topic)
        config = {name: str(value) for name, value in (settings or {}).items()}
        nodes = replicas or [[node] for node in leaders]
        placement: dict[str, Any] = {"replica_assignment": [*nodes]} if nodes else {}
        partitions = len(nodes) or partitions
        new_topic = NewTopic(topic, partitions, config=config, **placement)
        self.change(lambda admin: admin.create_topics([new_topic]))
        self._wait_for(topic, partitions)

    def set(self, topic: str, name: str, value: int) -> None:
        entry = ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
        config_resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self.change(lambda admin: admin.incremental_alter_configs([config_resource]))

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of each topic, without Kafka's own."""
        topics = self.admin.list_topics(timeout=PATIENCE_S).topics
        return {name: len(topic.partitions) for name, topic in topics.items() if name[:2] != "__"}

    def hide(self, name: str, kind: ResourceType = ResourceType.TOPIC) -> None:
        """Take the right to describe it from all clients, until the topic is deleted."""
        everyone = ("User:*", "*", AclOperation.DESCRIBE, AclPermissionType.DENY)
        acl_binding = AclBinding(kind, name, ResourcePatternType.LITERAL, *everyone)
        self.change(lambda admin: admin.create_acls([acl_binding]))

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions up to that number, and return once each has a leader."""
        self.change(lambda admin: admin.create_partitions([NewPartitions(topic, partitions)]))
        self._wait_for(topic, partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic, and return once the broker does not list it."""
        self.change(lambda admin: admin.delete_topics([topic]))
        wait_until(lambda: topic not in self.topics())

    def truncate(self, topic: str, begins: Mapping[int, int]) -> None:
        wanted_begins = [
            TopicPartition(topic, partition, begin) for partition, begin in begins.items()
        ]
        self.change(lambda admin: admin.delete_records(wanted_begins))

    def send(
        self,
        topic: str,
        rows: Iterable[tuple[int, str | bytes | None, int]],
        key: str | None = None,
    ) -> None:
        """Send (partition, value, timestamp in ms), and return once all are delivered.

        A timestamp of 0 is the present, and all have the same key.
        """
        failures: list[object] = []
        producer = Producer(self.config)
        for partition, value, time in rows:
            producer.produce(
                topic,
                value,
                key,
                partition=partition,
                timestamp=time,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
            producer.poll(0)
        left = producer.flush(60)
        assert (left, failures) == (0, []), failures[:3]

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit these offsets for a group without members."""
        committed_offsets = [
            TopicPartition(topic, partition, offset) for partition, offset in offsets.items()
        ]
        admin = self.admin
        wanted_offsets = ConsumerGroupTopicPartitions(group, committed_offsets)

        def is_committed() -> bool:
            result = admin.alter_consumer_group_offsets([wanted_offsets])[group].result(30)
            return all(topic_partition.error is None for topic_partition in result.topic_partitions)

        wait_until(is_committed)

    def records(self, topic: str) -> Sequence[Record]:
        """Return all committed records of a topic, ordered within partitions."""
        reading: dict[str, Any] = {
            **self.config,
            "group.id": "all-records",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # the end of a partition is reported after it
        }
        unread = set(Topic(self.config, topic).look().partitions)
        consumer = Consumer(reading)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in unread])
        records: list[Record] = []
        while unread:
            for message in consumer.consume(10_000, 0.02):
                if message.error():
                    unread.discard(message.partition())
                else:
                    records.append(_record(message))
        consumer.close()
        return records

    def _wait_for(self, topic: str, partitions: int) -> None:
        def has_leader() -> bool:
            try:
                return len(looking.look().ends) == partitions
            except NotedTimeError:  # a new one may be unknown for a moment
                return False

        looking = Topic(self.config, topic)
        wait_until(has_leader)

    def _listens(self) -> bool:
        assert self._process is not None
        has_ended = self._process.poll() is not None
        assert not has_ended, (self._root / "out").read_text()[-2000:]
        return listens(self._port)


def _record(message: Message) -> Record:
    partition = message.partition()
    offset = message.offset()
    assert partition is not None
    assert offset is not None
    return Record(partition, offset, message.timestamp()[1], message.key(), message.value())
