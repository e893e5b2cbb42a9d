"""Observers of the times in records, on a real broker; every mark is compared with every record."""

from functools import partial
from unittest.mock import Mock

import pytest
from confluent_kafka import Message

from noted_time import NotedTimeError, NotObservable, Recreated, Unreachable
from noted_time.kafka import Topic
from noted_time.observing import Nulls, TimeForm
from noted_time_extensions.observe import KafkaFields
from noted_time_extensions.observe.event_times import get_timestamp
from noted_time_extensions.observe.fields import Start
from tests.kafka.conftest import Flights
from tests.support.busy_topic import BUSY_TIME, BUSY_TOPIC, observe_busy_topic
from tests.support.transactions import begin_transaction
from tools.trials.waiting import wait_until
from writer_client import EventTimeNoter, Seen, WriterClient

pytestmark = pytest.mark.acceptance

TOPIC = BUSY_TOPIC
STREAM = {"domains": ["default", "ingestion"], "max_time_ahead_ms": None}


def observe_fields(flights: Flights, client: WriterClient) -> KafkaFields:
    """Observe times in the records, from the noted position on."""
    position = partial(getattr, client, "position")
    return KafkaFields(*flights.place, "at", known=position, start="earliest", ahead_ms=None)


def test_fields_are_exact_over_transactions_and_restarts(flights: Flights) -> None:
    """No record below a lower lies beyond its cut."""
    observe_busy_topic(flights, observe_fields)

    marks = flights.list_marks()
    assert flights.check_marks()
    assert len(marks) > 3
    assert all(mark["upper_is_bound"] for mark in marks)


def test_observer_of_records_notes_the_id_of_its_topic(flights: Flights) -> None:
    with flights.observe("default") as client:
        EventTimeNoter(client, KafkaFields(*flights.place, "x"), delay_ms=0).look()
        client.flush(60)

    assert flights.served.get(flights.topic)["logs"] == [flights.look().id]


def test_implausible_times_are_skipped(flights: Flights, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the partition and the likely unit."""
    noon = 1_795_694_400_000
    times = [(0, noon), (0, noon + 1), (1, noon // 1000), (1, 0)]
    flights.send(*((partition, f'{{"at": {time}}}', 5) for partition, time in times))
    look = partial(KafkaFields, *flights.place, "at", form=TimeForm(), ahead_ms=None)
    first = look(start="earliest")

    assert [first().newest, first().newest] == [{0: noon + 1, 1: None}, {1: None}]
    assert (first.unusable, first.without_time) == (1, 1)
    assert look(known=lambda: {0: 2, 1: 2})().newest == {1: None}
    flights.send((1, f'{{"at": {noon}}}', noon))
    assert first().newest == {1: noon}
    assert f"{flights.topic}', partition 1, offset 0: the record has no readable" in caplog.text
    assert f"'{noon // 1000}' is among times that look like Unix seconds" in caplog.text


def test_markers_of_transactions_are_no_timestamps(flights: Flights) -> None:
    """They have the broker's time, which observers of all timestamps skip."""
    within = begin_transaction(flights.broker, flights.topic, "a", partition=1, timestamp=1000)
    within.commit_transaction(60)
    wait_until(lambda: flights.look(committed=True).ends[1] == 2)

    assert KafkaFields(*flights.place, get_timestamp, start="earliest")().newest == {1: 1000}


@pytest.mark.parametrize("kind", [Unreachable, NotObservable])
def test_undecodable_record_is_read_again(
    flights: Flights, monkeypatch: pytest.MonkeyPatch, kind: type[NotedTimeError]
) -> None:
    """All records of its batch are read again, even if Kafka reports no first offsets."""
    monkeypatch.setattr(Topic, "begins", Mock(side_effect=Unreachable("no leader answers")))
    flights.send(*((n % 2, f"{n}", 0) for n in range(1, 9)))
    values: list[int] = []

    def decode(message: Message) -> int:
        values.append(int(message.value() or b""))
        if len(values) == 3:
            raise kind("the schema registry is away")
        return values[-1]

    look = KafkaFields(*flights.place, decode, start="earliest")

    with pytest.raises(kind, match="registry"):
        look()
    assert (look().newest, look.unusable) == ({0: 8, 1: 7}, 0)
    assert sorted([*values[:2], *values[3:]]) == [*range(1, 9)]


def read_minutes(message: Message) -> int | None:
    """Return the time of a record with minutes."""
    return None if message.value() == b"none" else int(message.value() or b"") * 60_000


READ_MINUTES = "noted_time_extensions.observe.tests.kafka.test_fields:read_minutes"

UNUSABLE = ["no JSON", "[1]", "{}", '{"at": true}', '{"at": "noon"}']
UNUSABLE += [f'{{"at": {BUSY_TIME}}}']
UNUSABLE += ['{"at": "2013-01-01T10:00:00"}', f'{{"at": {2**70}}}', '{"at": {"at": 1}}']


@pytest.mark.parametrize("nulls", ["hold", "pass"])
def test_null_time_is_activity_and_a_null_above_it_is_none(flights: Flights, nulls: Nulls) -> None:
    """As of Debezium's deletes; also after a restart, and until a later time is read."""
    delete = '{"after": null}'
    null = '{"after": {"at": null}}'

    def observe(position: dict[int, int]) -> KafkaFields:
        start: Start = "earliest"
        return KafkaFields(
            *flights.place, "after.at", start=start, known=lambda: position, nulls=nulls
        )

    flights.send((0, '{"after": {"at": 7}}', 1000), (0, delete, 1000))
    look = observe({})
    looks = [look(), look()]
    flights.send((0, null, 1000), (0, delete, 1000))
    looks += [look(), look()]
    restarted_look = observe({0: 4, 1: 0})
    looks += [restarted_look(), restarted_look()]
    flights.send((0, '{"after": {"at": 9}}', 1000))
    looks += [restarted_look(), restarted_look()]

    held_times = {0: None} if nulls == "hold" else {}
    newest = [look_result.newest for look_result in looks]
    assert newest == [{0: 7}, {}, held_times, held_times, held_times, held_times, {0: 9}, {}]
    assert [fact.by for fact in looks[3].because] == ["--null pass"] * len(held_times)
    counts = (look.null_times, look.without_value, look.unusable, restarted_look.null_times)
    assert counts == (1, 2, 0, 0)


@pytest.mark.parametrize(
    ("field", "values", "found", "unusable"),
    [
        ("at", [*UNUSABLE, '{"at": 7}', '{"at": 5}'], 7, len(UNUSABLE)),
        ("at", ['{"at": "1970-01-01T01:00:00+01:00"}'], 0, 0),
        ("a.from", ['{"a": 9}', '{"a": {"from": 3}, "from": 8}'], 3, 1),
        ("a.at", ['{"a": [{}]}', '{"a": [{"at": 3}, {"at": [8, 5]}, {}]}', '{"a": []}'], 8, 1),
        ("at", ['[{"at": 3}, {"at": 8}]', '[{"at": 5}, {"at": "noon"}]', "[]"], 8, 1),
        (READ_MINUTES, ["2", "two", "none"], 120_000, 1),
    ],
)
def test_times_are_read_from_records(  # noqa: PLR0913 - a table
    flights: Flights,
    caplog: pytest.LogCaptureFixture,
    *,
    field: str,
    values: list[str],
    found: int,
    unusable: int,
) -> None:
    """Records without a time are counted, and the log names the first."""
    flights.send(*((0, value, 1000) for value in values))
    look = KafkaFields(*flights.place, field, start="earliest")

    largest = max(found, BUSY_TIME if unusable == len(UNUSABLE) else found)
    assert look() == Seen({0: len(values), 1: 0}, {0: found}, largest)
    assert look() == Seen({0: len(values), 1: 0}, {}, largest)
    assert (look.unusable, len(caplog.messages)) == (unusable, bool(unusable))
    assert all(f"{flights.topic}', partition 0, offset " in message for message in caplog.messages)


def test_reading_continues_after_deleted_records(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names deleted records; a topic that ends before its read position was recreated."""
    flights.send(*((0, str(n), 1000) for n in range(9)))
    flights.broker.truncate(flights.topic, {0: 5})
    look = partial(KafkaFields, *flights.place, get_timestamp)
    beyond = look(known=lambda: {0: 12})

    assert look()() == Seen({0: 9, 1: 0})
    assert look(start="earliest")() == Seen({0: 9, 1: 0}, {0: 1000}, 1000)
    assert "were deleted" not in caplog.text
    assert look(known=lambda: {0: 2})() == Seen({0: 9, 1: 0}, {0: 1000}, 1000)
    assert "partition 0: the records from 2 to 5 were deleted" in caplog.text
    with pytest.raises(Recreated, match="partition 0 was read to 12, and ends before that"):
        beyond()
