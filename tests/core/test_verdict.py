"""Verdicts on domains that no call can make: expired marks and records, and writers that left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from noted_time import Mark, StreamCut
from noted_time.progress import ReadOffsets
from noted_time.reading import LateReports, MarkHistory, MissingWriters
from noted_time.reading.coverage import Spells
from noted_time.values import MIN_INT64, Absence, MissingReason, Spell, WriterStatus
from noted_time.verdict import Completeness, Latecomer, combine
from tests.support.judged import Domain, ask

MARKS = [Mark(seq, 10 * seq, 0, StreamCut({0: seq})) for seq in (1, 2, 3)]

WRITERS: dict[str, tuple[Spells, WriterStatus]] = {
    "always": ((Spell(1),), "returned_later"),
    "new": ((Spell(9),), "returned_later"),
    "excluded": ((Spell(1, 20),), "excluded"),
    "opened": ((Spell(2, 25), Spell(0, 15)), "excluded"),
}


def make_domain(marks: Sequence[Mark] = MARKS, **fields: Any) -> Domain:  # noqa: ANN401 - any field
    """Return a domain with marks at 10, 20 and 30, whose cuts are at 1, 2 and 3."""
    return Domain(MarkHistory(marks), writers=WRITERS, first_lower=10, **fields)


def lose(name: str, reason: MissingReason = "timed_out", known_from: int = MIN_INT64) -> Domain:
    """Return a domain whose marks lack a writer from the second on; `opened` has rows from 15."""
    missing = MissingWriters(known_from)
    missing.take(2, 0, (10, 20), [Absence(name, reason, 7, 10, {}, 10)], ())
    return make_domain(missing=missing)


def list_lacks(completeness: Completeness) -> list[tuple[str, str]]:
    return [(lack.kind, lack.status) for lack in completeness.lacks]


SEALED = make_domain(expected=("always", "never"))
SEALED.history.seal({0: 3})
KNOWN = {"require_known": True}


@pytest.mark.parametrize(
    ("domain", "asked", "lacks"),
    [
        (SEALED, {"require": ("never",)}, [("not_vouching", "incomplete")]),
        (SEALED, {"require": ("new",)}, [("not_vouching", "incomplete")]),
        (make_domain(), {"to": 21, "require": ("excluded",)}, [("not_vouching", "incomplete")]),
        (lose("x"), {"require": ("always",)}, [("missing", "complete")]),
        (lose("x", "narrowed"), KNOWN, [("missing", "incomplete")]),
        (lose("opened"), {"to": 15, **KNOWN}, [("missing", "complete")]),
        (lose("opened"), {"to": 16, **KNOWN}, [("missing", "incomplete")]),
        (lose("opened", known_from=16), {"to": 15, **KNOWN}, [("missing", "incomplete")]),
        (make_domain(late=LateReports((), 30)), {}, [("late", "complete")]),
        (make_domain(late=LateReports((), 30)), {"from_time": 11, **KNOWN}, [("late", "unknown")]),
        (make_domain(missing=MissingWriters(40)), {}, [("ledger_too_short", "complete")]),
        (make_domain(missing=MissingWriters(40)), KNOWN, [("ledger_too_short", "unknown")]),
    ],
)
def test_each_lack_has_a_kind_and_a_status(
    domain: Domain, asked: dict[str, Any], lacks: list[tuple[str, str]]
) -> None:
    completeness = ask(domain, **{"to": 20, **asked})

    assert list_lacks(completeness) == lacks
    assert completeness.is_complete == all(status == "complete" for _, status in lacks)


def test_claim_of_expired_marks_is_unknown() -> None:
    """An earlier mark may be the first one with its time."""
    expired_domain = make_domain(MARKS[2:])
    partly_read = ReadOffsets(at_most=25)

    assert list_lacks(ask(expired_domain, to=20, read=partly_read, require=("always",))) == [
        ("marks_expired", "unknown")
    ]
    assert ask(expired_domain, to=20, read=partly_read).is_complete
    fully_read = ReadOffsets(at_most=30)
    assert ask(expired_domain, to=20, read=fully_read, require=("always",)).is_complete
    assert ask(make_domain(), to=20, read=partly_read, require=("always",)).is_complete


def join(name: str, seq: int, lower: int) -> MissingWriters:
    """Return the missing writers of a domain where one joined after the mark of a lower."""
    missing = MissingWriters()
    absence = Absence(name, "not_joined", 7, None, {}, 5)
    missing.take(seq, 0, (lower, lower + 10), [absence], ())
    return missing


RETURNED = MissingWriters()
RETURNED.take(2, 0, (10, 20), [Absence("UA", "timed_out", 7, 10, {}, 10)], ())
RETURNED.take(3, 0, (20, 30), (), ("UA",))


@pytest.mark.parametrize(
    ("fields", "latecomers", "status"),
    [
        ({}, (), "complete"),
        ({}, ("new",), "unknown"),
        ({"missing": join("new", 2, 10)}, ("new",), "complete"),
        ({"missing": join("new", 3, 20)}, ("new",), "unknown"),
        ({"missing": RETURNED}, (), "unknown"),
        ({"missing": MissingWriters(20)}, (), "unknown"),
        ({"forgotten_seq": 2}, (), "unknown"),
    ],
)
def test_ledger_answers_for_expired_marks(
    fields: dict[str, Any], latecomers: Sequence[str], status: str
) -> None:
    """It shows who was missing at mark 2, and who joined after it.

    Whether a forgotten writer was one of them is not known.
    """
    joined_later = [Latecomer(name, MIN_INT64, MARKS[2].seq) for name in latecomers]
    expired_domain = make_domain(MARKS[2:], latecomers=joined_later, **fields)
    completeness = ask(expired_domain, to=20, read=ReadOffsets(at_most=20), require_known=True)

    assert completeness.status == status
    assert list_lacks(completeness)[:1] == (
        [("marks_expired", "unknown")] if status == "unknown" else []
    )


def test_combination_does_not_know_an_unknown_first_mark() -> None:
    part = ask(make_domain())
    unknown = replace(part, first_lower=None)

    assert combine({"web": part, "till": part}).first_lower == 10
    assert combine({"web": part, "till": unknown}).first_lower is None


def test_combination_has_the_worst_of_its_sources() -> None:
    """Its status is the worst, its time the least, and its lacks name their source."""
    parts = {"web": ask(make_domain()), "till": ask(make_domain(), to=31)}
    combination = combine(parts | {"shop": ask(make_domain(), to=9, read=ReadOffsets({0: 1}))})

    assert (combination.status, combination.complete_to) == ("incomplete", 10)
    assert [(lack.source, lack.kind) for lack in combination.lacks] == [
        ("till", "time_not_reached"),
        ("shop", "before_first_mark"),
    ]
    assert combine({"web": parts["web"]}) is parts["web"]
