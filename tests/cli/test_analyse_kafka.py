"""`noted-time analyse kafka`, against a real broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from typer.testing import CliRunner

from examples.trials.kafka import Broker
from noted_time_cli.app import app
from tests.cli.conftest import Said

pytestmark = pytest.mark.acceptance

HOUR_MS = 3_600_000
TEN = 1_357_034_400_000
LATE_MS = 10 * 60_000

Analyse = Callable[..., Said]


@pytest.fixture
def analyse(broker: Broker, request: pytest.FixtureRequest) -> Analyse:
    """Return what judges the topic of the test."""

    def run(*words: str) -> Said:
        topic = request.node.originalname
        done = CliRunner().invoke(app, ["analyse", "kafka", broker.address, topic, *words])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return Said(done.exit_code, done.stdout, done.stderr)

    return run


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

    assert said.err.splitlines()[1].startswith("When rows came in is not known.")
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

    assert (some.status, "1 row without at passed over." in some.err) == (0, True)
    assert (all_.status, all_.out) == (1, "")
    assert "none of 5 records has a time in 'of.departure'" in all_.err
    assert "the records have carrier, of" in all_.err


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

    assert "is compacted: what was replaced in it is not judged" in analyse().err


def test_a_topic_that_is_not_there_is_named(analyse: Analyse) -> None:
    """With what to do."""
    refused = analyse()

    assert refused.status == 1
    assert "there is no Kafka topic 'test_a_topic_that_is_not_there_is_named'" in refused.err


def test_who_has_a_form(broker: Broker, analyse: Analyse) -> None:
    """Which the error shows."""
    send(broker, "test_who_has_a_form", *ROWS[:1])

    assert "--who 'me' is none of key, header:NAME and field:a.b" in analyse("--who", "me").err
