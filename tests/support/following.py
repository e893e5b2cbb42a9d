"""Checks for each sentence of `docs/reference/following.md` on followers of marks.

Each takes the answers to followers of one domain, in order, and returns contradictions. The last
answer has all marks after its seq.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from noted_time.client import Json, position_from_wire
from noted_time.values import reaches


class Answer(NamedTuple):
    """The marks after a seq; truncations may have deleted marks below `first`."""

    after: int
    marks: Sequence[Json]
    first: int = 1


Answers = Sequence[Answer]


def find_disordered(answers: Answers) -> list[str]:
    """Return the marks whose seq, lower or cut does not continue from the mark before."""
    return [f"{other} came after {one}" for one, other in _pairs(answers) if _goes_back(one, other)]


def find_repeated(answers: Answers) -> list[str]:
    """Return the marks that were returned twice, or to a follower of later marks."""
    return [
        f"{mark} came again after {after}"
        for after, marks, _ in answers
        for before, mark in zip((after, *(each["seq"] for each in marks)), marks, strict=False)
        if mark["seq"] <= after or mark["seq"] == before
    ]


def find_changed(answers: Answers) -> list[str]:
    """Return the marks whose content changed, or that are missing from the last answer."""
    known: dict[int, Json] = {}
    end = answers[-1]
    left = {mark["seq"]: mark for mark in end.marks}
    found = [
        f"{was} became {mark}"
        for answer in answers
        for mark in answer.marks
        if (was := known.setdefault(mark["seq"], mark)) != mark
    ]
    kept = max(end.after + 1, end.first)
    return found + [f"{m} is lost" for seq, m in known.items() if seq >= kept and seq not in left]


def find_skipped(answers: Answers) -> list[str]:
    """Return the answers that skip the next kept mark."""
    return [
        f"after {after} came {marks[0]}"
        for after, marks, first in answers
        if marks and marks[0]["seq"] > max(after + 1, first)
    ]


def find_missing(answers: Answers) -> list[str]:
    """Return the neighbours with a mark missing between them."""
    return [
        f"{other} came next to {one}"
        for one, other in _pairs(answers)
        if other["seq"] > one["seq"] + 1
    ]


def find_after_end(answers: Answers) -> list[str]:
    marks = [mark for answer in answers for mark in answer.marks]
    end = min((mark["seq"] for mark in marks if mark.get("final")), default=None)
    return [f"{mark} follows the end {end}" for mark in marks if end and mark["seq"] > end]


CHECKS: Mapping[str, Callable[[Answers], list[str]]] = {
    "ordered by seq": find_disordered,
    "each once": find_repeated,
    "never changed": find_changed,
    "resumable": find_skipped,
    "complete below seq": find_missing,
    "the final mark is last": find_after_end,
}


def find_contradictions(answers: Answers) -> list[str]:
    """Return all contradictions, each with its sentence."""
    return [f"{name}: {each}" for name, check in CHECKS.items() for each in check(answers)]


def count_checks(answers: Answers) -> dict[str, int]:
    """Return the number of cases in which each sentence could be contradicted."""
    marks = [mark for answer in answers for mark in answer.marks]
    pairs, seqs = sum(1 for _ in _pairs(answers)), {mark["seq"] for mark in marks}
    ends = sum(bool(mark.get("final")) for mark in marks)
    resumed = sum(bool(answer.marks) for answer in answers)
    counts = (pairs, len(marks), len(marks) - len(seqs), resumed, pairs, ends)
    return dict(zip(CHECKS, counts, strict=True))


def _pairs(answers: Answers) -> Iterator[tuple[Json, Json]]:
    return (pair for answer in answers for pair in pairwise(answer.marks))


def _goes_back(one: Json, other: Json) -> bool:
    if other["seq"] <= one["seq"]:
        return bool(other["seq"] < one["seq"])
    one_cut, other_cut = (position_from_wire(each["cut"]) for each in (one, other))
    return bool(other["lower"] <= one["lower"]) or not reaches(other_cut, one_cut)
