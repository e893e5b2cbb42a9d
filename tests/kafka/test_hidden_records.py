"""Observers of open transactions and of records ahead of the clock, on a real broker."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import wait_until
from noted_time.values import LogFact
from tests.support.kafka_judge import judge_marks
from tests.support.transactions import begin_transaction
from writer_client import (
    EventTimeNoter,
    KafkaEnds,
    KafkaFields,
    KafkaResolved,
    KafkaTimes,
    Seen,
    WriterClient,
)
from writer_client.kafka.event_times import get_timestamp

pytestmark = pytest.mark.acceptance

NINE, MINUTE = 1_790_000_000_000, 60_000
IDLE_MS = MINUTE
STREAM = {"max_time_ahead_ms": None}


AHEAD = LogFact("unreadable", 1, 1, NINE, count=1)


def watch_field(broker: Broker, topic: str) -> KafkaFields:
    """Observe a field of the records."""
    return KafkaFields(broker.config, topic, "at", start="earliest", clock=lambda: NINE)


def watch_read_timestamps(broker: Broker, topic: str) -> KafkaFields:
    """Observe the timestamps of all records."""
    return KafkaFields(broker.config, topic, get_timestamp, start="earliest", clock=lambda: NINE)


def watch_newest_timestamps(broker: Broker, topic: str) -> KafkaTimes:
    """Observe the newest timestamps."""
    return KafkaTimes(broker.config, topic, clock=lambda: NINE)


def row(partition: int, time: int, key: str | None = None) -> dict[str, Any]:
    """Return the arguments for a record with the time in its value and timestamp."""
    value = f'{{"at": {time}}}'
    return {"value": value, "partition": partition, "timestamp": time, "key": key}


@pytest.mark.parametrize("look_at", [watch_field, watch_read_timestamps, watch_newest_timestamps])
def test_partition_with_an_open_transaction_is_not_idle(
    broker: Broker, served: Served, topic: str, look_at: Callable[[Broker, str], Callable[[], Seen]]
) -> None:
    """No lower passes its hidden record, and `explain` names the transaction."""
    times, now = look_at(broker, topic), 0
    with WriterClient(served.url, topic, "observer") as client:
        noter = EventTimeNoter(
            client, times, delay_ms=0, idle_timeout_ms=IDLE_MS, clock=lambda: now
        )

        def look() -> dict[str, Any]:
            noter.look()
            client.flush()
            return dict(served.get(f"{topic}/explain"))

        broker.send(topic, [(p, row(p, NINE - MINUTE)["value"], NINE - MINUTE) for p in (0, 1)])
        wait_until(lambda: look()["lower"] == NINE - MINUTE)
        producer = begin_transaction(broker, topic, **row(0, NINE - MINUTE + 1))
        broker.send(topic, [(1, row(1, NINE)["value"], NINE)])
        held = []
        for _ in range(3):
            now += IDLE_MS
            held.append(look())
        facts = served.get(f"{topic}/writers/observer")["because"]
        producer.commit_transaction(60)
        wait_until(lambda: bool(times().ends[0] == 3))
        look()

        def ends_idle() -> bool:
            nonlocal now
            now += IDLE_MS
            return bool(look()["lower"] == NINE)

        wait_until(ends_idle)

    assert [each["lower"] for each in held] == [NINE - MINUTE] * 3
    assert "observer: segment 0 has an open transaction" in " ".join(held[-1]["sentences"])
    assert [(each["kind"], each["segment"], each["offset"]) for each in facts] == [
        ("open_transaction", 0, 1)
    ]
    assert judge_marks(broker, topic, controller=served).violations == ()


def test_every_observer_names_an_open_transaction(broker: Broker, topic: str) -> None:
    broker.create(topic, 1, {"message.timestamp.type": "LogAppendTime"})
    looks: list[Callable[[], Seen]] = [
        KafkaEnds(broker.config, topic),
        KafkaTimes(broker.config, topic),
        KafkaFields(broker.config, topic, "at"),
        KafkaResolved(broker.config, topic),
    ]
    producer = begin_transaction(broker, topic, **row(0, NINE))
    while_open = [[(f.kind, f.segment, f.offset) for f in look().because] for look in looks]
    producer.commit_transaction(60)
    wait_until(lambda: looks[0]().ends == {0: 2})
    afterwards = [list(look().because) for look in looks]

    assert while_open == [[("open_transaction", 0, 0)]] * len(looks)
    assert afterwards == [[]] * len(looks)


def test_record_ahead_of_the_clock_is_named(broker: Broker, topic: str) -> None:
    """Observers name its offset and key until the clock passes it, and skip records far ahead."""
    now = NINE
    times = KafkaFields(broker.config, topic, "at", start="earliest", clock=lambda: now)
    producer = Producer(broker.config)
    for each in (row(0, NINE, "a1"), row(0, NINE + 3 * MINUTE, "d07"), row(1, NINE, "a1")):
        producer.produce(topic, **each)
    producer.produce(topic, **row(1, NINE + 6 * MINUTE, "e01"))
    assert producer.flush(60) == 0

    seen: list[Seen] = []

    def is_read() -> bool:
        seen.append(times())
        return seen[-1].ends == {0: 2, 1: 2}

    wait_until(is_read)
    now = NINE + 4 * MINUTE
    later = times()
    assert (seen[-1].because, later.because) == (
        (AHEAD, LogFact("moved_by", 0, 1, NINE + 3 * MINUTE, "d07")),
        (AHEAD,),
    )
    assert (seen[-1].newest, times.unusable) == ({0: NINE + 3 * MINUTE, 1: NINE}, 1)


@pytest.mark.parametrize(
    ("value", "tombstones", "offset"),
    [("no JSON", 20, 0), (f'{{"at": {NINE + 6 * MINUTE}}}', 1, 0), ('{"at": 1}', 1100, 1101)],
)
def test_restarted_observer_still_skips_the_record_ahead(
    broker: Broker, topic: str, value: str, tombstones: int, offset: int
) -> None:
    """Markers and tombstones may follow it."""
    now, end = NINE, tombstones + 2
    producer = begin_transaction(broker, topic, value, partition=0)
    for _ in range(tombstones):
        producer.produce(topic, None, "k", 0)
    producer.commit_transaction(60)
    ends = KafkaEnds(broker.config, topic)
    wait_until(lambda: ends().ends[0] == end)
    connected = partial(KafkaFields, broker.config, topic, "at")
    restart = partial(connected, known=lambda: {0: end}, clock=lambda: now)
    times = restart()
    first, passed = times(), restart(passes={0: offset})()
    now += 7 * MINUTE

    held = {} if tombstones == 1 else {0: None}
    assert first.because == (LogFact("unreadable", 0, offset, NINE, count=1),)
    assert (first.newest, passed.newest, times().newest) == ({0: None}, {}, held)
    assert (times.unusable, times.without_value) == (0, 0)
