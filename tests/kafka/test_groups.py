"""How far a consumer group has read a topic, on a real broker."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    ShareConsumer,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import PATIENCE_S, wait_until
from noted_time import Unreachable
from noted_time.client.waiting import NothingKnown
from noted_time.kafka import Topic
from noted_time.kafka.connecting import FATAL_ONLY
from noted_time.kafka.groups import GroupOffsets
from reader_client import committed_position
from tests.cli.conftest import Commands
from tests.support.processes import environment

pytestmark = pytest.mark.acceptance
TEN = 1_357_034_400_000
SINK = Path(__file__).with_name("programs") / "sqlite_sink.py"


def name_group(broker: Broker, topic: str, group: str = "") -> str:
    """Return the name of the group's dataset."""
    return f"group:{group or topic}@{broker.address}/{topic}"


def note(broker: Broker, served: Served, topic: str, time: int, ends: dict[int, int]) -> None:
    """Note a time at these ends, with the topic's id."""
    position = {str(each): end for each, end in ends.items()}
    log = Topic(broker.config, topic).look().id
    note = {"writer": "shop", "time": time, "position": position, "log": log}
    served.call("POST", f"/{topic}/notes", {"notes": [note]})


def acknowledge(broker: Broker, group: str, topic: str, records: int) -> None:
    """Let a share group read and acknowledge some records of a topic."""
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    settings = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    broker.change(lambda admin: admin.incremental_alter_configs([settings]))
    read = 0
    with ShareConsumer({**broker.config, "group.id": group, "log_level": FATAL_ONLY}) as consumer:
        consumer.subscribe([topic])
        while read < records:
            read += sum(message.error() is None for message in consumer.poll(PATIENCE_S))
            consumer.commit_sync()


def test_share_group_is_named_as_share_group(
    broker: Broker, served: Served, topic: str, run: Commands
) -> None:
    """Share groups commit no offsets; the error names the tool that shows their state."""
    broker.send(topic, [(0, str(n), TEN) for n in range(40)])
    note(broker, served, topic, TEN, {0: 40})
    acknowledge(broker, topic, topic, 40)
    found = run("complete-to", name_group(broker, topic))

    assert (found.status, found.out) == (3, "")
    assert f"'{topic}' is a share group, or one of Kafka Streams" in found.err
    assert f"kafka-share-groups.sh --describe --group {topic} shows them" in found.err


def test_group_before_its_first_commit_is_not_a_share_group(broker: Broker, topic: str) -> None:
    """Both protocols of consumer groups may have no offset yet."""
    said = []
    for protocol in ("classic", "consumer"):
        group = f"{topic}-{protocol}"
        settings = {**broker.config, "group.id": group, "group.protocol": protocol}
        with closing(Consumer(settings)) as consumer:
            consumer.subscribe([topic])
            wait_until(lambda: consumer.poll(0.1) or consumer.assignment())
            with pytest.raises(NothingKnown) as caught:
                committed_position(broker.config, group, topic)
        said.append(str(caught.value).partition(":")[0])

    assert said == [
        f"group '{topic}-{protocol}' has committed no offset"
        for protocol in ("classic", "consumer")
    ]


def rows(database: Path) -> set[str]:
    """Return the values that the sink has written."""
    with closing(sqlite3.connect(database)) as connection:
        return {value for (value,) in connection.execute("SELECT value FROM events")}


def sink(
    broker: Broker, topic: str, database: Path, *, dies: bool = False
) -> subprocess.Popen[bytes]:
    """Start the sink; if it `dies`, it ends between its first write and its commit."""
    words = [sys.executable, str(SINK), broker.address, topic, str(database), "dies" * dies]
    return subprocess.Popen(words, env=environment())


def test_wait_ends_when_the_sink_has_written_and_committed(
    broker: Broker, served: Served, topic: str, run: Commands, tmp_path: Path
) -> None:
    """A write without a commit is not enough; a rewind takes the answer back."""
    database = tmp_path / "sink.db"
    broker.send(topic, [(p, f"{p}.{n}", TEN) for n in range(3) for p in range(2)])
    note(broker, served, topic, TEN, {0: 3, 1: 3})
    wait = ("wait", name_group(broker, topic), str(TEN))
    assert sink(broker, topic, database, dies=True).wait(PATIENCE_S) == 9
    killed = run(*wait, "--timeout", "0s")
    written = rows(database)
    process = sink(broker, topic, database)
    try:
        found = run(*wait, "--timeout", "60s")
        at_the_end = rows(database)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not shares(broker, topic))
    broker.commit(topic, topic, {0: 1})
    rewound = run(*wait, "--timeout", "0s")

    assert (killed.status, len(written)) == (124, 1)
    assert (found.status, len(at_the_end)) == (0, 6)
    assert f"read by group '{topic}'" in found.out
    assert rewound.status == 124


def test_wait_holds_while_a_group_is_rebalanced(
    broker: Broker, served: Served, topic: str, run: Commands, tmp_path: Path
) -> None:
    """A second sink joins and the first is killed: no answer comes before the rows."""
    database, found = tmp_path / "sink.db", []
    wait = ("wait", name_group(broker, topic))
    with ExitStack() as sinks:

        def join() -> subprocess.Popen[bytes]:
            process = sink(broker, topic, database)
            sinks.callback(process.wait)
            sinks.callback(process.kill)
            return process

        def read(step: int) -> None:
            broker.send(topic, [(p, f"{p}.{step}.{n}", TEN) for n in range(50) for p in range(2)])
            note(broker, served, topic, TEN + step, dict.fromkeys(range(2), 50 * step))
            waited = run(*wait, str(TEN + step), "--timeout", "120s")
            found.append((waited.status, len(rows(database))))

        first = join()
        read(1)
        join()
        wait_until(lambda: shares(broker, topic) == [1, 1])
        read(2)
        first.kill()
        read(3)

    assert found == [(0, 100), (0, 200), (0, 300)]


def shares(broker: Broker, topic: str) -> list[int]:
    admin = AdminClient(broker.config)  # its calls end with it
    members = admin.describe_consumer_groups([topic])[topic].result(30).members
    return [len(each.assignment.topic_partitions) for each in members]


@pytest.fixture
def run(served: Served) -> Commands:
    """Return a runner of commands with the controller's URL."""
    return Commands(served.url)


class Refusing:
    """A client whose broker answers questions about offsets with errors, one code each.

    With `error` the group has no coordinator.
    """

    def __init__(self, *codes: int, error: int | None = None) -> None:
        self._codes, self._error = iter(codes), error

    def list_consumer_group_offsets(
        self, asked: list[ConsumerGroupTopicPartitions], **_: object
    ) -> dict[str, Future[Any]]:
        return {each.group_id: _complete(next(self._codes)) for each in asked}

    def describe_consumer_groups(self, groups: list[str], **_: object) -> dict[str, Future[Any]]:
        return dict.fromkeys(groups, _complete(self._error))

    def list_groups(self, *_: object, **__: object) -> list[object]:
        return []


def _complete(code: int | None) -> Future[Any]:
    future = Future[Any]()
    if code is None:
        future.set_result(None)
    else:
        future.set_exception(KafkaException(KafkaError(code)))
    return future


LOADS, UNKNOWN = KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("broker", "patience_s", "kind", "says"),
    [
        (Refusing(UNKNOWN), 0.0, NothingKnown, "has committed no offset: correct the name"),
        (Refusing(LOADS), 0.0, Unreachable, "the offsets of group 'g': "),
        # as after a start of the broker, or the first group of a cluster
        (Refusing(LOADS, UNKNOWN), 5.0, NothingKnown, "has committed no offset"),
        # librdkafka takes a client of another broker for a member: its answer ends the process
        (Refusing(error=KafkaError.NOT_COORDINATOR), 0.0, Unreachable, "offsets of group 'g': "),
    ],
    ids=["unknown", "loads", "loaded", "elsewhere"],
)
def test_group_with_unavailable_offsets_is_named(
    monkeypatch: pytest.MonkeyPatch,
    broker: Refusing,
    patience_s: float,
    kind: type[Exception],
    says: str,
) -> None:
    """Errors that may pass are retried; others are raised."""
    monkeypatch.setattr("noted_time.kafka.groups.GROUP_LOAD_S", patience_s)
    monkeypatch.setattr("noted_time.kafka.connecting.AdminClient", lambda _: broker)
    group = GroupOffsets({"bootstrap.servers": "127.0.0.1:9"}, "g", "topic")

    with pytest.raises(kind, match=says):
        group._fetch_committed()
