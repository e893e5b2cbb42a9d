"""`noted-time analyse kafka`, against a real broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from demo.trials.kafka import Broker
from tests.cli.conftest import Commands, Said
from tests.support.calls import HOUR_MS, TEN

pytestmark = pytest.mark.acceptance


Analyse = Callable[..., Said]


@pytest.fixture
def analyse(broker: Broker, request: pytest.FixtureRequest) -> Analyse:
    """Return what judges the topic of the test."""
    words = ("analyse", "kafka", broker.address, request.node.originalname)
    return partial(Commands("http://127.0.0.1:9"), *words)


def send(
    broker: Broker, topic: str, *rows: tuple[int, int, int], settings: dict[str, str] | None = None
) -> None:
    """Send (partition, event time, timestamp); both in minutes after TEN."""
    broker.create(topic, 2, settings)
    for partition, at, stamp in rows:
        value = json.dumps({"of": {"at": TEN + at * 60_000}, "carrier": f"c{partition}"})
        broker.send(topic, [(partition, value, TEN + stamp * 60_000)], key=f"k{partition}")


ROWS = ((0, 0, 1), (0, 130, 131), (1, 50, 135), (0, 140, 141))
"""The third is 80 minutes behind, and 70 minutes after its hour had ended for Spark."""


def test_a_field_is_judged_by_the_records_timestamps(broker: Broker, analyse: Analyse) -> None:
    """Whose clock it is, is said; keys, headers and fields tell who is late."""
    send(broker, "test_a_field_is_judged_by_the_records_timestamps", *ROWS)
    for who, name in (("key", "k1"), ("field:carrier", "c1")):
        said = analyse("--field", "of.at", "--who", who, "--json")
        found = said.json
        assert found["least_delay_without_loss_ms"] == 70 * 60_000 + 1
        assert found["behind_by_who"] == [[name, 1, 80 * 60_000.0, 80 * 60_000]]
        assert found["behind_by_partition"][0][0] == "1"
    assert "timestamps, which are their producers', by their clocks" in found["said"][0]
    assert found["delays"][-1]["wait_median_ms"] is not None


def test_timestamps_alone_do_not_tell_when_records_came(broker: Broker, analyse: Analyse) -> None:
    """So that is assumed, and said first; what to do next is an observer's command."""
    send(broker, "test_timestamps_alone_do_not_tell_when_records_came", *ROWS)
    said = analyse()

    assert said.err.splitlines()[1].startswith("Arrival times are not known.")
    assert "lost by Flink" in said.table[0]
    assert f"observe kafka read-timestamp {broker.address} test_timestamps" in said.err


def test_the_brokers_clock_is_said(broker: Broker, analyse: Analyse) -> None:
    """And where there is no field of event time, nothing can be late by it."""
    appended = {"message.timestamp.type": "LogAppendTime"}
    send(broker, "test_the_brokers_clock_is_said", *ROWS, settings=appended)
    by_field, by_stamp = analyse("--field", "of.at", "--json"), analyse()

    assert "which are their brokers'" in by_field.json["said"][0]
    assert (by_stamp.status, by_stamp.out) == (1, "")
    assert "name the event time in the records with --field" in by_stamp.err


def test_the_last_records_are_judged(broker: Broker, analyse: Analyse) -> None:
    """An equal share of each partition, or what is younger; and what is left out is said."""
    send(broker, "test_the_last_records_are_judged", *ROWS)
    few, young = analyse("--records", "2", "--json"), analyse("--since", "7d")
    older = analyse("--since", "9999d", "--json")

    assert few.json["rows"] == 3
    assert few.json["said"][-1].startswith("The last 3 of 4 records are read, an equal share of ")
    assert young.err.startswith("Reading 0 records")
    assert "has no records to judge" in young.err
    assert (older.json["rows"], older.json["said"][-1][:20]) == (4, "The log begins after")


@pytest.mark.parametrize(
    ("digits", "unit", "doubt"),
    [
        (10, "s", "Unix seconds (2013-01-01 as seconds, 1970-01-16 as ms): pass --unit s"),
        (16, "us", "Unix microseconds (2013-01-01 as microseconds, no date as ms): pass --unit us"),
    ],
)
def test_a_topic_in_another_unit_is_judged_only_as_told(
    broker: Broker, analyse: Analyse, digits: int, unit: str, doubt: str
) -> None:
    """Each tenth record is an hour late: no delay is advised until the unit is named."""
    topic = "test_a_topic_in_another_unit_is_judged_only_as_told"
    broker.create(topic, 1)
    late = [(n, TEN + n * 1000 - (n % 10 == 9) * HOUR_MS) for n in range(200)]
    values = [(TEN + n * 1000, f'{{"ts": {f"{at}000"[:digits]}}}') for n, at in late]
    broker.send(topic, [(0, value, came) for came, value in values])
    refused = analyse("--field", "ts")
    judged = analyse("--field", "ts", "--unit", unit, "--window", "0s", "--json")

    said = f"noted-time: the times of `ts` look like {doubt}"
    assert (refused.status, refused.out, refused.err.splitlines()[1:]) == (1, "", [said])
    assert judged.json["least_delay_without_loss_ms"] == HOUR_MS - 1000 + 1


def test_what_was_aborted_is_not_judged(broker: Broker, analyse: Analyse) -> None:
    """Nor does it keep the command from ending."""
    topic = "test_what_was_aborted_is_not_judged"
    send(broker, topic, *ROWS[:2])
    producer = Producer({**broker.config, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, json.dumps({"of": {"at": TEN - 99}}), partition=0, timestamp=TEN)
    producer.flush()
    producer.abort_transaction()

    assert analyse("--field", "of.at", "--json").json["rows"] == 2


def test_records_without_the_field_are_counted_or_named(broker: Broker, analyse: Analyse) -> None:
    """All of them: then what there is instead."""
    topic = "test_records_without_the_field_are_counted_or_named"
    send(broker, topic, *ROWS)
    broker.send(topic, [(1, "no JSON", TEN)])
    some, all_ = analyse("--field", "of.at"), analyse("--field", "of.departure")

    assert (some.status, "1 row without at skipped." in some.err) == (0, True)
    assert (all_.status, all_.out) == (1, "")
    assert all_.err.endswith("none of 5 records has a time: there is no 'departure' among at\n")


def test_records_without_a_value_are_counted_by_themselves(
    broker: Broker, analyse: Analyse
) -> None:
    """They are not records whose time cannot be read."""
    topic = "test_records_without_a_value_are_counted_by_themselves"
    send(broker, topic, *ROWS)
    broker.send(topic, [(0, None, TEN), (1, None, TEN), (1, "no JSON", TEN)], key="k")
    found = analyse("--field", "of.at", "--json").json

    assert (found["rows"], found["without_time"]) == (4, 1)
    assert found["said"][1] == "2 records without a value skipped."


def test_text_without_a_zone_needs_one(broker: Broker, analyse: Analyse) -> None:
    """As in files: the error shows one value, and what to pass."""
    topic = "test_text_without_a_zone_needs_one"
    broker.create(topic, 1)
    broker.send(topic, [(0, '{"at": "2013-01-01 11:00:00"}', TEN)])
    refused = analyse("--field", "at")
    told = analyse("--field", "at", "--zone", "Europe/Berlin", "--json")

    needs = "'2013-01-01 11:00:00' has no zone: pass --zone, for example --zone UTC"
    assert f"none of 1 record has a time: {needs}\n" in refused.err
    assert told.json["first_ms"] == TEN


def test_each_event_of_a_record_is_a_row(broker: Broker, analyse: Analyse) -> None:
    """A path leads through arrays; a function returns several."""
    topic = "test_each_event_of_a_record_is_a_row"
    broker.create(topic, 1)
    for spans in ([TEN, TEN + HOUR_MS], [TEN + 1, TEN + 2 * HOUR_MS], []):
        value = json.dumps({"spans": [{"at": at} for at in spans]})
        broker.send(topic, [(0, value, TEN)], key="k")
    by_path, by_function = (
        analyse("--field", field, "--who", "key", "--window", "0s", "--json", "--ahead", "9h").json
        for field in ("spans.at", "tests.cli.test_analyse_kafka:times_of")
    )

    assert (by_path["rows"], by_path["without_time"], by_path["behind_by_who"]) == (
        4,
        0,
        [["k", 1, HOUR_MS - 1.0, HOUR_MS - 1]],
    )
    assert by_function | {"event_time": "at"} == by_path


def times_of(message: Message) -> list[int]:
    """Return the event times of a record."""
    return [span["at"] for span in json.loads(message.value() or b"")["spans"]]


def test_a_function_finds_the_time(broker: Broker, analyse: Analyse, tmp_path: Path) -> None:
    """As that of an observer; the configuration of the client is as an observer's, too."""
    send(broker, "test_a_function_finds_the_time", *ROWS)
    (tmp_path / "client.properties").write_text("client.id=analysis\n")
    found = analyse(
        *("--parse", "tests.cli.test_analyse_kafka:time_of", "--json"),
        *("--kafka-settings", str(tmp_path / "client.properties")),
    )

    assert found.json["least_delay_without_loss_ms"] == 70 * 60_000 + 1


def time_of(message: Message) -> int:
    """Return the event time of a record."""
    return int(json.loads(message.value() or b"")["of"]["at"])


def test_records_are_judged_as_they_come(broker: Broker, analyse: Analyse) -> None:
    """By this machine's clock, from now on."""
    topic = "test_records_are_judged_as_they_come"
    broker.create(topic, 2)
    broker.send(topic, [(0, "{}", TEN)])
    ends = threading.Event()

    def go_on() -> None:
        while not ends.wait(0.1):
            broker.send(topic, [(1, "{}", TEN)])

    sender = threading.Thread(target=go_on)
    sender.start()
    found = analyse("--live", "2s", "--json").json
    ends.set()
    sender.join()

    assert found["rows"] > 0
    assert (found["partitions"], found["assumed"]) == (1, None)
    assert "by its clock" in found["said"][0]


def test_a_compacted_topic_is_said(broker: Broker, analyse: Analyse) -> None:
    """What was replaced is not seen."""
    send(broker, "test_a_compacted_topic_is_said", *ROWS, settings={"cleanup.policy": "compact"})

    assert "is compacted: its replaced records are not judged" in analyse().err


def test_a_topic_that_is_not_there_is_named(analyse: Analyse) -> None:
    """With what to do."""
    refused = analyse()

    assert refused.status == 1
    assert "there is no Kafka topic 'test_a_topic_that_is_not_there_is_named'" in refused.err


def test_who_has_a_form(broker: Broker, analyse: Analyse) -> None:
    """Which the error shows."""
    send(broker, "test_who_has_a_form", *ROWS[:1])

    assert "--who 'me' is none of key, header:NAME and field:a.b" in analyse("--who", "me").err
