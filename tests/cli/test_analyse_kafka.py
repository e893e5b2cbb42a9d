"""`noted-time analyse kafka`, against a real broker."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from confluent_kafka import Message

from demo.trials.calls import HOUR_MS, TEN
from demo.trials.kafka import Broker, Settings
from tests.cli.conftest import Commands, Result
from tests.support.transactions import begin_transaction

pytestmark = pytest.mark.acceptance


class TopicAnalysis:
    """A topic named like its test, and the command that judges it."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.broker, self.topic = broker, topic
        self._run = Commands("http://127.0.0.1:9")

    def __call__(self, *words: str) -> Result:
        return self._run("analyse", "kafka", self.broker.address, self.topic, *words)

    def create(self, *rows: tuple[int, int, int], settings: Settings | None = None) -> None:
        """Create it with (partition, event time, timestamp); both in minutes after TEN."""
        self.broker.create(self.topic, settings=settings)
        for partition, at, stamp in rows:
            value = json.dumps({"of": {"at": TEN + at * 60_000}, "carrier": f"c{partition}"})
            self.send((partition, value, TEN + stamp * 60_000), key=f"k{partition}")

    def send(self, *rows: tuple[int, str | None, int], key: str | None = None) -> None:
        """Send (partition, value, timestamp)."""
        self.broker.send(self.topic, rows, key=key)


@pytest.fixture
def analyse(broker: Broker, request: pytest.FixtureRequest) -> TopicAnalysis:
    """Return the topic of the test, which the test creates."""
    return TopicAnalysis(broker, str(request.node.originalname))


ROWS = ((0, 0, 1), (0, 130, 131), (1, 50, 135), (0, 140, 141))
"""The third is 80 minutes behind, and 70 minutes after its hour had ended for Spark."""


def test_a_field_is_judged_by_the_records_timestamps(analyse: TopicAnalysis) -> None:
    """The output says whose clock it is; keys, headers and fields tell who is late."""
    analyse.create(*ROWS)
    for who, name in (("key", "k1"), ("field:carrier", "c1")):
        done = analyse("--field", "of.at", "--who", who, "--json")
        found = done.json
        assert found["least_delay_without_loss_ms"] == 70 * 60_000 + 1
        assert found["behind_by_who"] == [[name, 1, 80 * 60_000.0, 80 * 60_000]]
        assert found["behind_by_partition"][0][0] == "1"
    assert "timestamps, which are their producers', by their clocks" in found["said"][0]
    assert found["delays"][-1]["wait_median_ms"] is not None


def test_timestamps_alone_leave_arrival_times_unknown(analyse: TopicAnalysis) -> None:
    """The output says first that arrival is assumed, and ends with an observer's command."""
    analyse.create(*ROWS)
    done = analyse()

    assert done.err.splitlines()[1].startswith("Arrival times are not known.")
    assert "lost by Flink" in done.table[0]
    assert f"observe kafka read-timestamp {analyse.broker.address} test_timestamps" in done.err


def test_silent_partitions_are_named(analyse: TopicAnalysis) -> None:
    """One without a record, and one without a record of the last hour."""
    analyse.create((0, 0, 1))
    empty = analyse("--field", "of.at", "--json").json["said"]
    analyse.send((1, json.dumps({"of": {"at": TEN}}), TEN + 2 * HOUR_MS))
    silent = analyse("--field", "of.at", "--json").json["said"]

    assert empty[1:] == ["Without a record: partition 1."]
    assert silent[1].startswith("Partition 0 has no row in the last hour")


def test_append_times_of_the_broker_are_reported(analyse: TopicAnalysis) -> None:
    """Without a field of event time, no record can be late by them."""
    analyse.create(*ROWS, settings={"message.timestamp.type": "LogAppendTime"})
    by_field, by_stamp = analyse("--field", "of.at", "--json"), analyse()

    assert "which are their brokers'" in by_field.json["said"][0]
    assert (by_stamp.status, by_stamp.out) == (1, "")
    assert "name the event time in the records with --field" in by_stamp.err


def test_the_last_records_are_judged(analyse: TopicAnalysis) -> None:
    """An equal share of each partition is read, or younger records; the output says so."""
    analyse.create(*ROWS)
    few, young = analyse("--records", "2", "--json"), analyse("--since", "7d")
    older = analyse("--since", "9999d", "--json")

    assert few.json["rows"] == 3
    assert few.json["said"][-1].startswith("The last 3 of 4 records are read, an equal share of ")
    assert young.err.startswith("Reading 0 records")
    assert "has no records to judge" in young.err
    assert (older.json["rows"], older.json["said"][-1][:22]) == (4, "The log has nothing be")


def test_topic_in_another_unit_needs_the_unit(analyse: TopicAnalysis) -> None:
    """Each tenth record is an hour late. No delay is advised without the unit."""
    analyse.create()
    late = [(n, TEN + n * 1000 - (n % 10 == 9) * HOUR_MS) for n in range(200)]
    analyse.send(*((0, f'{{"ts": {at // 1000}}}', TEN + n * 1000) for n, at in late))
    refused = analyse("--field", "ts")
    judged = analyse("--field", "ts", "--unit", "s", "--window", "0s", "--json")

    doubt = "Unix seconds (2013-01-01 as seconds, 1970-01-16 as ms): pass --unit s"
    error = f"noted-time: the times of `ts` look like {doubt}"
    assert (refused.status, refused.out, refused.err.splitlines()[1:]) == (1, "", [error])
    assert judged.json["least_delay_without_loss_ms"] == HOUR_MS - 1000 + 1


def test_aborted_records_are_not_analysed(analyse: TopicAnalysis) -> None:
    """The command ends although their offsets cannot be read."""
    analyse.create(*ROWS[:2])
    aborted = json.dumps({"of": {"at": TEN - 99}})
    begin_transaction(
        analyse.broker, analyse.topic, aborted, partition=0, timestamp=TEN
    ).abort_transaction()

    assert analyse("--field", "of.at", "--json").json["rows"] == 2


def test_records_without_the_field_are_counted_or_named(analyse: TopicAnalysis) -> None:
    """If no record has it, the error has the fields that exist."""
    analyse.create(*ROWS)
    analyse.send((1, "no JSON", TEN))
    some, all_ = analyse("--field", "of.at"), analyse("--field", "of.departure")

    assert (some.status, "1 row without at skipped." in some.err) == (0, True)
    assert (all_.status, all_.out) == (1, "")
    assert all_.err.endswith("none of 5 records has a time: there is no 'departure' among at\n")


def test_records_without_a_value_are_counted_by_themselves(analyse: TopicAnalysis) -> None:
    """They are not records whose time cannot be read."""
    analyse.create(*ROWS)
    analyse.send((0, None, TEN), (1, None, TEN), (1, "no JSON", TEN), key="k")
    found = analyse("--field", "of.at", "--json").json

    assert (found["rows"], found["without_time"]) == (4, 1)
    assert found["said"][1] == "2 records without a value skipped."


def test_text_without_a_zone_is_refused(analyse: TopicAnalysis) -> None:
    """The error shows one value and the option to pass, as for files."""
    analyse.create()
    analyse.send((0, '{"at": "2013-01-01 11:00:00"}', TEN))
    refused = analyse("--field", "at")
    told = analyse("--field", "at", "--zone", "Europe/Berlin", "--json")

    needs = "'2013-01-01 11:00:00' has no zone: pass --zone, for example --zone UTC"
    assert f"none of 1 record has a time: {needs}\n" in refused.err
    assert told.json["first_ms"] == TEN


def test_each_event_of_a_record_is_a_row(analyse: TopicAnalysis, tmp_path: Path) -> None:
    """A path leads through arrays, and a function returns several times.

    Functions and the configuration of the client are the same as for an observer.
    """
    (tmp_path / "client.properties").write_text("client.id=analysis\n")
    options = ("--window", "0s", "--kafka-settings", str(tmp_path / "client.properties"))
    analyse.create()
    for spans in ([TEN, TEN + HOUR_MS], [TEN + 1, TEN + 2 * HOUR_MS], []):
        value = json.dumps({"spans": [{"at": at} for at in spans]})
        analyse.send((0, value, TEN), key="k")
    by_path, by_function = (
        analyse("--field", field, "--who", "key", *options, "--json", "--ahead", "9h").json
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


def test_new_records_are_analysed_by_the_local_clock(analyse: TopicAnalysis) -> None:
    analyse.create()
    analyse.send((0, "{}", TEN))
    ends = threading.Event()

    def go_on() -> None:
        while not ends.wait(0.1):
            analyse.send((1, "{}", TEN))

    sender = threading.Thread(target=go_on)
    sender.start()
    found = analyse("--live", "2s", "--json").json
    ends.set()
    sender.join()

    assert found["rows"] > 0
    assert (found["partitions"], found["assumed"]) == (1, None)
    assert "by its clock" in found["said"][0]


def test_compacted_topic_is_reported(analyse: TopicAnalysis) -> None:
    analyse.create(*ROWS, settings={"cleanup.policy": "compact"})

    assert "is compacted: its replaced records are not judged" in analyse().err


def test_who_option_needs_a_known_form(analyse: TopicAnalysis) -> None:
    """The error has the known forms."""
    analyse.create(*ROWS[:1])

    assert "--who 'me' is none of key, header:NAME and field:a.b" in analyse("--who", "me").err
