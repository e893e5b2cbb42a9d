"""Time by the stamps of a real broker; each mark is judged against each record's stamp."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from noted_time import NotObservable
from tests.kafka.test_looks import Busy
from tests.support.kafka import Broker
from tests.support.kafka_judge import all_marks, judged
from tests.support.served import Served
from tests.support.waiting import wait_until
from writer_client import EventTimeNoter, KafkaBrokerTimes, WriterClient
from writer_client.posting import unix_ms

pytestmark = pytest.mark.acceptance

SKEW = 20
"""More than enough, as the broker's clock is this machine's."""

STAMPED = {"message.timestamp.type": "LogAppendTime"}


@pytest.fixture
def topic(broker: Broker, served: Served, request: pytest.FixtureRequest) -> str:
    """Return a topic of two partitions with LogAppendTime, and its stream."""
    name = str(request.node.originalname)
    broker.create(name, 2, STAMPED)
    served.make(name)
    return name


def stamp_by(broker: Broker, topic: str, who: str) -> None:
    """Set who stamps the records, and return once it is so."""
    entry = ConfigEntry("message.timestamp.type", who, incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    broker.change(lambda admin: admin.incremental_alter_configs([changed]))


def observer(client: WriterClient, times: KafkaBrokerTimes) -> EventTimeNoter:
    """Return what notes these times as they are."""
    return EventTimeNoter(client, times, delay_ms=0, idle_timeout_ms=0)


def look_until(noter: EventTimeNoter, time: int) -> None:
    """Look until the time noted is that, or later: committed ends lag behind a commit."""

    def reached() -> bool:
        noter.look()
        return (noter.client.flush().lower or 0) >= time

    wait_until(reached)


def test_stamps_are_noted_over_transactions_growth_and_restarts(
    broker: Broker, served: Served, topic: str
) -> None:
    """A transaction's records are stamped long before they are seen; none is below a lower."""
    busy = Busy(broker, topic, seed=7)
    for turn in range(3):
        with WriterClient(served.url, topic, "observer") as client:
            times = KafkaBrokerTimes(broker.config, topic, skew_ms=SKEW)
            noter = observer(client, times)
            for _ in range(15):
                noter.look()
                client.flush()
                busy.write()
            if turn == 0:
                busy.grow()
            elif turn == 2:
                busy.close()
                before = unix_ms()
                broker.send(topic, [(p, "last", 0) for p in range(busy.partitions)])
                look_until(noter, before - SKEW)

    verdict = judged(broker, topic, controller=served)
    marks = all_marks(served, topic)
    assert (verdict.violations, times.late) == ((), 0)
    assert verdict.marks > 5
    assert all(mark["upper_is_bound"] for mark in marks if mark["cut"])


def test_a_quiet_topic_has_the_clock_less_the_lag(broker: Broker, topic: str) -> None:
    """One and a half times replica.lag.time.max.ms, the skew and four seconds, or the one given."""
    found = []
    for lag_ms in (None, 50_000):
        times = KafkaBrokerTimes(broker.config, topic, lag_ms=lag_ms, clock=lambda: 1_000_000)
        found.append(times())

    assert found == [({0: 0, 1: 0}, {0: at, 1: at}, None) for at in (950_000, 950_000)]


def test_what_rests_on_no_setting_of_the_brokers_is_refused(broker: Broker, topic: str) -> None:
    """A lag that is too short, and the times of producers, also if that changes later."""
    times = KafkaBrokerTimes(broker.config, topic)
    with pytest.raises(NotObservable, match=r"a lag of 45999 ms .*: at least 46000 ms"):
        KafkaBrokerTimes(broker.config, topic, lag_ms=45_999)
    stamp_by(broker, topic, "CreateTime")

    for looking in (times, lambda: KafkaBrokerTimes(broker.config, topic)):
        with pytest.raises(
            NotObservable, match=f"topic '{topic}' have the times of their producers"
        ):
            looking()


def test_stamps_below_what_was_noted_are_counted_and_named(
    broker: Broker, served: Served, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As by a new leader whose clock is behind: here the producer stamps for a moment."""
    told = []
    with WriterClient(served.url, topic, "observer") as client:
        times = KafkaBrokerTimes(broker.config, topic, on_late=lambda *rows: told.append(rows))
        noter = observer(client, times)
        noter.look()
        broker.send(topic, [(0, "a", 0), (1, "b", 0)])
        noter.look()
        stamp_by(broker, topic, "CreateTime")
        broker.send(topic, [(1, "late", 1_357_034_400_000), (1, "late", 1_357_034_400_001)])
        stamp_by(broker, topic, "LogAppendTime")
        look_until(noter, unix_ms() - 50_000)

    assert (times.late, told) == (2, [(2, 1_357_034_400_000, 1_357_034_400_001)])
    assert f"Kafka topic '{topic}': 2 records have stamps below" in caplog.text
    assert "2013-01-01T10:00:00Z, of partition 1, offset 1" in caplog.text


def test_records_that_wait_for_replicas_are_waited_for(
    broker: Broker, served: Served, tmp_path: Path
) -> None:
    """They are not seen for as long as too few replicas are in sync, and stamped before."""
    name = "replicated"
    with Broker(tmp_path, beside=broker) as second:
        two = {**STAMPED, "min.insync.replicas": 2}
        broker.create(name, settings=two, replicas=[[1, 2]])
        served.make(name)
        now = [unix_ms()]
        with WriterClient(served.url, name, "observer") as client:
            times = KafkaBrokerTimes(broker.config, name, skew_ms=SKEW, clock=lambda: now[0])
            noter = observer(client, times)
            noter.look()
            before = client.flush().lower
            second.kill()
            wait_until(lambda: times._topic.topic.look().in_sync == {0: 1})
            producer = Producer({**broker.config, "acks": 1})
            producer.produce(name, "alone")
            producer.flush(60)
            now[0] += 3_600_000
            noter.look()
            assert client.flush().lower == before
            second.start()
            look_until(noter, now[0] - 100_000)
        verdict = judged(broker, name, controller=served)
        broker.delete(name)

    assert (verdict.records, verdict.violations) == (1, ())
