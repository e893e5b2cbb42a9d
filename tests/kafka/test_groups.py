"""How far a consumer group has read a topic, on a real broker."""

from __future__ import annotations

import sqlite3
import sys
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from noted_time import Unreachable
from noted_time.client.waiting import NothingKnown
from noted_time.kafka.groups import GroupOffsets
from reader_client import committed_position
from tests.cli.conftest import Commands, Result
from tests.kafka.conftest import Flights, complete, wait_for_assignment
from tests.support.processes import environment, run_python
from tools.trials.calls import wire
from tools.trials.daemons import Daemon
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import wait_until

pytestmark = pytest.mark.acceptance
TEN = 1_357_034_400_000
SINK = Path(__file__).with_name("programs") / "sqlite_sink.py"


class SunkFlights(Flights):
    """Flights, and sinks that write them to a database as one consumer group."""

    def __init__(self, broker: Broker, served: Served, topic: str, directory: Path) -> None:
        super().__init__(broker, served, topic)
        self._log = directory / "log"
        self._database = directory / "sink.db"
        self.sink = (SINK, broker.address, topic, self._database)

    def start_sink(self) -> Daemon:
        return Daemon([sys.executable, *map(str, self.sink), ""], self._log, environment())

    def count_rows(self) -> int:
        with closing(sqlite3.connect(self._database)) as connection:
            ((count,),) = connection.execute("SELECT count(*) FROM events")
        return int(count)

    def list_shares(self) -> list[int]:
        """Return how many partitions each member of the group has."""
        admin = AdminClient(self.broker.config)  # its calls end with it
        members = admin.describe_consumer_groups([self.topic])[self.topic].result(30).members
        return [len(member.assignment.topic_partitions) for member in members]

    def send_to_each(self, *names: str) -> None:
        """Write a record of each name to both partitions."""
        rows = []
        for name in names:
            rows += [(0, f"0.{name}", TEN), (1, f"1.{name}", TEN)]
        self.send(*rows)

    def note(self, time: int, ends: dict[int, int]) -> None:
        """Note a time at these ends, with the topic's id."""
        note = {"writer": "shop", "time": time, "position": wire(ends), "log": self.look().id}
        self.served.post(self.topic, note)

    def wait(self, time: int, timeout: str) -> Result:
        """Wait until the group has read all before a time."""
        group = f"group:{self.topic}@{self.broker.address}/{self.topic}"
        return Commands(self.served.url)("wait", group, time, "--timeout", timeout)


@pytest.fixture
def flights(broker: Broker, served: Served, topic: str, tmp_path: Path) -> SunkFlights:
    """Return the topic, its stream and its sinks."""
    return SunkFlights(broker, served, topic, tmp_path)


def test_group_before_its_first_commit_is_not_a_share_group(flights: SunkFlights) -> None:
    """Both protocols of consumer groups may have no offset yet."""
    for protocol in ("classic", "consumer"):
        group = f"{flights.topic}-{protocol}"
        settings = {**flights.broker.config, "group.id": group, "group.protocol": protocol}
        with closing(Consumer(settings)) as consumer:
            consumer.subscribe([flights.topic])
            wait_for_assignment(consumer)
            with pytest.raises(NothingKnown, match=f"group '{group}' has committed no offset:"):
                committed_position(flights.broker.config, group, flights.topic)


def test_wait_ends_when_the_sink_has_written_and_committed(flights: SunkFlights) -> None:
    """A write without a commit is not enough; a rewind takes the answer back."""
    flights.send_to_each("0", "1", "2")
    flights.note(TEN, {0: 3, 1: 3})
    assert run_python(*flights.sink, "dies").returncode == 9
    stopped_wait = flights.wait(TEN, "0s")
    row_count = flights.count_rows()
    with flights.start_sink():
        finished_wait = flights.wait(TEN, "60s")
        at_the_end = flights.count_rows()
    wait_until(lambda: not flights.list_shares())
    flights.broker.commit(flights.topic, flights.topic, {0: 1})
    rewound = flights.wait(TEN, "0s")

    assert (stopped_wait.status, row_count) == (124, 1)
    assert (finished_wait.status, at_the_end) == (0, 6)
    assert f"read by group '{flights.topic}'" in finished_wait.out
    assert rewound.status == 124


def test_wait_holds_while_a_group_is_rebalanced(flights: SunkFlights) -> None:
    """A second sink joins and the first is killed: no answer comes before the rows."""
    outcomes = []

    def read(step: int) -> None:
        flights.send_to_each(*(f"{step}.{n}" for n in range(50)))
        flights.note(TEN + step, dict.fromkeys(range(2), 50 * step))
        outcomes.append((flights.wait(TEN + step, "120s").status, flights.count_rows()))

    with flights.start_sink() as first:
        read(1)
        with flights.start_sink():
            wait_until(lambda: flights.list_shares() == [1, 1])
            read(2)
            first.kill()
            read(3)

    assert outcomes == [(0, 100), (0, 200), (0, 300)]


def refuse(code: int) -> Future[Any]:
    return complete(KafkaException(KafkaError(code)))


class Refusing:
    """A client whose broker answers questions about offsets with errors, one code each.

    With `error` the group has no coordinator.
    """

    def __init__(self, *codes: int, error: int | None = None) -> None:
        self._codes = iter(codes)
        self._error = error

    def list_consumer_group_offsets(
        self, asked: list[ConsumerGroupTopicPartitions], **_: object
    ) -> dict[str, Future[Any]]:
        return {group.group_id: refuse(next(self._codes)) for group in asked}

    def describe_consumer_groups(self, groups: list[str], **_: object) -> dict[str, Future[Any]]:
        answer = complete(None) if self._error is None else refuse(self._error)
        return dict.fromkeys(groups, answer)

    def list_groups(self, *_: object, **__: object) -> list[object]:
        return []


LOADS = KafkaError.COORDINATOR_LOAD_IN_PROGRESS
UNKNOWN = KafkaError.GROUP_ID_NOT_FOUND


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
