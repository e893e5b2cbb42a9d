"""The producer on a real broker; every mark is compared with every record."""

import random
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from time import sleep
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message
from typer.testing import CliRunner

from noted_time import (
    AnotherLog,
    DeliveryFailed,
    Fenced,
    InvalidNote,
    Recreated,
    Rejected,
    Unreachable,
)
from noted_time.values import format_time
from noted_time_cli.app import app
from tests.kafka.conftest import Flights
from tests.support.processes import run_python
from tools.trials.kafka import Record
from tools.trials.waiting import eventually, wait_until
from writer_client import ClockNotes, KafkaNotedProducer
from writer_client.kafka import channel, ends
from writer_client.sending.clock import unix_ms
from writer_client.sending.writer import get_inner_writer

pytestmark = pytest.mark.acceptance

ELEVEN = 1_357_038_000_000
NOON = 1_357_041_600_000


def give_up(*_: object) -> None:
    """Raise inside a transaction or a callback."""
    raise ZeroDivisionError


def read_time(record: Record) -> int:
    return int(record.value or 0)


def test_threads_produce_and_note_while_partitions_are_added(flights: Flights) -> None:
    """Three producers have two threads each."""
    quick = {"topic.metadata.refresh.interval.ms": 200, "queue.buffering.max.messages": 100}
    cities = ("berlin", "lima", "oslo")
    producers = [flights.start(city, quick, timeout_ms=60_000) for city in cities]
    barrier = threading.Barrier(6)

    def run(producer: KafkaNotedProducer, seed: int) -> None:
        chance = random.Random(seed)
        for minute in range(20):
            for _ in range(200):
                time = NOON + 1000 * minute + chance.randrange(3000)
                producer.produce(value="sold", event_time=time, key=str(chance.random()))
            if barrier.wait(60) == 0 and minute in (5, 12):
                flights.broker.grow(flights.topic, 3 if minute == 5 else 5)
            if seed % 2:
                producer.note_time(NOON + 1000 * (minute + 1))
            barrier.wait(60)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, producers * 2, range(6)))
    for producer in producers:
        producer.finish(60)

    assert (flights.check_marks(), flights.lower) == (3 * 2 * 20 * 200, NOON + 20_000)
    assert max(record.partition for record in flights.list_records()) > 2


def test_transaction_is_noted_once_after_its_commit(flights: Flights) -> None:
    """Aborted events and times do not count, not even for the upper of marks."""
    chance = random.Random(7)
    with flights.start(config=flights.transactional_config) as producer:
        for begin in range(NOON, NOON + 12_000, 1000):
            for aborts in (True, False) if begin % 3000 == 1000 else (False,):
                first_event_time = begin + 60_000 if aborts else begin
                first_noted_time = begin + 500 if aborts else begin
                noted_time = begin if aborts else begin + 1000
                with suppress(ZeroDivisionError), producer.transaction():
                    for _ in range(50):
                        time = first_event_time + chance.randrange(1000)
                        producer.produce(value="sold", event_time=time)
                    producer.note_time(first_noted_time)
                    producer.note_time(begin + 1000)
                    if aborts:
                        give_up()
                assert producer.time == noted_time
        producer.finish(60)

    marks = flights.list_marks()
    assert flights.check_marks() == 12 * 50
    assert marks[-1]["lower"] == NOON + 12_000
    assert marks[-1]["upper"] < NOON + 12_000


def test_a_time_that_goes_back_is_raised_before_the_commit(flights: Flights) -> None:
    """The program may note another time and commit."""
    producer = flights.start(config=flights.transactional_config)
    with producer.transaction():
        producer.produce(value="sold", event_time=NOON)
        producer.note_time(NOON + 10)
    with producer.transaction():
        producer.produce(value="sold", event_time=NOON + 10)
        with pytest.raises(InvalidNote, match=f"it noted {format_time(NOON + 10)} before"):
            producer.note_time(NOON + 5)
        producer.note_time(NOON + 20)

    assert producer.flush(60).lower == NOON + 20


def test_commit_without_answer_is_covered_by_the_next_note(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No note leaves until the outcome of the commit is known."""
    monkeypatch.setattr(channel, "COMMIT_S", 1.0)
    producer = flights.start(config=flights.transactional_config)

    def write() -> None:
        producer.produce(value="a", event_time=NOON)
        producer.note_time(NOON + 10)
        producer.flush(60)
        flights.broker.stop()

    with pytest.raises(Unreachable, match="it is unknown whether"), producer.transaction():
        write()
    producer.note_time(NOON + 2)
    assert producer.client.flush(60).lower is None
    with pytest.raises(Unreachable, match="it is unknown whether"):
        producer.finish(0.1)
    with pytest.raises(Rejected, match="call `commit_transaction` again"):
        producer.abort_transaction()
    flights.broker.start()
    monkeypatch.undo()
    assert producer.flush(60).lower == NOON + 2
    with producer.transaction():
        producer.produce(value="b", event_time=NOON + 2)
        producer.note_time(NOON + 5)

    assert producer.flush(60).lower == NOON + 5
    assert flights.check_marks() == 2


def test_too_large_event_holds_the_notes_of_its_batch(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """They wait until the program has produced the failed events again; the log repeats it."""
    flights.broker.create(flights.topic, 1)
    failed_values: list[bytes | None] = []

    def keep_failed(error: KafkaError | None, message: Message) -> None:
        if error:
            failed_values.append(message.value())

    producer = flights.start(config={"linger.ms": 50}, on_failure="keep")
    flights.broker.set(flights.topic, "max.message.bytes", 2000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel, "WARN_S", 0.0)
        for n in range(5):
            producer.produce(
                value=b"x" * (5000 if n == 3 else 10 + n),
                event_time=NOON + n,
                on_delivery=keep_failed,
            )
        producer.note_time(NOON + 10)
        with pytest.raises(DeliveryFailed, match=r"not delivered: 5, .* size too large.*forgive"):
            producer.flush(60)
        producer.note_time(NOON + 20)
        wait_until(lambda: caplog.text.count("not delivered: 5") > 1)
    assert flights.lower is None
    for n, value in enumerate(failed_values):
        producer.produce(value=(value or b"")[:100], event_time=NOON + n)
    producer.forgive()

    assert producer.flush(60).lower == NOON + 20
    assert flights.check_marks() == 5


def test_failed_event_is_raised_by_every_call(flights: Flights) -> None:
    """Notes since then are dropped when the program forgives the failure."""
    producer = flights.start(timeout_ms=3000)
    flights.start("lima").note_time(NOON + 50)
    producer.note_time(NOON)
    flights.broker.set(flights.topic, "max.message.bytes", 2000)
    producer.produce(value=b"x" * 5000, event_time=NOON + 1)
    producer.note_time(NOON + 10)
    wait_until(lambda: flights.read_writer()["no_time_reason"])
    calls: list[Callable[[], object]] = [
        partial(producer.produce, value="b", event_time=NOON + 2),
        partial(producer.note_time, NOON + 20),
        partial(producer.flush, 60),
        partial(producer.finish, 60),
    ]
    for call in calls:
        with pytest.raises(DeliveryFailed, match=r"not delivered: 1, .*drops them"):
            call()
    heard = flights.read_writer()["noted_at"]
    wait_until(lambda: flights.read_writer()["noted_at"] > heard + 5000)
    row = flights.read_writer()
    explanation = flights.served.get(f"{flights.topic}/explain")
    words = ["writers", flights.topic, "berlin", "--url", flights.served.url]
    output = CliRunner().invoke(app, words, env={"COLUMNS": None}).output
    producer.forgive()
    assert producer.time == NOON
    producer.produce(value="x", event_time=NOON + 1)
    producer.note_time(NOON + 20)

    assert producer.flush(60).lower == NOON + 20
    assert flights.read_writer()["no_time_reason"] is None
    assert row["state"] == "live"
    alive = "alive, but 1 event was not delivered since 20"
    assert any(f"berlin is {alive}" in sentence for sentence in explanation["sentences"])
    assert alive in " ".join(output.split())
    assert flights.check_marks() == 1


def test_younger_producer_of_a_name_takes_over(flights: Flights) -> None:
    """The rows of the older one are covered, and it raises before it sends more."""
    older = flights.start()
    older.produce(value="a", event_time=NOON + 1)
    older.note_time(NOON)
    older.flush(60)
    older.produce(value="b", event_time=NOON + 500)
    older.flush(60)
    younger = flights.start()
    younger.note_time(NOON + 10)
    younger.flush(60)
    older.note_time(NOON + 5)
    wait_until(lambda: get_inner_writer(older.client).is_fenced)
    with pytest.raises(Fenced, match=r"took its name over .* 1 row written"):
        older.produce(value="c", event_time=NOON + 3)

    mark = flights.list_marks()[-1]
    assert flights.check_marks() == 2
    assert (mark["lower"], mark["upper"]) == (NOON + 10, NOON + 500)
    assert flights.read_writer()["state"] == "live"


def test_a_producer_fenced_by_kafka_says_so_and_is_not_finished(flights: Flights) -> None:
    """Another producer with the same transactional.id has begun, under any writer name."""
    older = flights.start("older", flights.transactional_config)
    flights.start("younger", flights.transactional_config)
    with (
        pytest.raises(Fenced, match="another producer with its transactional"),
        older.transaction(),
    ):
        older.produce(value="a", event_time=NOON)
    with pytest.raises(Fenced, match="another producer with its transactional"):
        older.note_time(NOON)

    assert flights.read_writer("older")["state"] == "live"


def test_exit_delivers_notes_and_keeps_the_writer(flights: Flights) -> None:
    """The program neither flushes nor closes; librdkafka logs to the program's own log."""
    place = flights.broker.config, flights.topic, "berlin"
    program = f"""
import logging, sys
logging.basicConfig(stream=sys.stdout)
from writer_client import KafkaNotedProducer
producer = KafkaNotedProducer(*{place}, controller={flights.served.url!r})
for n in range(100):
    producer.produce(value="a", event_time={NOON} + n)
producer.note_time({NOON} + 100)
"""
    process = run_python("-c", program)

    assert (process.returncode, process.stderr, flights.check_marks()) == (0, "", 100)
    assert (flights.lower, flights.read_writer()["state"]) == (NOON + 100, "live")


def test_the_clock_is_noted_up_to_what_is_delivered(flights: Flights) -> None:
    """After an abort the clock waits for the events to be committed."""
    now = NOON
    config = flights.transactional_config

    def produce(producer: KafkaNotedProducer, until: int) -> None:
        nonlocal now
        for time in range(now, until):
            producer.produce(value="a", event_time=time)
            now = time

    with flights.start(config=config, auto=ClockNotes(5, 1, lambda: now)) as producer:
        with pytest.raises(Rejected, match="notes the clock"):
            producer.note_time(NOON)
        for part in range(1, 20):
            begin = now
            with suppress(ZeroDivisionError), producer.transaction():
                produce(producer, begin + 20)
                give_up()
            now = begin
            with producer.transaction():
                produce(producer, NOON + 100 * part)
        assert eventually(lambda: flights.lower, now - 5)

    assert flights.check_marks() > 1800


def test_rows_below_a_noted_time_are_late(flights: Flights) -> None:
    """An event makes an idle producer live again."""
    flights.served.make(flights.topic, domains=["default", "ordered"])
    with flights.start(domain="ordered") as producer:
        producer.produce(value="a", event_time=NOON)
        producer.note_time(NOON + 10)
        for late in (NOON + 3, NOON + 9):
            producer.produce(value="a", event_time=late)
        producer.note_time(NOON + 20)
        assert producer.flush(60).late_rows == 2
        producer.idle()
        producer.flush(60)
        assert flights.read_writer()["state"] == "idle"
        producer.produce(value="a", event_time=NOON + 30)
        row = flights.read_writer()

    assert (row["state"], row["times"]) == ("live", {"ordered": NOON + 20})


def will_note(flights: Flights, time: int) -> bool:
    return eventually(lambda: flights.read_writer()["times"], {"default": time})


def test_late_rows_after_a_clock_set_back_are_reported(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """Only events with the program's own stamps are late."""
    now = NOON
    with flights.start(auto=ClockNotes(0, 5, lambda: now)) as producer:
        assert will_note(flights, NOON)
        now = NOON - 30_000
        for _ in range(500):
            producer.produce(value="a", event_time=now)
        assert producer.flush(60).late_rows == 500
        producer.produce(value="a", event_time=None)
        assert eventually(lambda: sum(flights.read_writer()["position"].values()), 501)
        assert (producer.flush(60).late_rows, producer.time) == (500, NOON)
        now = NOON + 10
        producer.produce(value="a", event_time=None)
        assert will_note(flights, NOON + 10)

    stamps = sorted(record.time for record in flights.list_records())
    assert stamps[-2:] == [NOON, NOON + 10]
    assert caplog.text.count("its clock is 30.0 s behind the last time that it noted") == 1


def test_clock_is_noted_again_once_it_is_corrected(flights: Flights) -> None:
    """The refused time does not count as noted."""
    now = 100 * NOON
    with flights.start(auto=ClockNotes(0, 5, lambda: now)) as producer:
        wait_until(lambda: get_inner_writer(producer.client).pop_refused() is not None)
        now = NOON
        assert will_note(flights, NOON)
        # the clock may have been noted more than once before
        get_inner_writer(producer.client).pop_refused()
        producer.produce(value="a", event_time=None)
        producer.flush(60)

    assert [record.time for record in flights.list_records()] == [NOON]


def test_event_times_of_two_domains_are_noted_apart(flights: Flights) -> None:
    """The upper of a mark is a bound while all times are known."""
    domains = ["default", "sent"]
    chance = random.Random(7)
    bounds = []
    flights.served.make(flights.topic, domains=[*domains, "paid"], mark_interval_ms=0)
    for number in range(2):
        with flights.start(domain=domains) as producer:
            for n in range(300 * number, 300 * number + 300):
                time = NOON + n + chance.randrange(30)
                sent_time = ELEVEN + 5 * n + chance.randrange(90)
                producer.produce(
                    value=str(sent_time), event_time=time, event_times={"sent": sent_time}
                )
                if n % 10 == 0:
                    producer.note_time(NOON + n)
                    producer.note_time(ELEVEN + 5 * n, domain="sent")
                if n % 25 == 0:
                    producer.flush(60)
            producer.produce(value=str(ELEVEN), event_time=NOON + n, event_times={"sent": ELEVEN})
            assert producer.flush(60).late_rows == 1
            assert producer.last_time() == producer.time == NOON + n - 9
            assert producer.last_time("sent") == ELEVEN + 5 * (n - 9)
        bounds.append([flights.list_marks(domain)[-1]["upper_is_bound"] for domain in domains])

    verdict = flights.judge(domain="sent", time_of=read_time)
    assert bounds == [[True, True], [True, False]]
    assert flights.check_marks() == 602
    assert verdict.marks > 10
    assert [violation.record.time for violation in verdict.violations] == [ELEVEN] * 2


def test_a_producer_goes_idle_by_itself(flights: Flights) -> None:
    """It goes idle after silence, but not in a transaction; an event makes it live again."""

    def state() -> object:
        return flights.read_writer()["state"]

    with flights.start(config=flights.transactional_config, idle_after_ms=50) as producer:
        for part in (0, 1):
            with producer.transaction():
                producer.produce(value="a", event_time=NOON + part)
                sleep(0.2)
                assert state() == "live"
            producer.note_time(NOON + part + 1)
            assert eventually(state, "idle")
        producer.note_time(NOON + 5)
        assert producer.flush(60).lower == NOON + 5
        assert eventually(state, "idle")


def test_event_of_another_thread_during_idle_is_waited_for(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event makes the writer live after it went idle."""
    producer = flights.start()
    idle = producer.client.idle
    produced_event = threading.Event()

    def produce() -> None:
        producer.produce(value="a", event_time=NOON)
        produced_event.set()

    other = threading.Thread(target=produce)

    def idle_beside(*ends: Mapping[int, int]) -> None:
        other.start()
        produced_event.wait(0.5)  # it cannot join between the last look and this call
        idle(*ends)

    monkeypatch.setattr(producer.client, "idle", idle_beside)
    producer.idle()
    other.join()
    producer.flush(60)

    assert flights.read_writer()["state"] == "live"


def test_an_event_after_idle_and_a_note_waits_for_the_controller(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queued note does not make the writer live yet."""
    monkeypatch.setattr(channel, "BEGIN_S", 0.5)
    producer = flights.start()
    producer.idle()
    producer.flush(60)
    flights.served.stop()
    producer.note_time(NOON)
    with pytest.raises(Unreachable, match="not durable"):
        producer.produce(value="a", event_time=NOON)
    assert flights.list_records() == []
    flights.served.start()
    monkeypatch.undo()
    producer.produce(value="b", event_time=NOON)
    producer.flush(60)

    assert (flights.read_writer()["state"], flights.list_values()) == ("live", [b"b"])


def test_recreated_topic_is_reported_to_writer_and_successor(flights: Flights) -> None:
    """The stream still has the offsets of the former topic."""
    producer = flights.start()
    for n in range(20):
        producer.produce(value="a", event_time=NOON + n, partition=0)
    producer.note_time(NOON + 20)
    producer.flush(60)
    flights.broker.create(flights.topic, 2)
    producer.produce(value="a", event_time=NOON + 20, partition=0)
    with pytest.raises(Rejected, match=r"was deleted and created again.*delete it or use"):
        producer.flush(60)
    with pytest.raises(Rejected, match="was deleted and created again"):
        producer.produce(value="a", event_time=NOON + 30)
    with pytest.raises(AnotherLog):
        flights.start()


def test_a_stream_that_was_noted_for_files_is_refused(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers would wait for offsets of files; the producer does not join."""
    monkeypatch.setattr(ends, "PATIENCE_S", 0.1)
    flights.served.note(flights.topic, NOON, {"0": 90})
    with pytest.raises(
        Recreated, match=r"it ends at \{0: 0\}, and \{0: 90\} is the cut of"
    ) as error:
        flights.start(wait=10)

    assert "perhaps of another log such as files" in str(error.value)
    assert "delete it or use another one" in str(error.value)
    assert [*flights.served.writers(flights.topic)] == ["w"]


def test_longer_recreated_topic_is_reported_to_its_writer(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets do not go back, but its id changes. Later events are not noted."""
    monkeypatch.setattr(channel, "CHECK_INTERVAL_S", 0.1)
    producer = flights.start()
    producer.produce(value="a", event_time=NOON, partition=0)
    producer.note_time(NOON + 1)
    producer.flush(60)
    former = producer._channel._ends.topic.id
    flights.broker.create(flights.topic, 2)
    flights.send(*[(0, "b", NOON)] * 10)

    with pytest.raises(Recreated, match=f"created again.*its id is .*, not {former}"):
        wait_until(lambda: producer.poll(0.1) < 0)
    with pytest.raises(Recreated):
        producer.note_time(NOON + 2)
    assert flights.read_writer()["position"]["0"] == 1


@pytest.mark.parametrize(
    ("config", "options", "says"),
    [
        ({"acks": 0}, {}, "acks=0 reports no offsets"),
        ({"enable.idempotence": "False"}, {}, "enable.idempotence=False writes events twice"),
        ({"delivery.report.only.error": True}, {}, "delivery.report.only.error=True reports no"),
        ({"bootstrap.server": "x"}, {}, 'No such configuration property: "bootstrap.server"'),
        ({}, {"idle_after_ms": 0}, "idle_after_ms"),
        ({}, {"idle_after_ms": 5, "auto": ClockNotes()}, "leave out auto or idle_after_ms"),
        ({}, {"wait": True}, "wait is a number of seconds"),
    ],
)
def test_unusable_configuration_or_option_is_refused(
    config: dict[str, Any], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(Rejected, match=says):
        KafkaNotedProducer(config, "t", "berlin", controller="http://127.0.0.1:9", **options)


def test_unknown_option_is_named() -> None:
    options: dict[str, Any] = {"pace": None}
    with pytest.raises(TypeError, match="has no argument pace"):
        KafkaNotedProducer({}, "t", "berlin", controller="http://127.0.0.1:9", **options)


def test_a_producer_that_was_created_is_a_member(flights: Flights) -> None:
    """So of several in one ``with`` none is late."""
    with flights.start("berlin", wait=10), flights.start("lima", wait=10):
        assert sorted(flights.served.writers(flights.topic)) == ["berlin", "lima"]


def test_producer_retries_an_absent_controller_in_background(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning says so."""
    flights.served.stop()
    with flights.start(wait=0.001) as producer:
        flights.served.start()
        producer.produce(value="a", event_time=NOON)
        producer.note_time(NOON + 1)
        assert producer.flush(60).lower == NOON + 1

    (warning,) = [message for message in caplog.messages if "; retrying" in message]
    assert "'berlin' has not begun after 0.001 s" in warning


def test_refused_event_is_not_sent(flights: Flights) -> None:
    """Kafka would take the time 0 for the present, and fail a whole batch for one event."""
    now = unix_ms()
    flights.broker.create(flights.topic, 1, {"message.timestamp.before.max.ms": 600_000})
    flights.served.make(flights.topic, domains=["default", "sent", "paid"])
    producer = flights.start(domain=["default", "sent"])
    not_sent = "the event was not sent: .*"
    refusals: list[tuple[str, dict[str, Any]]] = [
        ("event_time must be positive .*got 0", {"event_time": 0}),
        ("event_time must be positive .*got -1", {"event_time": -1}),
        (f"event_time must be positive .*got {2**63}", {"event_time": 2**63}),
        (f"{not_sent}ahead .*after.max.ms=3600000", {"event_time": now + 7_200_000}),
        (f"{not_sent}behind .*before.max.ms=600000", {"event_time": now - 700_000}),
        ("event_time is missing", {"event_time": None}),
        ("timestamp=1 is not", {"timestamp": 1}),
        (f"is the topic, here '{flights.topic}'", {"topic": "sold"}),
        ("no domain 'paid': it is created for 'default', 'sent'", {"event_times": {"paid": now}}),
        ("pass the time of 'default' as event_time", {"event_times": {"default": now}}),
        ("is not an int64", {"event_times": {"sent": 2**63}}),
        ("Message size too large", {"value": "x" * 2_000_000}),
    ]
    for says, arguments in refusals:
        with pytest.raises(Rejected, match=says):
            producer.produce(**{"value": "a", "event_time": now, **arguments})
    with pytest.raises(Rejected, match="no domain 'paid'"):
        producer.note_time(now, domain="paid")
    producer.note_time(now)

    assert (len(producer), producer.flush(60).lower) == (0, now)


def test_event_is_accepted_once_its_topic_allows_its_time(flights: Flights) -> None:
    producer = flights.start()
    ahead = unix_ms() + 7_200_000

    def is_accepted() -> bool:
        with suppress(Rejected):
            producer.produce(value="a", event_time=ahead)
            return True
        return False

    assert not is_accepted()
    flights.broker.set(flights.topic, "message.timestamp.after.max.ms", 9_000_000)
    wait_until(is_accepted)
    producer.flush(60)

    assert [record.time for record in flights.list_records()] == [ahead]


def test_topic_with_broker_timestamps_is_logged(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """Such timestamps are not event times; the program's own callbacks run, too."""
    flights.broker.create(flights.topic, 1, {"message.timestamp.type": "LogAppendTime"})
    delivery_errors: list[object] = []
    with flights.start(
        config={"on_delivery": lambda error, _: delivery_errors.append(error)}
    ) as producer:
        producer.produce(value="a", event_time=NOON)
        producer.produce(value="b", event_time=NOON, on_delivery=give_up)
        producer.flush(60)

    assert delivery_errors == [None]
    assert "LogAppendTime" in caplog.text
    assert "on_delivery failed" in caplog.text


def test_event_older_than_the_retention_is_warned_of_once(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """A recent event is not: its warning would be of the second old one."""
    flights.broker.create(flights.topic, 1, {"retention.ms": 3_600_000})
    with flights.start() as producer:
        producer.produce(value="recent", event_time=unix_ms() - 60_000)
        warned_before = "Kafka will delete this record" in caplog.text
        for value in ("old", "older"):
            producer.produce(value=value, event_time=NOON)
        producer.flush(60)

    warning = (
        "Kafka will delete this record: its event_time 2013-01-01T12:00:00Z is .* behind this "
        f"clock, and topic '{flights.topic}' has retention.ms=3600000"
    )
    assert (warned_before, len(re.findall(warning, caplog.text))) == (False, 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"retention.ms": -1},
        {"retention.ms": 3_600_000, "cleanup.policy": "compact"},
        {"retention.ms": 3_600_000, "message.timestamp.type": "LogAppendTime"},
    ],
)
def test_event_that_the_topic_keeps_is_not_warned_of(
    flights: Flights, caplog: pytest.LogCaptureFixture, settings: dict[str, int | str]
) -> None:
    """The topic deletes nothing, or deletes by another time."""
    flights.broker.create(flights.topic, 1, settings)
    with flights.start() as producer:
        producer.produce(value="old", key="a", event_time=NOON)
        producer.flush(60)

    assert "Kafka will delete" not in caplog.text


def test_a_producer_warns_of_offsets_beyond_the_topic(
    flights: Flights, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warning names the writer and the partition."""
    monkeypatch.setattr(ends, "PATIENCE_S", 0.1)
    flights.start("berlin").finish(60)
    note = {"writer": "rome", "time": NOON, "position": {"1": 5_000_000}}
    flights.served.post(flights.topic, note)
    wait_until(lambda: flights.lower == NOON)

    flights.start("lima")

    beyond = f"was noted beyond the ends of Kafka topic '{flights.topic}': partition 1 to 5000000"
    wait_until(lambda: f"stream '{flights.topic}' {beyond} by rome. Readers wait" in caplog.text)
