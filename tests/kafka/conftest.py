"""Fixtures for tests with Kafka."""

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, suppress
from typing import Any

import pytest
from confluent_kafka import Consumer

from noted_time import NotedTimeError
from noted_time.client import Json
from noted_time.kafka import Topic, TopicLook
from tests.support.kafka_judge import Verdict, judge_marks
from tools.trials.kafka import Broker, Record
from tools.trials.secured_kafka import SecuredBroker
from tools.trials.served import Served
from tools.trials.waiting import wait_until
from writer_client import KafkaNotedProducer, WriterClient


class Flights:
    """A topic, its stream of the same name, and their noting producers."""

    def __init__(self, broker: Broker, served: Served, topic: str) -> None:
        self.broker = broker
        self.served = served
        self.topic = topic
        self.place = broker.config, topic
        self.transactional_config = {"transactional.id": topic}
        self._started: list[KafkaNotedProducer] = []

    def start(
        self,
        writer: str = "berlin",
        config: Mapping[str, Any] | None = None,
        **options: Any,  # noqa: ANN401 - any option
    ) -> KafkaNotedProducer:
        """Start a producer, which is closed after the test."""
        config = {**self.broker.config, "linger.ms": 5, **(config or {})}
        options = {"wait": None, **options}
        producer = KafkaNotedProducer(
            config, self.topic, writer, controller=self.served.url, **options
        )
        self._started.append(producer)
        return producer

    def close(self) -> None:
        for producer in self._started:
            with suppress(NotedTimeError):
                producer.close(30)

    def send(self, *rows: tuple[int, str | None, int]) -> None:
        """Send records, each with its partition, value and timestamp."""
        self.broker.send(self.topic, rows)

    def list_records(self) -> list[Record]:
        return [*self.broker.records(self.topic)]

    def list_values(self) -> list[bytes | None]:
        return [record.value for record in self.list_records()]

    def observe(self, *domains: str) -> WriterClient:
        """Return a client for an observer of the topic."""
        return WriterClient(
            self.topic, "observer", controller=self.served.url, domains=domains or None
        )

    def read_writer(self, writer: str = "berlin") -> Json:
        return self.served.get(f"{self.topic}/writers/{writer}")

    def read_writers(self) -> dict[str, Json]:
        return self.served.writers(self.topic)

    def look(self, **options: bool) -> TopicLook:
        return Topic(*self.place).look(**options)

    def list_marks(self, domain: str = "default") -> list[Json]:
        return self.served.all_marks(self.topic, domain)

    @property
    def lower(self) -> int | None:
        """The lower of the stream, or `None` before the first mark."""
        lower: int | None = self.served.get(f"{self.topic}/explain")["lower"]
        return lower

    def judge(self, **options: Any) -> Verdict:  # noqa: ANN401 - of `judge_marks`
        """Compare all marks with all records."""
        return judge_marks(self.broker, self.topic, controller=self.served, **options)

    def check_marks(self, **options: Any) -> int:  # noqa: ANN401 - of `judge_marks`
        """Check that there are marks and none is wrong, and return how many records there are."""
        verdict = self.judge(**options)
        assert verdict.violations == ()
        assert verdict.marks
        return verdict.records


def wait_for_assignment(consumer: Consumer) -> None:
    """Wait until the consumer has partitions or a record."""
    wait_until(lambda: consumer.poll(0.1) or consumer.assignment())


def complete(answer: object) -> Future[Any]:
    """Return a future with the answer, which may be an error."""
    future = Future[Any]()
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
    return future


@pytest.fixture
def topic(broker: Broker, served: Served, request: pytest.FixtureRequest) -> str:
    """Return a topic of two partitions, named like the test, with its stream.

    A module may set `PARTITIONS`, and their configuration as `TOPIC` and `STREAM`.
    """
    name = re.sub(r"\W", "_", request.node.name)
    partitions = getattr(request.module, "PARTITIONS", 2)
    broker.create(name, partitions, getattr(request.module, "TOPIC", {}))
    served.make(name, **getattr(request.module, "STREAM", {}))
    return name


@pytest.fixture
def flights(broker: Broker, served: Served, topic: str) -> Iterator[Flights]:
    """Return the topic with its stream and its producers."""
    with closing(Flights(broker, served, topic)) as flights:
        yield flights


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Return a secured broker with a topic of two partitions, and a record in the first."""
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as broker:
        broker.create("flights")
        broker.send("flights", [(0, '{"at": 5}', 5)])
        yield broker
