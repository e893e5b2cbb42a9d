"""What the tests of Kafka stand on, and the broker for trials as `./run kafka` starts it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import pytest
from confluent_kafka import Producer

from noted_time.kafka.topic import Topic
from tests.support import kafka
from tests.support.kafka import Broker, Record
from tests.support.kafka_judge import Violation, judged, violations
from tests.support.processes import ROOT, environment
from tests.support.served import Served

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(not kafka.installed(), reason=kafka.MISSING),
]


def run_kafka(data: Path, *options: str) -> subprocess.Popen[str]:
    """Start it in a group of processes of its own, as a terminal does."""
    words = [sys.executable, "-m", "tests.support.run_kafka", "--data", str(data), *options]
    return subprocess.Popen(
        words, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True, process_group=0
    )


def read_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Return its lines up to one that contains the text."""
    assert process.stderr is not None
    lines = [process.stderr.readline()]
    while text not in lines[-1]:
        assert lines[-1], lines
        lines.append(process.stderr.readline())
    return lines


def test_it_listens_until_ctrl_c_and_keeps_its_topics(tmp_path: Path) -> None:
    """Ctrl-C reaches the broker as well; a second one is refused, be it over port or data."""
    port = kafka.free_port()
    with run_kafka(tmp_path, "--port", str(port), "--topic", "flights:4") as first:
        said = read_until(first, "another terminal")
        on_port = run_kafka(tmp_path / "other", "--port", str(port)).communicate()[1]
        on_data = run_kafka(tmp_path, "--port", str(kafka.free_port())).communicate()[1]
        look = Topic({"bootstrap.servers": f"127.0.0.1:{port}"}, "flights").look()
        os.killpg(first.pid, signal.SIGINT)
        first.communicate()
    with run_kafka(tmp_path, "--port", str(port)) as second:
        again = read_until(second, "another terminal")
        second.terminate()
        second.communicate()

    assert said[0].startswith(f"Kafka listens at 127.0.0.1:{port} until Ctrl-C")
    assert look.ends == dict.fromkeys(range(4), 0)
    assert again[1] == "Topics: flights (4 partitions).\n"
    assert f"port {port} is taken" in on_port
    assert f"another ./run kafka runs over {tmp_path}: end it first" in on_data
    assert (first.returncode, second.returncode) == (0, 0)


# What the tests of Kafka stand on: the broker, its topics, and the judge of marks


def test_a_broker_killed_and_started_again_has_its_records_and_its_port(broker: Broker) -> None:
    """As its clients expect, which reconnect to the same address."""
    broker.create("kept", 2)
    broker.send("kept", [(0, "a", 1000), (1, "b", 2000)])
    broker.kill()
    broker.start()
    broker.send("kept", [(1, "c", 1500)])

    assert sorted(broker.records("kept")) == [
        Record(0, 0, 1000, None, b"a"),
        Record(1, 0, 2000, None, b"b"),
        Record(1, 1, 1500, None, b"c"),
    ]


def test_only_committed_records_are_judged(broker: Broker) -> None:
    """Neither those of an aborted transaction nor the markers, which have offsets too."""
    broker.create("committed", 1)
    producer = Producer({**broker.config, "transactional.id": "t"})
    producer.init_transactions(60)
    for value, end in ("a", producer.commit_transaction), ("b", producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("committed", value, timestamp=1000)
        producer.flush(60)
        end(60)
    broker.send("committed", [(0, "c", 2000)])

    assert [(each.offset, each.value) for each in broker.records("committed")] == [
        (0, b"a"),
        (4, b"c"),
    ]


def test_a_planted_violation_is_found_in_a_topic(broker: Broker, served: Served) -> None:
    """A note that leaves one record out, of a partition that was added before it."""
    broker.create("planted", 1)
    broker.grow("planted", 2)
    broker.send("planted", [(0, "a", 1000), (1, "late", 1999), (1, "b", 2000)])
    served.create("planted", max_time_ahead_ms=None)
    served.note("planted", 1000, {"0": 0})
    served.note("planted", 2000, {"0": 1})

    verdict = judged(broker, "planted", controller=served)

    late = Record(1, 0, 1999, None, b"late")
    assert (verdict.marks, verdict.records) == (2, 3)
    assert verdict.violations == (Violation(late, 2000, 0),)


@pytest.mark.parametrize("seed", range(20))
def test_the_judge_agrees_with_every_mark_against_every_record(seed: int) -> None:
    """On chains of marks, of which one in two leaves something out."""
    chance = random.Random(seed)
    rising = [
        list(accumulate(chance.randrange(4) for _ in range(6))) for _ in ("time", "p 0", "p 1")
    ]
    marks = [{"lower": time, "cut": {"0": a, "1": b}} for time, a, b in zip(*rising, strict=True)]
    records = [
        Record(partition, offset, chance.randrange(offset + 3))
        for partition in (0, 1, 2)
        for offset in range(9)
    ]
    pairs = [
        record
        for record in records
        if any(
            record.time < mark["lower"]
            and record.offset >= mark["cut"].get(f"{record.partition}", 0)
            for mark in marks
        )
    ]

    assert [each.record for each in violations(marks, records)] == pairs
