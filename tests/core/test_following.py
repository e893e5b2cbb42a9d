"""Every chain has the properties that followers rely on, and each check can fail."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from noted_time import StreamSettings
from tests.core.acts import DOMAINS, Act, histories, lived, streams
from tests.support.following import CHECKS, Answer, broken, checked
from tests.support.http import as_json
from tests.support.streams import sealed


@given(settings=streams, history=histories("waits", "scales", "restarts", "late"))
def test_a_follower_may_rely_on_every_chain(settings: StreamSettings, history: list[Act]) -> None:
    """Also after the seal, from any mark on; an upper never falls."""
    world = lived(settings, history)
    made = {domain: [m.mark for m in world.made if m.domain == domain] for domain in DOMAINS}
    sealed(world.stream)
    for domain, marks in made.items():
        last = world.stream.domains[domain].last
        if last and last.final:
            marks.append(last)

    chains = [[as_json(mark) for mark in marks] for marks in made.values()]
    answers = [[Answer(at, chain[at:]) for at in range(len(chain), -1, -1)] for chain in chains]

    assert [broken(each) for each in answers] == [[] for _ in DOMAINS]
    assert all(one["upper"] <= two["upper"] for chain in chains for one, two in pairwise(chain))


def mark(seq: int, lower: int, end: int, *, final: bool = False) -> dict[str, Any]:
    return {"seq": seq, "lower": lower, "cut": {"0": end}, "final": final}


A, B, C, D = mark(1, 10, 5), mark(2, 20, 6), mark(3, 30, 7, final=True), mark(4, 40, 8)
WELL = [Answer(0, [A, B]), Answer(2, [C]), Answer(1, [C], first=3), Answer(0, [A, B, C])]
PLANTED = {
    "seq back": ("ordered by seq", [Answer(0, [A, B, A])]),
    "lower stays": ("ordered by seq", [Answer(0, [A, mark(2, 10, 6)])]),
    "cut back": ("ordered by seq", [Answer(0, [A, mark(2, 20, 4)])]),
    "known": ("each once", [Answer(1, [A, B])]),
    "twice": ("each once", [Answer(0, [A, A, B])]),
    "other": ("never changed", [Answer(0, [A]), Answer(0, [mark(1, 11, 5)])]),
    "lost": ("never changed", [Answer(0, [A, B]), Answer(0, [A])]),
    "late": ("resumable", [Answer(1, [C])]),
    "gap": ("complete below seq", [Answer(0, [A, C])]),
    "after the end": ("the final mark is last", [Answer(0, [A, B, C, D])]),
}


@pytest.mark.parametrize(("sentence", "answers"), PLANTED.values(), ids=PLANTED)
def test_what_contradicts_a_sentence_is_found(sentence: str, answers: list[Answer]) -> None:
    assert {each.split(":")[0] for each in broken(answers)} == {sentence}


def test_what_is_well_is_counted() -> None:
    assert (broken(WELL), list(checked(WELL).values())) == ([], [3, 7, 4, 4, 3, 3])
    assert {sentence for sentence, _ in PLANTED.values()} == set(CHECKS)
