"""Judges each mark of a stream against each record of its topic."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from demo.trials.calls import Calls
from demo.trials.kafka import Broker, Record
from demo.trials.waiting import wait_until
from reader_client import KafkaRelay
from tests.trials.laws import Unsound, marks_are_sound

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many marks and records were judged, and the violations."""

    marks: int
    records: int
    violations: tuple[Unsound, ...]


def judge_marks(  # noqa: PLR0913 - most are keyword-only
    broker: Broker,
    topic: str,
    *,
    controller: Calls,
    stream: str | None = None,
    domain: str = "default",
    time_of: Callable[[Record], int] = lambda record: record.time,
) -> Verdict:
    """Judge the marks of a stream (by default the topic's name) against the topic's records."""
    marks = controller.all_marks(stream or topic, domain)
    records = [record._replace(time=time_of(record)) for record in broker.records(topic)]
    return Verdict(len(marks), len(records), tuple(marks_are_sound(marks, records)))


def count_covered(controller: Calls, stream: str) -> int:
    """Return how many offsets lie below the last cut."""
    mark = controller.get(stream)["marks"]["default"]
    return sum(mark["cut"].values()) if mark else 0


def wait_for_relay(relay: KafkaRelay, broker: Broker, count: int) -> None:
    def count_relayed() -> int:
        relay.look()
        there = relay.noted.name in broker.topics()
        return there and relay.noted.look().ends.get(0, 0)

    wait_until(lambda: count_relayed() >= count)
