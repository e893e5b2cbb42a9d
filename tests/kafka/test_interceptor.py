"""The interceptor in plain Java producers; every mark is compared with every record."""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from demo.trials import java
from demo.trials.calls import HOUR_MS
from demo.trials.java import JavaProducer
from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import wait_until
from noted_time.kafka import Topic
from tests.support.gates import Guarded
from tests.support.hostile import STALLS, Answer, HostileServer, answer, drip
from tests.support.kafka_judge import count_covered, judge_marks

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(java.compiler() is None, reason=java.MISSING),
]

NOON = 1_357_041_600_000
NOWHERE = "127.0.0.1:9"
STREAM = {"max_time_ahead_ms": None}
CLOSE_S = 10
"""How long a producer tries to send its last note."""

Start = Callable[..., JavaProducer]


@pytest.fixture
def start(broker: Broker, served: Served, topic: str, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a producer; running producers are killed at the end."""
    started: list[JavaProducer] = []

    def start(
        writer: str = "berlin",
        version: str = "4.3",
        *,
        kafka: Mapping[str, object] | None = None,
        **given: object,
    ) -> JavaProducer:
        own = {f"noted.time.{name}": value for name, value in given.items()}
        settings = {**broker.config, **java.interceptor(served.url, writer), **own, **(kafka or {})}
        started.append(JavaProducer(tmp_path / str(len(started)), topic, settings, version))
        return started[-1]

    yield start
    for producer in started:
        producer.kill()


def now() -> list[tuple[None, str]]:
    """Return some records without a timestamp."""
    return [(None, "sold")] * 50


def next_lower(served: Served, topic: str) -> int:
    """Return the lower of the next mark, or of the last one if none follows soon."""
    last = served.get(topic)["marks"]["default"]
    seq = last["seq"] if last else 0
    marks = served.get(f"{topic}/marks", after=seq, wait_ms=200)["marks"]
    return int(max((each["lower"] for each in (last, *marks) if each), default=0))


def send_until_noted(
    producers: Iterable[JavaProducer], served: Served, topic: str, beyond: float | None = None
) -> None:
    """Let all producers send until a mark passes `beyond`, by default the present."""
    least = time.time() * 1000 if beyond is None else beyond

    def is_noted() -> bool:
        for producer in producers:
            producer.send(*now())
        return next_lower(served, topic) > least

    wait_until(is_noted)


def test_killed_producers_notes_cover_their_records(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """There is one of each version; partitions are added while the controller is away."""
    writers = ("berlin", "lima", "tokyo")
    served.make(topic, expected_writers=writers)

    def begin() -> list[JavaProducer]:
        return [start(*each) for each in zip(writers, java.VERSIONS, strict=True)]

    running = begin()
    send_until_noted(running, served, topic)
    broker.grow(topic, 3)
    served.stop()
    for producer in running:
        producer.send(*now())
        producer.kill()
    running = begin()
    served.start()
    send_until_noted(running, served, topic)
    for producer in running:
        producer.close()

    verdict = judge_marks(broker, topic, controller=served)
    assert (verdict.violations, verdict.records > 400) == ((), True)
    assert {row["state"] for row in served.writers(topic).values()} == {"idle"}
    assert max(each.partition for each in broker.records(topic)) > 1


def test_historic_producer_ignores_other_writers_times(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """After a restart it finds newer records in the topic than it will send."""
    behind, ahead = (start(writer, order="stamps") for writer in ("behind", "ahead"))
    for producer, stamp in (behind, NOON), (ahead, NOON + HOUR_MS):
        producer.send((stamp, "sold"))
        producer.flush()
        wait_until(lambda stamp=stamp: stamp in times(served, topic))  # type: ignore[misc]
    behind.kill()
    behind = start("behind", order="stamps")
    behind.send((NOON + 1, "sold"))
    behind.flush()
    wait_until(lambda: NOON not in times(served, topic))

    assert times(served, topic) == {NOON + 1, NOON + HOUR_MS}
    assert judge_marks(broker, topic, controller=served).violations == ()


def times(served: Served, topic: str) -> set[int]:
    return {row["times"].get("default", 0) for row in served.writers(topic).values()}


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
    given = [dict([each.split("=")]) for each in REFUSED]
    producers = [JavaProducer(tmp_path / str(n), "t", settings | x) for n, x in enumerate(given)]

    for producer, reason in zip(producers, REFUSED.values(), strict=True):
        assert producer.close() == 0
        assert re.search(f"nothing is noted by producer producer-.*: {reason}", producer.log())


def test_historic_timestamps_are_noted_in_their_order(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """The note is the largest time minus the delay; records below it are late."""
    with_delay = {"order": "stamps", "delay.ms": 1000}
    producer = start(**with_delay)
    producer.send(*((NOON + n, "sold") for n in range(0, 5000, 7)))
    wait_until(lambda: next_lower(served, topic) == NOON + 4998 - 1000)
    producer.send((NOON + 500, "late"), (NOON + 9000, "sold"))
    wait_until(lambda: next_lower(served, topic) == NOON + 8000)
    (mark, *_) = reversed(served.all_marks(topic))
    producer.close()
    again = start(**with_delay)
    again.send((NOON + 8500, "sold"))
    again.flush()
    again.close()

    (late,) = judge_marks(broker, topic, controller=served).violations
    assert late.record.time == NOON + 500
    assert (mark["upper"], mark["upper_is_bound"]) == (NOON + 9000, True)
    (row,) = served.get(f"{topic}/writers")["writers"]
    assert row["late"] == {"default": {"rows": 1, "least": NOON + 500, "most": NOON + 500}}
    assert (row["state"], row["times"]) == ("idle", {"default": NOON + 8000})
    assert "1 records have timestamps below the noted time" in producer.log()
    assert "late" not in again.log()


@pytest.mark.parametrize("version", java.VERSIONS)
def test_record_refused_by_the_producer_does_not_hold_time(
    broker: Broker, served: Served, topic: str, start: Start, version: str
) -> None:
    """Its serializer fails, or its size is too large; each error is logged once."""
    producer = start(version=version)
    send_until_noted([producer], served, topic)
    for _ in range(20):
        producer.send(*now(), (None, "refused"), *now(), (None, "x" * 2_000_000))
    producer.flush(10_000)
    send_until_noted([producer], served, topic)
    producer.close()

    verdict = judge_marks(broker, topic, controller=served)
    assert (verdict.violations, verdict.records > 12_000) == ((), True)
    (row,) = served.get(f"{topic}/writers")["writers"]
    assert (row["state"], row["late"], count_covered(served, topic)) == (
        "idle",
        {},
        verdict.records,
    )
    assert producer.log().count("was not delivered") == 1
    assert re.search(r"not delivered \(\S+SerializationException: .* without it\.", producer.log())


SMALL = {"batch.size": 1000}
"""Below the topic's limit, because splitting a batch hangs 4 of 100 producers of Kafka 4.3."""

QUICK = {"request.timeout.ms": 4000, "delivery.timeout.ms": 5000, "max.block.ms": 4000}


def test_record_refused_by_the_broker_holds_time_for_a_while(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """Then time advances; a record sent again with the same timestamp is late."""
    broker.create(topic, 1, {"max.message.bytes": 2000})
    producer = start(kafka={**QUICK, **SMALL})
    send_until_noted([producer], served, topic)
    sent = int(time.time() * 1000)
    refused = sent + 5000  # ahead: no note may pass it before the producer has read the line
    producer.send((refused, "x" * 5000))
    send_until_noted([producer], served, topic, beyond=refused)
    advanced = time.time() * 1000

    def is_delivered() -> bool:
        producer.send((refused, "again"))
        producer.flush()
        return any(each.value == b"again" for each in broker.records(topic))

    wait_until(is_delivered)
    producer.close()

    late = judge_marks(broker, topic, controller=served).violations
    assert {each.record.value for each in late} == {b"again"}
    (row,) = served.get(f"{topic}/writers")["writers"]
    assert (row["late"]["default"]["least"], row["late"]["default"]["most"]) == (refused, refused)
    assert advanced - sent > 5000 + 4000
    assert "without it, but only after 14000 ms, as Kafka does not say which" in producer.log()
    assert "no more is noted" not in producer.log()


def test_record_sent_in_place_of_a_refused_one_is_noted(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """The callback sends it within `send`; at worst a record counts as late."""
    producer = start(kafka=QUICK)
    send_until_noted([producer], served, topic)
    ahead = int(time.time() * 1000) + 5000
    producer.send((ahead, "?" + "x" * 2_000_000))
    send_until_noted([producer], served, topic, beyond=ahead)
    producer.close()

    (row,) = served.get(f"{topic}/writers")["writers"]
    late = row["late"].get("default", {"rows": 0})["rows"]
    assert len(judge_marks(broker, topic, controller=served).violations) <= late
    assert b"instead" in {each.value for each in broker.records(topic)}
    assert "no more is noted" not in producer.log()


UNENDING = {"delivery.timeout.ms": 2**31 - 1, "max.block.ms": 2**63 - 1}
"""The settings of Kafka Connect."""


@pytest.mark.parametrize(
    "stopping", [{"on.failure": "stop", "kafka": SMALL}, {"kafka": {**UNENDING, **SMALL}}]
)
def test_undelivered_record_ends_the_notes(
    broker: Broker, served: Served, topic: str, start: Start, stopping: Mapping[str, Any]
) -> None:
    """This is a setting, and the rule if deliveries have no timeout; producing continues."""
    broker.create(topic, 1, {"max.message.bytes": 2000})
    producer = start(**stopping)
    send_until_noted([producer], served, topic)
    producer.flush()
    producer.send((None, "x" * 5000))
    producer.flush()
    held = served.writers(topic)["berlin"]["times"]
    producer.send(*now())
    producer.close()

    assert producer.log().count("no more is noted: a record was not delivered") == 1
    assert served.writers(topic)["berlin"]["times"] == held
    assert served.writers(topic)["berlin"]["state"] == "live"
    assert judge_marks(broker, topic, controller=served).violations == ()


def test_notes_go_to_the_configured_stream_and_topics(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """The producer of another topic does not note even when it closes."""
    stream = f"plane.{topic}.v1"
    served.make(stream, max_time_ahead_ms=None)
    unnamed = start(stream="plane.{topic}.v1", topics="test_|.*_topic")
    unnamed.send(*now())
    unnamed.close()
    assert served.writers(stream) == {}
    producer = start(stream="plane.{topic}.v1", topics="test_.*_topics")
    send_until_noted([producer], served, stream)
    producer.close()

    assert judge_marks(broker, topic, controller=served, stream=stream).violations == ()
    assert served.writers(topic) == {}
    assert "noted time" not in unnamed.log()


def test_outdated_kafka_client_is_named(broker: Broker, topic: str, start: Start) -> None:
    """The log names it once; the producer delivers."""
    producer = start(version="2.8")
    producer.send(*now())
    wait_until(lambda: "Kafka's client has to be 3.1 or newer" in producer.log())
    producer.send(*now())
    assert producer.close() == 0

    assert producer.log().count("noted time") == 1
    assert len(broker.records(topic)) == 2 * len(now())


def test_a_topic_with_the_brokers_timestamps_is_refused(
    broker: Broker, topic: str, start: Start
) -> None:
    """The first acknowledgement shows the setting."""
    broker.create(topic, 1, {"message.timestamp.type": "LogAppendTime"})
    producer = start()
    producer.send((NOON, "sold"))
    producer.flush()
    producer.close()

    assert "message.timestamp.type=LogAppendTime, have `noted-time observe" in producer.log()


def test_younger_java_producer_of_a_name_takes_over(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """The older logs that its notes end; records of the younger are late at worst."""
    older = start()
    send_until_noted([older], served, topic)
    older.flush()
    younger = start()
    younger.send(*now())
    wait_until(lambda: "took the name over at" in older.log())
    send_until_noted([younger], served, topic)

    (row,) = served.get(f"{topic}/writers")["writers"]
    late = row["late"].get("default", {"rows": 0})["rows"]
    assert len(judge_marks(broker, topic, controller=served).violations) <= late
    assert re.search(r"no more is noted: another process, \S+:\d+, took the name", older.log())


def test_two_producers_of_one_name_in_a_process_are_logged(served: Served, start: Start) -> None:
    def fence() -> Answer:
        label = re.search(rb'"label":"([^"]+)"', server.requests[-1])
        assert label
        return iter([answer(b'{"status": "fenced", "label": "%b"}' % label[1], 422)])

    with HostileServer(served.url, fence) as server:
        producer = start(url=server.url)
        producer.send(*now())
        wait_until(lambda: "no more is noted: another producer of this process" in producer.log())

    assert "give each producer a noted.time.writer of its own" in producer.log()


def test_a_producer_whose_stream_is_missing_closes_at_once(
    served: Served, topic: str, start: Start
) -> None:
    """Only an operator can create the stream; a silent controller is waited for."""
    served.call("DELETE", f"/{topic}")
    producer = start()
    producer.send(*now())
    wait_until(lambda: f"noted-time stream create {topic}" in producer.log())
    began_at = time.monotonic()
    producer.close()

    assert time.monotonic() - began_at < CLOSE_S


def test_living_producer_retakes_its_name_after_a_restore(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """The backup names the process before it; records sent meanwhile are covered."""
    former = {"writer": "berlin", "session": "former", "takes_over": True, "state": "live"}
    served.call("POST", f"/{topic}/notes", {"notes": [former]})
    restored = threading.Event()

    def away() -> Answer:
        if not restored.is_set():
            server.planned.append(away)
        return iter([answer(b"", 503)])

    with HostileServer(served.url) as server:
        producer = start(url=server.url)
        send_until_noted([producer], served, topic)
        server.planned.append(away)
        wait_until(lambda: server.sent)
        served.call("DELETE", f"/{topic}")
        served.make(topic, max_time_ahead_ms=None)
        served.call("POST", f"/{topic}/notes", {"notes": [former]})
        restored.set()
        send_until_noted([producer], served, topic)
        producer.close()

    (again,) = (each for each in server.requests if b'"took_over":["former"]' in each)
    assert f'"log":"{Topic(broker.config, topic).look().id}"'.encode() in again
    assert "it takes the name over again" in producer.log()
    assert judge_marks(broker, topic, controller=served).violations == ()


def test_recreated_topic_ends_the_interceptors_notes(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """A running producer logs it, and so does one started before the stream is recreated."""
    producer = start()
    send_until_noted([producer], served, topic)
    producer.flush()
    broker.create(topic, 2)
    wait_until(lambda: "the topic was deleted and created again" in producer.log())
    again = start()
    again.send(*now())
    wait_until(lambda: "delete and create its stream, too" in again.log())
    served.call("DELETE", f"/{topic}")
    served.make(topic)
    once_more = start()
    send_until_noted([once_more], served, topic)

    assert judge_marks(broker, topic, controller=served).violations == ()


def test_producer_joins_only_the_stream_of_its_topic_id(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """The id has a character that Kafka's clients in C spell differently."""
    known = ""
    while {"-", "_"}.isdisjoint(known):
        broker.create(topic, 1)
        known = str(Topic(broker.config, topic).look().id)
    first, other = start(stream="{topic}"), start(stream=f"{topic}.other")
    foreign = "l-Nn1Hl_QmqdyIVaRTaVpA"
    served.make(f"{topic}.other")
    served.call("POST", f"/{topic}.other/notes", {"notes": [{"writer": "w", "log": foreign}]})
    other.send(*now())
    send_until_noted([first], served, topic)
    both = f"positions are of log {foreign}, and this topic is log {known}: if the topic was"
    wait_until(lambda: both in other.log())

    assert served.get(topic)["logs"] == [known]
    assert list(served.writers(f"{topic}.other")) == ["w"]
    assert other.log().count("no more is noted: ") == 1


def test_first_note_covers_records_sent_before_the_stream(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """The silent controller and the missing stream are each logged once."""
    served.call("DELETE", f"/{topic}")
    producer = start(url=f"http://{NOWHERE}, {served.url}/", **{"timeout.ms": 90_000})
    producer.send(*now())
    wait_until(lambda: f"noted-time stream create {topic}" in producer.log())
    served.make(topic)
    send_until_noted([producer], served, topic)
    producer.close()

    verdict = judge_marks(broker, topic, controller=served)
    assert (verdict.violations, producer.log().count("retrying")) == ((), 1)
    assert producer.log().count("notes are accepted again") == 1
    (row,) = served.get(f"{topic}/writers")["writers"]
    assert (row["state"], row["timeout_ms"]) == ("idle", 90_000)


OF_JSON = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999999999999\r\n\r\n"
)
ACCEPTED = b'{"refused": 0, "results": [{"status": "accepted", "lower": null}]}'
MIB = 2**20


def refusal(code: str, detail: str) -> bytes:
    return answer(b'{"code": "%b", "detail": "%b"}' % (code.encode(), detail.encode()), 422)


HOSTILE: dict[str, Callable[[], Answer]] = {
    "refuses in 60 kB": lambda: iter([refusal("lengthy", "x" * 60_000)]),
    "accepts in a 500": lambda: iter([answer(ACCEPTED, 500)]),
    "accepts in a page": lambda: iter([answer(ACCEPTED, kind="text/html")]),
    "accepts below a number of 30 digits": lambda: iter(
        [answer(ACCEPTED.replace(b"null", b"9" * 30))]
    ),
    "sends for ever": lambda: iter([OF_JSON, *[b" " * MIB] * 1000, STALLS]),
    "stalls in its head": lambda: iter([OF_JSON[:-2], STALLS]),
    "drips its body": lambda: drip(OF_JSON),
}


def test_notes_continue_after_a_hostile_answer(
    broker: Broker, served: Served, topic: str, start: Start
) -> None:
    """Each answer is given up in time, takes little memory, and counts as a failure."""
    with HostileServer(served.url, *HOSTILE.values()) as server:
        producer = start(url=server.url)
        send_until_noted([producer], served, topic)
        producer.close()

    *failed, accepted = server.requests[: len(HOSTILE) + 1]
    assert len(server.sent) == len(HOSTILE)
    assert max(server.sent) < 100 * MIB
    assert all(b'"takes_over":true' in each for each in (*failed, accepted))
    assert judge_marks(broker, topic, controller=served).violations == ()
    log = producer.log()
    kinds = ["lengthy: xxx", "no controller answers", "java.lang.NumberFormatException"]
    assert [log.count(f"retrying: {kind}") for kind in kinds] == [1, 1, 1]
    assert log.count("notes are accepted again") == 1
    assert len(max(log.splitlines(), key=len)) < 1200


def test_repeated_failures_are_logged_within_a_limit(
    served: Served, topic: str, start: Start
) -> None:
    """Of fifty different failures some are logged; the last line says that more follow."""

    def trouble(number: int) -> Callable[[], Answer]:
        return lambda: iter([refusal(f"trouble_{number}", "as planned")])

    planned = [each for n in range(25) for each in (trouble(n), lambda: iter([answer(ACCEPTED)]))]
    with HostileServer(served.url, *planned) as server:
        producer = start(url=server.url)
        send_until_noted([producer], served, topic)
        producer.close()

    said = producer.log().count("noted time: writer berlin")
    assert 0 < said < 2 * 20 + 1
    assert "no more warnings are logged in this minute" in producer.log()


def test_a_token_is_sent_and_never_logged(broker: Broker, tmp_path: Path) -> None:
    """The log says that the token was revoked."""
    guarded = Guarded()
    token, admin = guarded.token("write"), guarded.token("admin")
    with Served(gate=guarded.gate) as served:
        served.token = admin
        broker.create("guarded", 1)
        served.make("guarded")
        settings = {**broker.config, **java.interceptor(served.url, "berlin")}
        producer = JavaProducer(tmp_path, "guarded", {**settings, "noted.time.token": token})
        send_until_noted([producer], served, "guarded")
        guarded.revoke(token)
        wait_until(lambda: "retrying: unauthenticated" in producer.log())
        producer.kill()

    assert token.removeprefix("nt_")[12:] not in producer.log()
