"""Which faults come, and when it ends."""

from __future__ import annotations

import random
from itertools import count

from tests.chaos.faults import FAULTS
from tests.chaos.gaps import NOTHING, SEVERAL, longest_gaps
from tests.chaos.history import Chain, Span
from tests.chaos.turns import mixed


def test_the_same_seed_has_the_same_faults() -> None:
    """So that a trial can be held again."""
    held = []
    for _ in range(2):
        looks = count()
        goes_on = lambda looks=looks: next(looks) < 50  # noqa: E731
        held.append(list(mixed(list(FAULTS), random.Random(7), goes_on)))

    assert (held[0], len(held[0])) == (held[1], 50)


def test_a_mixed_trial_has_every_fault() -> None:
    """Often kills, and sometimes two or three together."""
    looks = count()
    turns = list(mixed(list(FAULTS), random.Random(1), lambda: next(looks) < 500))

    assert {fault for turn in turns for fault in turn} == set(FAULTS)
    assert {len(turn) for turn in turns} == {1, 2, 3}


def test_only_the_faults_that_were_named_come() -> None:
    """Without a kill among them there is none."""
    looks = count()
    turns = list(mixed(["pause", "cut"], random.Random(1), lambda: next(looks) < 50))

    assert {fault for turn in turns for fault in turn} == {"pause", "cut"}


def test_a_gap_is_told_of_the_fault_that_lasted() -> None:
    """Of none where none did, and of several where it may have been either."""
    chain = Chain(grew_at=[0.0, 2.0, 5.0, 9.0])
    spans = [Span("kill", 3.0, 4.0), Span("cut", 6.0, 7.0), Span("pause", 6.5, 8.0)]

    assert longest_gaps([chain], spans) == {SEVERAL: 4.0, "kill": 3.0, NOTHING: 2.0}
