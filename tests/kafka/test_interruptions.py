"""The producer in delivery callbacks, under signals, and in a forked child, on a real broker."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message

from noted_time import Rejected
from tests.kafka.conftest import Flights
from tests.support.processes import environment
from tools.trials.waiting import wait_until

pytestmark = pytest.mark.acceptance

NOON = 1_357_041_600_000
PROGRAMS = Path(__file__).parent / "programs"
SERVICES = int(os.environ.get("NOTED_TIME_SERVICES", "4"))


def run(program: str, flights: Flights, last: str) -> "subprocess.Popen[str]":
    place = (flights.broker.address, flights.topic, flights.served.url)
    command = [sys.executable, str(PROGRAMS / program), *place, last]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment(), stdout=pipe, stderr=pipe, text=True)


def test_callbacks_produce_failed_events_again_in_an_outage(flights: Flights) -> None:
    """The outage is longer than the events' timeout; a callback cannot wait for a full queue."""
    count = 300
    refused_event = threading.Event()
    failed_events = deque[tuple[str, int]]()
    quick = {"message.timeout.ms": 1000, "queue.buffering.max.messages": 50}
    producer = flights.start(config=quick, on_failure="keep")

    def send(value: str, time: int) -> None:
        deliver = partial(send_failed_again, value, time)
        producer.produce(value=value, event_time=time, on_delivery=deliver)

    def send_failed_again(value: str, time: int, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            try:
                send(value, time)
            except BufferError:
                refused_event.set()
                failed_events.append((value, time))

    def produce() -> None:
        for n in range(count):
            send(str(n), NOON + n)
        producer.note_time(NOON + count)

    flights.broker.stop()
    producing = threading.Thread(target=produce)
    producing.start()
    assert refused_event.wait(60)
    flights.broker.start()
    while producing.is_alive() or len(producer) or failed_events:
        producer.poll(0.1)
        while failed_events:
            send(*failed_events.popleft())
    producer.forgive()

    assert producer.flush(60).lower == NOON + count
    assert {*flights.list_values()} == {b"%d" % n for n in range(count)}
    assert flights.check_marks()


def test_a_callback_cannot_wait_for_other_deliveries(flights: Flights) -> None:
    """A callback that waits would wait for itself."""
    producer = flights.start(config={"linger.ms": 50})
    answers = list[str]()

    def deliver(*_: object) -> None:
        answers.append(str(producer.poll()))
        try:
            producer.flush()
        except Rejected as error:
            answers.append(str(error))

    producer.produce(value="a", event_time=NOON, partition=0, on_delivery=deliver)
    producer.produce(value="b", event_time=NOON, partition=0)
    producer.flush(60)

    assert answers == ["0", "on_delivery runs inside a poll: it cannot wait for deliveries"]


def test_a_signal_handler_may_raise_inside_any_call(flights: Flights) -> None:
    """Events are counted correctly, and notes cover their events."""
    with run("interrupted.py", flights, "400") as program:
        outputs = program.communicate(timeout=120)

    assert (outputs, program.returncode) == (("0 True\n", ""), 0)
    assert flights.check_marks()


def test_signal_before_a_delivery_report_raises_in_program(flights: Flights) -> None:
    """The signal comes while librdkafka waits; its handler runs when a callback begins."""
    producer = flights.start(config={"linger.ms": 1000})
    main = threading.get_ident()
    raised_errors: list[BaseException] = []
    producer.produce(value="first", event_time=NOON, partition=0)
    producer.flush(60)
    for handler in (lambda *_: sys.exit(3), signal.default_int_handler):
        before = signal.signal(signal.SIGUSR1, handler)
        threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGUSR1)).start()
        producer.produce(value="a", event_time=NOON, partition=0)
        try:
            producer.poll(10)
        except (SystemExit, KeyboardInterrupt, SystemError) as error:
            raised_errors.append(error)
        finally:
            signal.signal(signal.SIGUSR1, before)

    assert [repr(error) for error in raised_errors] == ["SystemExit(3)", "KeyboardInterrupt()"]
    assert [error.__context__ for error in raised_errors] == [None, None]
    producer.note_time(NOON + 1)
    assert producer.finish(60).lower == NOON + 1


def test_a_service_that_is_terminated_finishes_its_writer(flights: Flights) -> None:
    """It ends soon, with its own status."""
    chance = random.Random()
    ends = []
    for number in range(SERVICES):
        with run("service.py", flights, str(number)) as service:
            assert service.stdout is not None
            assert service.stdout.readline() == "begun\n"
            time.sleep(0.1 * chance.random())
            service.send_signal(signal.SIGTERM)
            _, errors = service.communicate(timeout=60)
        state = flights.read_writer(str(number))["state"]
        ends.append((service.returncode, errors, state))

    assert ends == [(0, "", "finished")] * SERVICES


def test_a_forked_child_cannot_use_its_parents_producer(flights: Flights, tmp_path: Path) -> None:
    """Every call raises; librdkafka would accept events and never send them."""
    gc.collect()
    gc.freeze()  # a child that frees a client of librdkafka ends by a signal
    for number, wait in enumerate((10.0, 0)):
        producer = flights.start(f"berlin-{number}", wait=wait)
        report_file = tmp_path / f"said-{number}"
        calls: list[Callable[[], object]] = [
            partial(producer.produce, value="a", event_time=NOON),
            partial(producer.note_time, NOON),
            producer.flush,
            producer.poll,
        ]
        child = os.fork()
        if not child:
            try:
                report_file.write_text("".join(outcome(call) for call in calls))
            finally:
                os._exit(0)
        wait_until(lambda: os.waitpid(child, os.WNOHANG) != (0, 0))  # noqa: B023 - called at once
        expected = f"the producer of writer 'berlin-{number}' belongs to another process"
        assert report_file.read_text().count(expected) == len(calls)
        producer.produce(value="a", event_time=NOON)
        producer.flush(60)


def outcome(call: Callable[[], object]) -> str:
    """Return the result or the error of a call as a line."""
    try:
        return f"{call()}\n"
    except Rejected as error:
        return f"{error}\n"
