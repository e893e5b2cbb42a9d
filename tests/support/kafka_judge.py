"""Judges each mark of a stream against each record of its topic."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from demo.trials.calls import Calls
from demo.trials.kafka import Broker, Record
from demo.trials.waiting import wait_until
from reader_client import KafkaRelay

NEVER = 2**63
Json = Mapping[str, Any]


class Violation(NamedTuple):
    """A record with a time below `lower` that the `cut` does not cover."""

    record: Record
    lower: int
    cut: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many marks and records were judged, and the violations."""

    marks: int
    records: int
    violations: tuple[Violation, ...]


def find_violations(marks: Iterable[Json], records: Sequence[Record]) -> list[Violation]:
    """Return the records with a time below a mark's lower that are not below its cut.

    Each has the least such lower and the least such cut:

    >>> mark = {"lower": 100, "cut": {"0": 2}}
    >>> below, beyond = Record(0, 1, 99), Record(0, 2, 99)
    >>> find_violations([mark], [below, beyond, Record(0, 3, 100)]) == [Violation(beyond, 100, 2)]
    True

    A partition that a cut does not name has no record below it.
    """
    ordered = sorted(marks, key=lambda mark: mark["lower"])
    lowers = [mark["lower"] for mark in ordered]
    partitions = {record.partition for record in records}
    cuts = {each: _least_cuts(ordered, str(each)) for each in partitions}
    found = []
    for record in records:
        first = bisect_right(lowers, record.time)
        cut = cuts[record.partition][first]
        if record.offset >= cut:
            found.append(Violation(record, lowers[first], cut))
    return found


def _least_cuts(marks: Sequence[Json], partition: str) -> list[int]:
    """Return the least offset in the cuts of each mark and later ones."""
    least = [NEVER]
    for mark in reversed(marks):
        least.append(min(least[-1], mark["cut"].get(partition, 0)))
    return least[::-1]


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
    return Verdict(len(marks), len(records), tuple(find_violations(marks, records)))


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
