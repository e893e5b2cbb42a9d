"""Every check of a trial of Kafka can fail: small stories with one thing wrong each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from demo.trials.kafka import Record
from tests.chaos.history import Chain, History
from tests.chaos.kafka.checks import Counted
from tests.chaos.kafka.queried import MARKS, judge
from tests.support.following import Answer


@dataclass
class Story:
    """A topic of three records, two marks that cover them, and what a query gave out of it."""

    records: list[Record] = field(
        default_factory=lambda: [Record(0, 0, 1000), Record(0, 1, 1500), Record(1, 0, 2500)]
    )
    marks: list[dict[str, Any]] = field(
        default_factory=lambda: [mark(1, 2000, {"0": 2}), mark(2, 3000, {"0": 2, "1": 1})]
    )
    batches: dict[int, list[list[Counted]]] = field(
        default_factory=lambda: {4: [[Counted(1, 0, 2, 1)]], 5: [[Counted(2, 1, 1, 0)]]}
    )

    def broken(self) -> set[str]:
        """Return the laws that are found broken."""
        history = History({})
        history.chains[MARKS] = Chain(answers=[Answer(0, [mark(1, 2000, {"0": 2})])])
        judge(history, self.records, self.marks, self.batches)
        return {violation.law for violation in history.violations}


def mark(seq: int, lower: int, cut: dict[str, int], *excluded: str) -> dict[str, Any]:
    """Return a mark as the API has it."""
    return {"seq": seq, "lower": lower, "cut": cut, "excluded": list(excluded)}


SPOILT: dict[str, tuple[set[str], Callable[[Story], object]]] = {
    "nothing": (set(), lambda _: None),
    "row lost": ({"windows are true"}, lambda story: story.records.append(Record(1, 1, 3100))),
    "row twice": (
        {"windows are true"},
        lambda story: story.batches.update({5: [[Counted(2, 1, 2, 0)]]}),
    ),
    "window twice": (
        {"windows come once"},
        lambda story: story.batches.update({6: [[Counted(2, 1, 1, 0)]]}),
    ),
    "changed batch": ({"batches stay"}, lambda story: story.batches[4].insert(0, [])),
    "noted early": (
        {"marks are sound", "windows are true"},
        lambda story: story.records.append(Record(0, 2, 1999)),
    ),
    "seq skipped": (
        {"followers"},
        lambda story: story.marks.append(mark(4, 4000, {"0": 2, "1": 1})),
    ),
    "mark changed": ({"followers"}, lambda story: story.marks[0].update(lower=1999)),
    "writer out": (
        {"no writer is excluded"},
        lambda story: story.marks.append(mark(3, 4000, {"0": 2, "1": 1}, "UA")),
    ),
}
"""The laws that are broken, and by what."""


@pytest.mark.parametrize(("laws", "spoil"), SPOILT.values(), ids=SPOILT)
def test_what_is_wrong_breaks_its_law(laws: set[str], spoil: Callable[[Story], object]) -> None:
    """Each law is found broken by a story that breaks it, and by no other."""
    story = Story()
    spoil(story)

    assert story.broken() == laws
