"""The interceptor in plain Java producers; every mark is compared with every record."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.conftest import Flights
from tests.support.gates import Guarded
from tests.support.hostile import STALLS, Answer, HostileServer, answer, drip
from tests.support.kafka_judge import count_covered
from tools.trials import java
from tools.trials.calls import HOUR_MS
from tools.trials.java import JavaProducer
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import wait_until

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(java.compiler() is None, reason=java.MISSING),
]

NOON = 1_357_041_600_000
NOWHERE = "127.0.0.1:9"
STREAM = {"max_time_ahead_ms": None}
SALES = [(None, "sold")] * 50
CLOSE_S = 10
"""How long a producer tries to send its last note."""


class JavaFlights(Flights):
    """Flights, and programs in Java that produce them with the interceptor."""

    def __init__(self, broker: Broker, served: Served, topic: str, directory: Path) -> None:
        super().__init__(broker, served, topic)
        self.stream = topic
        self._directory = directory
        self._running: list[JavaProducer] = []

    def start_java(
        self,
        writer: str = "berlin",
        version: str = "4.3",
        *,
        kafka: Mapping[str, object] | None = None,
        **settings_given: object,
    ) -> JavaProducer:
        """Start a producer, which is killed after the test."""
        settings = {**self.broker.config, **java.interceptor(self.served.url, writer)}
        settings |= {f"noted.time.{name}": value for name, value in settings_given.items()}
        directory = self._directory / str(len(self._running))
        producer = JavaProducer(directory, self.topic, {**settings, **(kafka or {})}, version)
        self._running.append(producer)
        return producer

    def close(self) -> None:
        for producer in self._running:
            producer.kill()

    def find_next_lower(self) -> int:
        """Return the lower of the next mark, or of the last one if none follows soon."""
        last = self.served.get(self.stream)["marks"]["default"]
        seq = last["seq"] if last else 0
        marks = self.served.get(f"{self.stream}/marks", after=seq, wait_ms=200)["marks"]
        return int(max((mark["lower"] for mark in (last, *marks) if mark), default=0))

    def send_until_noted(self, *producers: JavaProducer, beyond: float | None = None) -> None:
        """Let all producers send until a mark passes `beyond`, by default the present."""
        min_time = time.time() * 1000 if beyond is None else beyond

        def is_noted() -> bool:
            for producer in producers:
                producer.send(*SALES)
            return self.find_next_lower() > min_time

        wait_until(is_noted)

    def recreate_stream(self) -> None:
        self.served.call("DELETE", f"/{self.topic}")
        self.served.make(self.topic, **STREAM)

    def list_times(self) -> set[int]:
        return {row["times"].get("default", 0) for row in self.read_writers().values()}

    def has_reported_all_late_rows(self) -> bool:
        """Whether the writer counts at least the records below a mark before them as late."""
        late = self.read_writer()["late_rows"].get("default", {"rows": 0})
        return len(self.judge().violations) <= int(late["rows"])


def wait_for_next_lower(flights: JavaFlights, lower: int) -> None:
    wait_until(lambda: flights.find_next_lower() == lower)


def wait_for_log(producer: JavaProducer, text: str) -> None:
    wait_until(lambda: text in producer.log())


@pytest.fixture
def flights(broker: Broker, served: Served, topic: str, tmp_path: Path) -> Iterator[JavaFlights]:
    """Return the topic with its stream and its producers in Java."""
    with closing(JavaFlights(broker, served, topic, tmp_path)) as flights:
        yield flights


def test_killed_producers_notes_cover_their_records(flights: JavaFlights) -> None:
    """There is one of each version; partitions are added while the controller is away."""
    writers = ("berlin", "lima", "tokyo")
    flights.served.make(flights.topic, expected_writers=writers)

    def begin() -> list[JavaProducer]:
        return [
            flights.start_java(*arguments) for arguments in zip(writers, java.VERSIONS, strict=True)
        ]

    running = begin()
    flights.send_until_noted(*running)
    flights.broker.grow(flights.topic, 3)
    flights.served.stop()
    for producer in running:
        producer.send(*SALES)
        producer.kill()
    running = begin()
    flights.served.start()
    flights.send_until_noted(*running)
    for producer in running:
        producer.close()

    assert flights.check_marks() > 400
    assert {row["state"] for row in flights.read_writers().values()} == {"idle"}
    assert max(record.partition for record in flights.list_records()) > 1


def test_historic_producer_ignores_other_writers_times(flights: JavaFlights) -> None:
    """After a restart it finds newer records in the topic than it will send."""
    behind = flights.start_java("behind", order="stamps")
    ahead = flights.start_java("ahead", order="stamps")
    for producer, stamp in (behind, NOON), (ahead, NOON + HOUR_MS):
        producer.send((stamp, "sold"))
        producer.flush()
        wait_until(lambda stamp=stamp: stamp in flights.list_times())  # type: ignore[misc]
    behind.kill()
    behind = flights.start_java("behind", order="stamps")
    behind.send((NOON + 1, "sold"))
    behind.flush()
    wait_until(lambda: NOON not in flights.list_times())

    assert flights.list_times() == {NOON + 1, NOON + HOUR_MS}
    assert flights.check_marks()


REFUSED = {
    "transactional.id=t": "transactional.id is set, .* have `noted-time observe kafka` note",
    "acks=0": "acks=0 reports no offsets",
    "noted.time.wirter=lima": r"noted.time.wirter is unknown: the settings are \[.* writer\]",
    "noted.time.delay.ms=5s": "noted.time.delay.ms=5s is not a number of ms",
    "noted.time.url=127.0.0.1:7464": "noted.time.url=127.0.0.1:7464 is not the URL of a controller",
    "noted.time.writer=a b": "noted.time.writer=a b is not a name",
    "noted.time.stream=a/{topic}": r"noted.time.stream=a/\{topic\} is not a name .* \{topic\}",
    "noted.time.topics=[a": r"noted.time.topics=\[a is not a regular expression: Unclosed",
    "noted.time.on.failure=wait": "noted.time.on.failure=wait is not continue or stop",
}


def test_invalid_setting_is_logged_and_producing_continues(tmp_path: Path) -> None:
    """One sentence names the setting and the remedy."""
    settings = {"bootstrap.servers": NOWHERE, **java.interceptor("http://127.0.0.1:9", "w")}
    refused_settings = [dict([setting.split("=")]) for setting in REFUSED]
    producers = [
        JavaProducer(tmp_path / str(n), "t", settings | x) for n, x in enumerate(refused_settings)
    ]

    for producer, reason in zip(producers, REFUSED.values(), strict=True):
        assert producer.close() == 0
        assert re.search(f"nothing is noted by producer producer-.*: {reason}", producer.log())


def test_historic_timestamps_are_noted_in_their_order(flights: JavaFlights) -> None:
    """The note is the largest time minus the delay; records below it are late."""
    with_delay: dict[str, Any] = {"order": "stamps", "delay.ms": 1000}
    producer = flights.start_java(**with_delay)
    producer.send(*((NOON + n, "sold") for n in range(0, 5000, 7)))
    wait_for_next_lower(flights, NOON + 4998 - 1000)
    producer.send((NOON + 500, "late"), (NOON + 9000, "sold"))
    wait_for_next_lower(flights, NOON + 8000)
    mark = flights.list_marks()[-1]
    producer.close()
    second_producer = flights.start_java(**with_delay)
    second_producer.send((NOON + 8500, "sold"))
    second_producer.flush()
    second_producer.close()

    (late,) = flights.judge().violations
    assert late.record.time == NOON + 500
    assert (mark["upper"], mark["upper_is_bound"]) == (NOON + 9000, True)
    row = flights.read_writer()
    assert row["late_rows"] == {
        "default": {"rows": 1, "min_time": NOON + 500, "max_time": NOON + 500}
    }
    assert (row["state"], row["times"]) == ("idle", {"default": NOON + 8000})
    assert "1 records have timestamps below the noted time" in producer.log()
    assert "late" not in second_producer.log()


@pytest.mark.parametrize("version", java.VERSIONS)
def test_record_refused_by_the_producer_does_not_hold_time(
    flights: JavaFlights, version: str
) -> None:
    """Its serializer fails, or its size is too large; each error is logged once."""
    producer = flights.start_java(version=version)
    flights.send_until_noted(producer)
    for _ in range(20):
        producer.send(*SALES, (None, "refused"), *SALES, (None, "x" * 2_000_000))
    producer.flush(10_000)
    flights.send_until_noted(producer)
    producer.close()

    row = flights.read_writer()
    records = flights.check_marks()
    assert records > 12_000
    assert count_covered(flights.served, flights.topic) == records
    assert (row["state"], row["late_rows"]) == ("idle", {})
    assert producer.log().count("was not delivered") == 1
    assert re.search(r"not delivered \(\S+SerializationException: .* without it\.", producer.log())


SMALL = {"batch.size": 1000}
"""Below the topic's limit, because splitting a batch hangs 4 of 100 producers of Kafka 4.3."""

QUICK = {"request.timeout.ms": 4000, "delivery.timeout.ms": 5000, "max.block.ms": 4000}


def test_record_refused_by_the_broker_holds_time_for_a_while(flights: JavaFlights) -> None:
    """Then time advances; a record sent again with the same timestamp is late."""
    flights.broker.create(flights.topic, 1, {"max.message.bytes": 2000})
    producer = flights.start_java(kafka={**QUICK, **SMALL})
    flights.send_until_noted(producer)
    sent_at = int(time.time() * 1000)
    refused_time = (
        sent_at + 5000
    )  # ahead: no note may pass it before the producer has read the line
    producer.send((refused_time, "x" * 5000))
    flights.send_until_noted(producer, beyond=refused_time)
    advanced_at = time.time() * 1000

    def is_delivered() -> bool:
        producer.send((refused_time, "again"))
        producer.flush()
        return b"again" in flights.list_values()

    wait_until(is_delivered)
    producer.close()

    late = flights.judge().violations
    assert {violation.record.value for violation in late} == {b"again"}
    row = flights.read_writer()
    assert (row["late_rows"]["default"]["min_time"], row["late_rows"]["default"]["max_time"]) == (
        refused_time,
        refused_time,
    )
    assert advanced_at - sent_at > 5000 + 4000
    assert "without it, but only after 14000 ms, as Kafka does not say which" in producer.log()
    assert "no more is noted" not in producer.log()


def test_record_sent_in_place_of_a_refused_one_is_noted(flights: JavaFlights) -> None:
    """The callback sends it within `send`; at worst a record counts as late."""
    producer = flights.start_java(kafka=QUICK)
    flights.send_until_noted(producer)
    ahead = int(time.time() * 1000) + 5000
    producer.send((ahead, "?" + "x" * 2_000_000))
    flights.send_until_noted(producer, beyond=ahead)
    producer.close()

    assert flights.has_reported_all_late_rows()
    assert b"instead" in flights.list_values()
    assert "no more is noted" not in producer.log()


UNENDING = {"delivery.timeout.ms": 2**31 - 1, "max.block.ms": 2**63 - 1}
"""The settings of Kafka Connect."""


@pytest.mark.parametrize(
    "stopping", [{"on.failure": "stop", "kafka": SMALL}, {"kafka": {**UNENDING, **SMALL}}]
)
def test_undelivered_record_ends_the_notes(
    flights: JavaFlights, stopping: Mapping[str, Any]
) -> None:
    """This is a setting, and the rule if deliveries have no timeout; producing continues."""
    flights.broker.create(flights.topic, 1, {"max.message.bytes": 2000})
    producer = flights.start_java(**stopping)
    flights.send_until_noted(producer)
    producer.flush()
    producer.send((None, "x" * 5000))
    producer.flush()
    held_times = flights.read_writers()["berlin"]["times"]
    producer.send(*SALES)
    producer.close()

    assert producer.log().count("no more is noted: a record was not delivered") == 1
    assert flights.read_writers()["berlin"]["times"] == held_times
    assert flights.read_writers()["berlin"]["state"] == "live"
    assert flights.check_marks()


def test_notes_go_to_the_configured_stream_and_topics(flights: JavaFlights) -> None:
    """The producer of another topic does not note even when it closes."""
    stream = flights.stream = f"plane.{flights.topic}.v1"
    flights.served.make(stream, **STREAM)
    unnamed_producer = flights.start_java(stream="plane.{topic}.v1", topics="test_|.*_topic")
    unnamed_producer.send(*SALES)
    unnamed_producer.close()
    assert flights.served.writers(stream) == {}
    producer = flights.start_java(stream="plane.{topic}.v1", topics="test_.*_topics")
    flights.send_until_noted(producer)
    producer.close()

    assert flights.check_marks(stream=stream)
    assert flights.read_writers() == {}
    assert "noted time" not in unnamed_producer.log()


def test_outdated_kafka_client_is_named(flights: JavaFlights) -> None:
    """The log names it once; the producer delivers."""
    producer = flights.start_java(version="2.8")
    producer.send(*SALES)
    wait_for_log(producer, "Kafka's client has to be 3.1 or newer")
    producer.send(*SALES)
    assert producer.close() == 0

    assert producer.log().count("noted time") == 1
    assert len(flights.list_records()) == 2 * len(SALES)


def test_a_topic_with_the_brokers_timestamps_is_refused(flights: JavaFlights) -> None:
    """The first acknowledgement shows the setting."""
    flights.broker.create(flights.topic, 1, {"message.timestamp.type": "LogAppendTime"})
    producer = flights.start_java()
    producer.send((NOON, "sold"))
    producer.flush()
    producer.close()

    assert "message.timestamp.type=LogAppendTime, have `noted-time observe" in producer.log()


def test_younger_java_producer_of_a_name_takes_over(flights: JavaFlights) -> None:
    """The older logs that its notes end; records of the younger are late at worst."""
    older = flights.start_java()
    flights.send_until_noted(older)
    older.flush()
    younger = flights.start_java()
    younger.send(*SALES)
    wait_for_log(older, "took the name over at")
    flights.send_until_noted(younger)

    assert flights.has_reported_all_late_rows()
    assert re.search(r"no more is noted: another process, \S+:\d+, took the name", older.log())


def test_two_producers_of_one_name_in_a_process_are_logged(flights: JavaFlights) -> None:
    def fence() -> Answer:
        label = re.search(rb'"label":"([^"]+)"', server.requests[-1])
        assert label
        return iter([answer(b'{"status": "fenced", "label": "%b"}' % label[1], 422)])

    with HostileServer(flights.served.url, fence) as server:
        producer = flights.start_java(url=server.url)
        producer.send(*SALES)
        wait_for_log(producer, "no more is noted: another producer of this process")

    assert "give each producer a noted.time.writer of its own" in producer.log()


def test_a_producer_whose_stream_is_missing_closes_at_once(flights: JavaFlights) -> None:
    """Only an operator can create the stream; a silent controller is waited for."""
    flights.served.call("DELETE", f"/{flights.topic}")
    producer = flights.start_java()
    producer.send(*SALES)
    wait_for_log(producer, f"noted-time stream create {flights.topic}")
    began_at = time.monotonic()
    producer.close()

    assert time.monotonic() - began_at < CLOSE_S


def test_living_producer_retakes_its_name_after_a_restore(flights: JavaFlights) -> None:
    """The backup names the process before it; records sent meanwhile are covered."""
    former = {"writer": "berlin", "session": "former", "takes_over": True, "state": "live"}
    flights.served.post(flights.topic, former)
    restored_event = threading.Event()

    def away() -> Answer:
        if not restored_event.is_set():
            server.planned.append(away)
        return iter([answer(b"", 503)])

    with HostileServer(flights.served.url) as server:
        producer = flights.start_java(url=server.url)
        flights.send_until_noted(producer)
        server.planned.append(away)
        wait_until(lambda: server.sent)
        flights.recreate_stream()
        flights.served.post(flights.topic, former)
        restored_event.set()
        flights.send_until_noted(producer)
        producer.close()

    (second_request,) = (
        request for request in server.requests if b'"took_over":["former"]' in request
    )
    assert f'"log":"{flights.look().id}"'.encode() in second_request
    assert "it takes the name over again" in producer.log()
    assert flights.check_marks()


def test_recreated_topic_ends_the_interceptors_notes(flights: JavaFlights) -> None:
    """A running producer logs it, and so does one started before the stream is recreated."""
    producer = flights.start_java()
    flights.send_until_noted(producer)
    producer.flush()
    flights.broker.create(flights.topic, 2)
    wait_for_log(producer, "the topic was deleted and created again")
    second_producer = flights.start_java()
    second_producer.send(*SALES)
    wait_for_log(second_producer, "delete and create its stream, too")
    flights.recreate_stream()
    once_more = flights.start_java()
    flights.send_until_noted(once_more)

    assert flights.check_marks()


def test_producer_joins_only_the_stream_of_its_topic_id(flights: JavaFlights) -> None:
    """The id has a character that Kafka's clients in C spell differently."""
    known_id = ""
    while {"-", "_"}.isdisjoint(known_id):
        flights.broker.create(flights.topic, 1)
        known_id = str(flights.look().id)
    foreign = "l-Nn1Hl_QmqdyIVaRTaVpA"
    stream = f"{flights.topic}.other"
    first = flights.start_java(stream="{topic}")
    other = flights.start_java(stream=stream)
    flights.served.make(stream)
    flights.served.post(stream, {"writer": "w", "log": foreign})
    other.send(*SALES)
    flights.send_until_noted(first)
    both = f"positions are of log {foreign}, and this topic is log {known_id}: if the topic was"
    wait_for_log(other, both)

    assert flights.served.get(flights.topic)["logs"] == [known_id]
    assert list(flights.served.writers(stream)) == ["w"]
    assert other.log().count("no more is noted: ") == 1


def test_first_note_covers_records_sent_before_the_stream(flights: JavaFlights) -> None:
    """The silent controller and the missing stream are each logged once."""
    flights.served.call("DELETE", f"/{flights.topic}")
    urls = f"http://{NOWHERE}, {flights.served.url}/"
    settings: dict[str, Any] = {"url": urls, "timeout.ms": 90_000}
    producer = flights.start_java(**settings)
    producer.send(*SALES)
    wait_for_log(producer, f"noted-time stream create {flights.topic}")
    flights.served.make(flights.topic)
    flights.send_until_noted(producer)
    producer.close()

    assert flights.check_marks()
    assert producer.log().count("retrying") == 1
    assert producer.log().count("notes are accepted again") == 1
    row = flights.read_writer()
    assert (row["state"], row["timeout_ms"]) == ("idle", 90_000)


OF_JSON = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999999999999\r\n\r\n"
)
ACCEPTED = b'{"refused": 0, "results": [{"status": "accepted", "lower": null}]}'
MIB = 2**20


def refusal(code: str, detail: str) -> bytes:
    return answer(b'{"code": "%b", "detail": "%b"}' % (code.encode(), detail.encode()), 422)


def send(*parts: bytes) -> Callable[[], Answer]:
    """Return a plan to send these parts of an answer."""
    return lambda: iter(parts)


HOSTILE: dict[str, Callable[[], Answer]] = {
    "refuses in 60 kB": send(refusal("lengthy", "x" * 60_000)),
    "accepts in a 500": send(answer(ACCEPTED, 500)),
    "accepts in a page": send(answer(ACCEPTED, kind="text/html")),
    "accepts below a number of 30 digits": send(answer(ACCEPTED.replace(b"null", b"9" * 30))),
    "sends for ever": send(OF_JSON, *[b" " * MIB] * 1000, STALLS),
    "stalls in its head": send(OF_JSON[:-2], STALLS),
    "drips its body": partial(drip, OF_JSON),
}


def test_notes_continue_after_a_hostile_answer(flights: JavaFlights) -> None:
    """Each answer is given up in time, takes little memory, and counts as a failure."""
    with HostileServer(flights.served.url, *HOSTILE.values()) as server:
        producer = flights.start_java(url=server.url)
        flights.send_until_noted(producer)
        producer.close()

    *failed_requests, accepted_request = server.requests[: len(HOSTILE) + 1]
    assert len(server.sent) == len(HOSTILE)
    assert max(server.sent) < 100 * MIB
    assert all(b'"takes_over":true' in request for request in (*failed_requests, accepted_request))
    assert flights.check_marks()
    log = producer.log()
    kinds = ["lengthy: xxx", "no controller answers", "java.lang.NumberFormatException"]
    assert [log.count(f"retrying: {kind}") for kind in kinds] == [1, 1, 1]
    assert log.count("notes are accepted again") == 1
    assert len(max(log.splitlines(), key=len)) < 1200


def test_contact_that_an_older_controller_refuses_is_left_out(flights: JavaFlights) -> None:
    """It is logged once."""
    contact = """shop's "team", #till, ü"""
    unknown = refusal("invalid_request", "body.notes.0.contact: unknown field; known: writer")
    with HostileServer(flights.served.url, send(unknown)) as server:
        producer = flights.start_java(url=server.url, contact=contact)
        flights.send_until_noted(producer)
        without = flights.read_writer()["contact"]
        producer.close()
    newer = flights.start_java(contact=contact)
    flights.send_until_noted(newer)

    assert (without, flights.read_writer()["contact"]) == (None, contact)
    assert producer.log().count("upgrade the controller") == 1
    assert "retrying" not in producer.log()


def test_repeated_failures_are_logged_within_a_limit(flights: JavaFlights) -> None:
    """Of fifty different failures some are logged; the last line says that more follow."""
    planned_answers = []
    for number in range(25):
        planned_answers.append(send(refusal(f"trouble_{number}", "as planned")))
        planned_answers.append(send(answer(ACCEPTED)))
    with HostileServer(flights.served.url, *planned_answers) as server:
        producer = flights.start_java(url=server.url)
        flights.send_until_noted(producer)
        producer.close()

    message_count = producer.log().count("noted time: writer berlin")
    assert 0 < message_count < 2 * 20 + 1
    assert "no more warnings are logged in this minute" in producer.log()


def test_a_token_is_sent_and_never_logged(broker: Broker, tmp_path: Path) -> None:
    """The log says that the token was revoked."""
    guarded = Guarded()
    token = guarded.token("write")
    with (
        Served(gate=guarded.gate) as server,
        closing(JavaFlights(broker, server, "guarded", tmp_path)) as flights,
    ):
        server.token = guarded.token("admin")
        broker.create("guarded", 1)
        server.make("guarded")
        producer = flights.start_java(token=token)
        flights.send_until_noted(producer)
        guarded.revoke(token)
        wait_for_log(producer, "retrying: unauthenticated")

    assert token.removeprefix("nt_")[12:] not in producer.log()
