"""The producer on a real broker; every mark is compared with every record."""

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import sleep
from typing import Any

import pytest
from typer.testing import CliRunner

from demo.trials.calls import Calls
from demo.trials.kafka import Broker, Record
from demo.trials.served import Served
from demo.trials.waiting import eventually, wait_until
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
from tests.kafka.conftest import Start
from tests.support.kafka_judge import Verdict, judge_marks
from tests.support.processes import environment
from writer_client import ClockNotes, KafkaNotedProducer
from writer_client.kafka import channel, ends
from writer_client.sending.clock import unix_ms

pytestmark = pytest.mark.acceptance

ELEVEN, NOON = 1_357_038_000_000, 1_357_041_600_000


def make_config(topic: str) -> dict[str, Any]:
    return {"transactional.id": topic}


def give_up() -> None:
    """Raise inside a transaction."""
    raise ZeroDivisionError


def read_time(record: Record) -> int:
    return int(record.value or 0)


def check_marks(broker: Broker, served: Calls, topic: str) -> Verdict:
    """Check that marks have no violation, and return the verdict."""
    verdict = judge_marks(broker, topic, controller=served)
    assert verdict.violations == ()
    assert verdict.marks
    return verdict


def lower(served: Calls, topic: str) -> object:
    return served.get(f"{topic}/explain")["lower"]


def test_threads_produce_and_note_while_partitions_are_added(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """Three producers have two threads each."""
    quick = {"topic.metadata.refresh.interval.ms": 200, "queue.buffering.max.messages": 100}
    producers = [start(name, quick, timeout_ms=60_000) for name in ("berlin", "lima", "oslo")]
    barrier = threading.Barrier(6, lambda: None)

    def run(producer: KafkaNotedProducer, seed: int) -> None:
        chance = random.Random(seed)
        for minute in range(20):
            for _ in range(200):
                time = NOON + 1000 * minute + chance.randrange(3000)
                producer.produce(value="sold", event_time=time, key=str(chance.random()))
            if barrier.wait(60) == 0 and minute in (5, 12):
                broker.grow(topic, 3 if minute == 5 else 5)
            if seed % 2:
                producer.note_time(NOON + 1000 * (minute + 1))
            barrier.wait(60)

    threads = [threading.Thread(target=run, args=(producers[n // 2], n)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for producer in producers:
        producer.finish(60)

    verdict = check_marks(broker, served, topic)
    assert (verdict.records, lower(served, topic)) == (3 * 2 * 20 * 200, NOON + 20_000)
    assert max(each.partition for each in broker.records(topic)) > 2


def test_transaction_is_noted_once_after_its_commit(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """Aborted events and times do not count, not even for the upper of marks."""
    chance, written = random.Random(7), 0
    with start(config=make_config(topic)) as producer:
        for minute in range(12):
            aborts = minute % 3 == 1
            while True:
                try:
                    with producer.transaction():
                        for _ in range(50):
                            time = NOON + 1000 * minute + chance.randrange(1000)
                            producer.produce(value="sold", event_time=time + 60_000 * aborts)
                        producer.note_time(NOON + 1000 * minute + 500 * aborts)
                        producer.note_time(NOON + 1000 * (minute + 1))
                        if aborts:
                            give_up()
                except ZeroDivisionError:
                    assert producer.time == NOON + 1000 * minute
                    aborts = False
                else:
                    written += 50
                    break
        producer.finish(60)

    marks = served.get(f"{topic}/marks")["marks"]
    assert check_marks(broker, served, topic).records == written
    assert [mark["lower"] for mark in marks][-1] == NOON + 12_000
    assert marks[-1]["upper"] < NOON + 12_000


def test_a_time_that_goes_back_is_raised_before_the_commit(start: Start, topic: str) -> None:
    """The program may note another time and commit."""
    producer = start(config=make_config(topic))
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
    broker: Broker, served: Served, topic: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No note leaves until the outcome of the commit is known."""
    monkeypatch.setattr(channel, "COMMIT_S", 1.0)
    producer = start(config=make_config(topic))

    def write() -> None:
        producer.produce(value="a", event_time=NOON)
        producer.note_time(NOON + 10)
        producer.flush(60)
        broker.stop()

    with pytest.raises(Unreachable, match="it is unknown whether"), producer.transaction():
        write()
    producer.note_time(NOON + 2)
    assert producer.client.flush(60).lower is None
    with pytest.raises(Unreachable, match="it is unknown whether"):
        producer.finish(0.1)
    with pytest.raises(Rejected, match="call `commit_transaction` again"):
        producer.abort_transaction()
    broker.start()
    monkeypatch.undo()
    assert producer.flush(60).lower == NOON + 2
    with producer.transaction():
        producer.produce(value="b", event_time=NOON + 2)
        producer.note_time(NOON + 5)

    assert producer.flush(60).lower == NOON + 5
    assert check_marks(broker, served, topic).records == 2


def test_too_large_event_holds_the_notes_of_its_batch(
    broker: Broker, served: Served, topic: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """They wait until the program has produced the failed events again; the log repeats it."""
    broker.create(topic, 1)
    failed: list[bytes | None] = []
    producer = start(config={"linger.ms": 50}, on_failure="hold")
    broker.set(topic, "max.message.bytes", 2000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(channel, "WARN_S", 0.0)
        for n in range(5):
            producer.produce(
                value=b"x" * (5000 if n == 3 else 10 + n),
                event_time=NOON + n,
                on_delivery=lambda error, sent: failed.append(sent.value()) if error else None,
            )
        producer.note_time(NOON + 10)
        with pytest.raises(DeliveryFailed, match=r"not delivered: 5, .* size too large.*forgive"):
            producer.flush(60)
        producer.note_time(NOON + 20)
        wait_until(lambda: caplog.text.count("not delivered: 5") > 1)
    assert lower(served, topic) is None
    for n, value in enumerate(failed):
        producer.produce(value=(value or b"")[:100], event_time=NOON + n)
    producer.forgive()

    assert producer.flush(60).lower == NOON + 20
    assert check_marks(broker, served, topic).records == 5


def test_failed_event_is_raised_by_every_call(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """Notes since then are dropped when the program forgives the failure."""
    producer = start(timeout_ms=3000)
    start("lima").note_time(NOON + 50)
    producer.note_time(NOON)
    broker.set(topic, "max.message.bytes", 2000)
    producer.produce(value=b"x" * 5000, event_time=NOON + 1)
    producer.note_time(NOON + 10)
    wait_until(lambda: served.get(f"{topic}/writers/berlin")["held"])
    calls: list[Callable[[], object]] = [
        lambda: producer.produce(value="b", event_time=NOON + 2),
        lambda: producer.note_time(NOON + 20),
        lambda: producer.flush(60),
        lambda: producer.finish(60),
    ]
    for call in calls:
        with pytest.raises(DeliveryFailed, match=r"not delivered: 1, .*drops them"):
            call()
    heard = served.get(f"{topic}/writers/berlin")["noted_at"]
    wait_until(lambda: served.get(f"{topic}/writers/berlin")["noted_at"] > heard + 5000)
    row, explained = served.get(f"{topic}/writers/berlin"), served.get(f"{topic}/explain")
    words = ["writers", topic, "berlin", "--url", served.url]
    shown = CliRunner().invoke(app, words, env={"COLUMNS": None}).output
    producer.forgive()
    assert producer.time == NOON
    producer.produce(value="x", event_time=NOON + 1)
    producer.note_time(NOON + 20)

    assert producer.flush(60).lower == NOON + 20
    assert served.get(f"{topic}/writers/berlin")["held"] is None
    assert row["state"] == "live"
    alive = "alive, but 1 event was not delivered since 20"
    assert any(f"berlin is {alive}" in sentence for sentence in explained["sentences"])
    assert alive in " ".join(shown.split())
    assert check_marks(broker, served, topic).records == 1


def test_younger_producer_of_a_name_takes_over(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """The rows of the older one are covered, and it raises before it sends more."""
    older = start()
    older.produce(value="a", event_time=NOON + 1)
    older.note_time(NOON)
    older.flush(60)
    older.produce(value="b", event_time=NOON + 500)
    older.flush(60)
    younger = start()
    younger.note_time(NOON + 10)
    younger.flush(60)
    older.note_time(NOON + 5)
    wait_until(lambda: older.client.is_fenced)
    with pytest.raises(Fenced, match=r"took its name over .* 1 row written"):
        older.produce(value="c", event_time=NOON + 3)

    assert check_marks(broker, served, topic).records == 2
    mark = served.get(f"{topic}/marks")["marks"][-1]
    assert (mark["lower"], mark["upper"]) == (NOON + 10, NOON + 500)
    assert served.get(f"{topic}/writers/berlin")["state"] == "live"


def test_a_producer_fenced_by_kafka_says_so_and_is_not_finished(
    served: Served, topic: str, start: Start
) -> None:
    """Another producer with the same transactional.id has begun, under any writer name."""
    older = start("older", make_config(topic))
    start("younger", make_config(topic))
    with (
        pytest.raises(Fenced, match="another producer with its transactional"),
        older.transaction(),
    ):
        older.produce(value="a", event_time=NOON)
    with pytest.raises(Fenced, match="another producer with its transactional"):
        older.note_time(NOON)

    assert served.get(f"{topic}/writers/older")["state"] == "live"


def test_exit_delivers_notes_and_keeps_the_writer(
    broker: Broker, served: Served, topic: str
) -> None:
    """The program neither flushes nor closes; librdkafka logs to the program's own log."""
    program = f"""
import logging, sys
logging.basicConfig(stream=sys.stdout)
from writer_client import KafkaNotedProducer
producer = KafkaNotedProducer({broker.config}, "{topic}", "{served.url}", "berlin")
for n in range(100):
    producer.produce(value="a", event_time={NOON} + n)
producer.note_time({NOON} + 100)
"""
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env=environment(), capture_output=True, check=True)

    assert (check_marks(broker, served, topic).records, done.stderr) == (100, b"")
    assert lower(served, topic) == NOON + 100
    assert served.get(f"{topic}/writers/berlin")["state"] == "live"


def test_the_clock_is_noted_up_to_what_is_delivered(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """After an abort the clock waits for the events to be committed."""
    now = NOON

    def produce(producer: KafkaNotedProducer, until: int) -> None:
        nonlocal now
        for time in range(now, until):
            producer.produce(value="a", event_time=time)
            now = time

    with start(config=make_config(topic), auto=ClockNotes(5, 1, lambda: now)) as producer:
        with pytest.raises(Rejected, match="notes the clock"):
            producer.note_time(NOON)
        for part in range(1, 20):
            begun = now
            with suppress(ZeroDivisionError), producer.transaction():
                produce(producer, begun + 20)
                give_up()
            now = begun
            with producer.transaction():
                produce(producer, NOON + 100 * part)
        assert eventually(lambda: lower(served, topic), now - 5)

    assert check_marks(broker, served, topic).records > 1800


def test_rows_below_a_noted_time_are_late(served: Served, topic: str, start: Start) -> None:
    """An event makes an idle producer live again."""
    served.make(topic, domains=["default", "ordered"])
    with start(domain="ordered") as producer:
        producer.produce(value="a", event_time=NOON)
        producer.note_time(NOON + 10)
        for late in (NOON + 3, NOON + 9):
            producer.produce(value="a", event_time=late)
        producer.note_time(NOON + 20)
        assert producer.flush(60).late_rows == 2
        producer.idle()
        producer.flush(60)
        assert served.get(f"{topic}/writers/berlin")["state"] == "idle"
        producer.produce(value="a", event_time=NOON + 30)
        row = served.get(f"{topic}/writers/berlin")

    assert (row["state"], row["times"]) == ("live", {"ordered": NOON + 20})


def test_late_rows_after_a_clock_set_back_are_reported(
    broker: Broker, served: Served, topic: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Only events with the program's own stamps are late."""
    now, noted = NOON, f"{topic}/writers/berlin"
    with start(auto=ClockNotes(0, 5, lambda: now)) as producer:
        assert eventually(lambda: served.get(noted)["times"], {"default": NOON})
        now = NOON - 30_000
        for _ in range(500):
            producer.produce(value="a", event_time=now)
        assert producer.flush(60).late_rows == 500
        producer.produce(value="a", event_time=None)
        assert eventually(lambda: sum(served.get(noted)["position"].values()), 501)
        assert (producer.flush(60).late_rows, producer.time) == (500, NOON)
        now = NOON + 10
        producer.produce(value="a", event_time=None)
        assert eventually(lambda: served.get(noted)["times"], {"default": NOON + 10})

    stamps = sorted(record.time for record in broker.records(topic))
    assert stamps[-2:] == [NOON, NOON + 10]
    assert caplog.text.count("its clock is 30.0 s behind the last time that it noted") == 1


def test_clock_is_noted_again_once_it_is_corrected(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """The refused time does not count as noted."""
    now, noted = 100 * NOON, f"{topic}/writers/berlin"
    with start(auto=ClockNotes(0, 5, lambda: now)) as producer:
        wait_until(lambda: producer.client.pop_refused() is not None)
        now = NOON
        assert eventually(lambda: served.get(noted)["times"], {"default": NOON})
        producer.client.pop_refused()  # the clock may have been noted more than once before
        producer.produce(value="a", event_time=None)
        producer.flush(60)

    assert [record.time for record in broker.records(topic)] == [NOON]


def test_event_times_of_two_domains_are_noted_apart(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """The upper of a mark is a bound while all times are known."""
    served.make(topic, domains=["default", "sent", "paid"], mark_interval_ms=0)
    domains, chance = ["default", "sent"], random.Random(7)
    bounds = []
    for number in range(2):
        with start(domain=domains) as producer:
            for n in range(300 * number, 300 * number + 300):
                time, sent = NOON + n + chance.randrange(30), ELEVEN + 5 * n + chance.randrange(90)
                producer.produce(value=str(sent), event_time=time, event_times={"sent": sent})
                if n % 10 == 0:
                    producer.note_time(NOON + n)
                    producer.note_time(ELEVEN + 5 * n, domain="sent")
                if n % 25 == 0:
                    producer.flush(60)
            producer.produce(value=str(ELEVEN), event_time=NOON + n, event_times={"sent": ELEVEN})
            assert producer.flush(60).late_rows == 1
            assert producer.last_time() == producer.time == NOON + n - 9
            assert producer.last_time("sent") == ELEVEN + 5 * (n - 9)
        bounds.append([served.all_marks(topic, each)[-1]["upper_is_bound"] for each in domains])

    assert bounds == [[True, True], [True, False]]
    assert check_marks(broker, served, topic).records == 602
    verdict = judge_marks(broker, topic, controller=served, domain="sent", time_of=read_time)
    assert verdict.marks > 10
    assert [each.record.time for each in verdict.violations] == [ELEVEN] * 2


def test_event_time_of_an_undeclared_domain_is_refused(
    served: Served, topic: str, start: Start
) -> None:
    """The event is not sent."""
    served.make(topic, domains=["default", "sent", "paid"])
    with start(domain=["default", "sent"]) as producer:
        for times, said in (
            ({"paid": NOON}, "no domain 'paid': it is created for 'default', 'sent'"),
            ({"default": NOON, "sent": NOON}, "pass the time of 'default' as event_time"),
            ({"sent": 2**63}, "is not an int64"),
        ):
            with pytest.raises(Rejected, match=said):
                producer.produce(value="a", event_time=NOON, event_times=times)
        with pytest.raises(Rejected, match="no domain 'paid'"):
            producer.note_time(NOON, domain="paid")
        assert len(producer) == 0


def test_a_producer_goes_idle_by_itself(served: Served, topic: str, start: Start) -> None:
    """It goes idle after silence, but not in a transaction; an event makes it live again."""
    noted = f"{topic}/writers/berlin"

    def state() -> object:
        return served.get(noted)["state"]

    with start(config=make_config(topic), idle_after_ms=50) as producer:
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
    for wrong, said in (
        ({"idle_after_ms": 0}, "idle_after_ms"),
        ({"wait": True}, "wait is a number of seconds"),
        ({"idle_after_ms": 5, "auto": ClockNotes()}, "leave out auto or idle_after_ms"),
    ):
        with pytest.raises(Rejected, match=said):
            start(**wrong)
    with pytest.raises(TypeError, match="has no argument pace"):
        start(pace=None)


def test_event_of_another_thread_during_idle_is_waited_for(
    served: Served, topic: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event makes the writer live after it went idle."""
    producer = start()
    idle, produced = producer.client.idle, threading.Event()

    def produce() -> None:
        producer.produce(value="a", event_time=NOON)
        produced.set()

    other = threading.Thread(target=produce)

    def idle_beside(*ends: Mapping[int, int]) -> None:
        other.start()
        produced.wait(0.5)  # it cannot join between the last look and this call
        idle(*ends)

    monkeypatch.setattr(producer.client, "idle", idle_beside)
    producer.idle()
    other.join()
    producer.flush(60)

    assert served.get(f"{topic}/writers/berlin")["state"] == "live"


def test_an_event_after_idle_and_a_note_waits_for_the_controller(
    broker: Broker, served: Served, topic: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queued note does not make the writer live yet."""
    monkeypatch.setattr(channel, "BEGIN_S", 0.5)
    producer = start()
    producer.idle()
    producer.flush(60)
    served.stop()
    producer.note_time(NOON)
    with pytest.raises(Unreachable, match="not durable"):
        producer.produce(value="a", event_time=NOON)
    assert broker.records(topic) == []
    served.start()
    monkeypatch.undo()
    producer.produce(value="b", event_time=NOON)
    producer.flush(60)

    assert served.get(f"{topic}/writers/berlin")["state"] == "live"
    assert [each.value for each in broker.records(topic)] == [b"b"]


def test_recreated_topic_is_reported_to_writer_and_successor(
    broker: Broker, topic: str, start: Start
) -> None:
    """The stream still has the offsets of the former topic."""
    producer = start()
    for n in range(20):
        producer.produce(value="a", event_time=NOON + n, partition=0)
    producer.note_time(NOON + 20)
    producer.flush(60)
    broker.create(topic, 2)
    producer.produce(value="a", event_time=NOON + 20, partition=0)
    with pytest.raises(Rejected, match=r"was deleted and created again.*delete it or use"):
        producer.flush(60)
    with pytest.raises(Rejected, match="was deleted and created again"):
        producer.produce(value="a", event_time=NOON + 30)
    with pytest.raises(AnotherLog):
        start()


def test_a_stream_that_was_noted_for_files_is_refused(
    served: Served, topic: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers would wait for offsets of files; the producer does not join."""
    monkeypatch.setattr(ends, "PATIENCE_S", 0.1)
    served.note(topic, NOON, {"0": 90})
    writers = served.writers(topic).keys()
    with pytest.raises(
        Recreated, match=r"it ends at \{0: 0\}, and \{0: 90\} is the cut of"
    ) as found:
        start(wait=10)

    assert "perhaps of another log such as files" in str(found.value)
    assert "delete it or use another one" in str(found.value)
    assert served.writers(topic).keys() == writers


def test_longer_recreated_topic_is_reported_to_its_writer(
    broker: Broker, served: Served, topic: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets do not go back, but its id changes. Later events are not noted."""
    monkeypatch.setattr(channel, "CHECK_INTERVAL_S", 0.1)
    producer = start()
    producer.produce(value="a", event_time=NOON, partition=0)
    producer.note_time(NOON + 1)
    producer.flush(60)
    former = producer._channel._ends.topic.id
    broker.create(topic, 2)
    broker.send(topic, [(0, "b", NOON)] * 10)

    with pytest.raises(Recreated, match=f"created again.*its id is .*, not {former}"):
        wait_until(lambda: producer.poll(0.1) < 0)
    with pytest.raises(Recreated):
        producer.note_time(NOON + 2)
    assert served.get(f"{topic}/writers/berlin")["position"]["0"] == 1


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"acks": 0}, "acks=0 reports no offsets"),
        ({"enable.idempotence": "False"}, "enable.idempotence=False writes events twice"),
        ({"delivery.report.only.error": True}, "delivery.report.only.error=True reports no"),
        ({"bootstrap.server": "x"}, 'No such configuration property: "bootstrap.server"'),
    ],
)
def test_a_configuration_that_leaves_nothing_to_note_is_refused(
    broker: Broker, config: Mapping[str, Any], says: str
) -> None:
    with pytest.raises(Rejected, match=says):
        KafkaNotedProducer({**broker.config, **config}, "t", "http://127.0.0.1:9", "berlin")


def test_a_producer_that_was_created_is_a_member(
    broker: Broker, served: Served, topic: str
) -> None:
    """So of several in one ``with`` none is late."""
    with (
        KafkaNotedProducer(broker.config, topic, served.url, "berlin"),
        KafkaNotedProducer(broker.config, topic, served.url, "lima"),
    ):
        joined = served.get(f"{topic}/writers")["writers"]

    assert sorted(each["writer"] for each in joined) == ["berlin", "lima"]


def test_producer_retries_an_absent_controller_in_background(
    broker: Broker, served: Served, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning says so."""
    served.stop()
    with KafkaNotedProducer(broker.config, topic, served.url, "berlin", wait=0.001) as producer:
        served.start()
        producer.produce(value="a", event_time=NOON)
        producer.note_time(NOON + 1)
        assert producer.flush(60).lower == NOON + 1

    (said,) = [each.getMessage() for each in caplog.records if "; retrying" in each.getMessage()]
    assert "'berlin' has not begun after 0.001 s" in said


def test_event_beyond_the_topics_limits_is_refused(
    broker: Broker, topic: str, start: Start
) -> None:
    """Kafka would take 0 for the present, and fail the whole batch of others."""
    now = unix_ms()
    broker.create(topic, 1, {"message.timestamp.before.max.ms": 600_000})
    producer = start()
    for time in (0, -1, 2**63):
        with pytest.raises(Rejected, match=f"event_time must be positive .*got {time}"):
            producer.produce(value="a", event_time=time)
    refused = [
        (now + 7_200_000, r"ahead of this clock, .*message.timestamp.after.max.ms=3600000"),
        (now - 700_000, r"behind this clock, .*message.timestamp.before.max.ms=600000"),
    ]
    for time, says in refused:
        with pytest.raises(Rejected, match=f"the event was not sent: .*{says}"):
            producer.produce(value="a", event_time=time)
    broker.set(topic, "message.timestamp.after.max.ms", 9_000_000)
    assert eventually(lambda: is_accepted(producer, now + 7_200_000), expected=True)
    producer.note_time(now)

    assert producer.flush(60).lower == now


def is_accepted(producer: KafkaNotedProducer, time: int) -> bool:
    """Produce an event, and return whether it was accepted."""
    try:
        producer.produce(value="a", event_time=time)
    except Rejected:
        return False
    return True


def test_event_too_large_for_the_client_is_refused(start: Start) -> None:
    producer = start()
    with pytest.raises(Rejected, match="Message size too large"):
        producer.produce(value=b"x" * 2_000_000, event_time=NOON)
    producer.note_time(NOON)

    assert producer.flush(60).lower == NOON


def test_topic_with_broker_timestamps_is_logged(
    broker: Broker, topic: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Such timestamps are not event times; the program's own callbacks run, too."""
    broker.create(topic, 1, {"message.timestamp.type": "LogAppendTime"})
    reported: list[object] = []
    with start(config={"on_delivery": lambda error, _: reported.append(error)}) as producer:
        producer.produce(value="a", event_time=NOON)
        producer.produce(value="b", event_time=NOON, on_delivery=lambda *_: give_up())
        producer.flush(60)

    assert reported == [None]
    assert "LogAppendTime" in caplog.text
    assert "on_delivery failed" in caplog.text


def test_a_producer_warns_of_offsets_beyond_the_topic(
    served: Served,
    topic: str,
    start: Start,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The warning names the writer and the partition."""
    monkeypatch.setattr(ends, "PATIENCE_S", 0.1)
    with start("berlin") as berlin:
        berlin.finish(60)
    served.post(topic, {"writer": "rome", "time": NOON, "position": {"1": 5_000_000}})
    wait_until(lambda: lower(served, topic) == NOON)

    start("lima")

    warning = f"stream '{topic}' was noted beyond the ends of Kafka topic '{topic}': partition 1 to"
    wait_until(lambda: f"{warning} 5000000 by rome. Readers wait" in caplog.text)
