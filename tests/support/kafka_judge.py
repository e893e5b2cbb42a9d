"""Judges each mark of a stream against each record of its topic."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.trials.laws import Unsound, marks_are_sound
from tools.trials.calls import Calls
from tools.trials.kafka import Broker, Record


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
