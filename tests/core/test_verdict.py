"""Verdicts on domains and their readers: status, time and lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from noted_time import Mark, Rejected, StreamCut
from noted_time.progress import ReadOffsets
from noted_time.reading import LateReports, MarkHistory, MissingWriters, NoClaim, TableClaim
from noted_time.reading.coverage import Spells
from noted_time.values import (
    MIN_INT64,
    Absence,
    Claim,
    ClaimSource,
    LateReport,
    MissingReason,
    Spell,
    WriterStatus,
)
from noted_time.verdict import (
    Completeness,
    Lack,
    Requirement,
    apply_policy,
    combine,
    find_unanswered,
    judge,
    judge_claim,
    judge_no_claim,
)
from tests.support.judged import Domain, ask

MARKS = [Mark(seq, 10 * seq, 0, StreamCut({0: seq})) for seq in (1, 2, 3)]

WRITERS: dict[str, tuple[Spells, WriterStatus]] = {
    "always": ((Spell(1),), "live"),
    "second": ((Spell(2),), "live"),
    "new": ((Spell(9),), "live"),
    "idle": ((Spell(1, 20),), "idle"),
    "excluded": ((Spell(1, 20),), "excluded"),
    "opened": ((Spell(2, 25), Spell(0, 15)), "excluded"),
}


def make_domain(marks: Sequence[Mark] = MARKS, **fields: Any) -> Domain:  # noqa: ANN401 - any field
    """Return a domain with marks at 10, 20 and 30, whose cuts are at 1, 2 and 3."""
    history = MarkHistory(marks)
    first_lower = 10 if marks else None
    return Domain(history, writers=WRITERS, first_lower=first_lower, **fields)


def lose(name: str, reason: MissingReason = "timed_out", known_from: int = MIN_INT64) -> Domain:
    """Return a domain whose marks lack a writer from the second on; `opened` has rows from 15."""
    missing = MissingWriters(known_from)
    missing.take(2, 0, (10, 20), [Absence(name, reason, 7, 10, {}, 10)], ())
    return make_domain(missing=missing)


def list_lacks(found: Completeness) -> list[tuple[str, str]]:
    return [(each.kind, each.status) for each in found.lacks]


LATE = LateReports([LateReport("till", 3, 12, 13, 7, 7)])
EXPECTS = make_domain(expected=("always", "never"))
SEALED = make_domain(expected=("always", "never"))
SEALED.history.seal({0: 3})
TIMES = make_domain([replace(each, cut=StreamCut({})) for each in MARKS])


@pytest.mark.parametrize(
    ("domain", "asked", "lacks"),
    [
        (make_domain(()), {"to": 10}, [("no_mark", "waiting")]),
        (make_domain(), {"to": 31}, [("time_not_reached", "waiting")]),
        (
            make_domain(),
            {"to": 31, "require_all": True},
            [("time_not_reached", "waiting"), ("open_stream", "incomplete")],
        ),
        (make_domain(), {"to": 9}, [("before_first_mark", "incomplete")]),
        (make_domain(), {"floor_ms": 40}, [("before_first_mark", "waiting")]),
        (make_domain(), {"to": 20, "require": ("new",)}, [("not_vouching", "waiting")]),
        (EXPECTS, {"to": 20, "require_all": True}, [("not_vouching", "waiting")]),
        (EXPECTS, {"to": 20, "require": ("never",)}, [("not_vouching", "waiting")]),
        (SEALED, {"to": 20, "require": ("never",)}, [("not_vouching", "incomplete")]),
        (SEALED, {"to": 20, "require": ("new",)}, [("not_vouching", "incomplete")]),
        (make_domain(), {"to": 21, "require": ("idle",)}, [("not_vouching", "incomplete")]),
        (make_domain(), {"to": 21, "require": ("excluded",)}, [("not_vouching", "incomplete")]),
        (make_domain(), {"to": 20, "require": ("none",)}, [("unknown_writer", "incomplete")]),
        (make_domain(), {"to": 20, "require_all": True}, [("open_stream", "incomplete")]),
        (lose("x"), {"to": 20, "require_known": True}, [("missing", "incomplete")]),
        (lose("x", "narrowed"), {"to": 20, "require_known": True}, [("missing", "incomplete")]),
        (lose("opened"), {"to": 15, "require_known": True}, [("missing", "complete")]),
        (lose("opened"), {"to": 16, "require_known": True}, [("missing", "incomplete")]),
        (
            lose("opened", known_from=16),
            {"to": 15, "require_known": True},
            [("missing", "incomplete")],
        ),
        (lose("x"), {"to": 20, "require": ("always",)}, [("missing", "complete")]),
        (lose("x"), {"to": 20}, [("missing", "complete")]),
        (make_domain(late=LATE), {"to": 20, "since": 11}, [("late", "complete")]),
        (make_domain(late=LATE), {"to": 20, "since": 14, "require_known": True}, []),
        (
            make_domain(late=LATE),
            {"to": 20, "since": 11, "require_known": True},
            [("late", "incomplete")],
        ),
        (make_domain(late=LateReports((), 30)), {"to": 20}, [("late", "complete")]),
        (
            make_domain(late=LateReports((), 30)),
            {"to": 20, "since": 11, "require_known": True},
            [("late", "unknown")],
        ),
        (
            make_domain(missing=MissingWriters(40)),
            {"to": 20, "require_known": True},
            [("ledger_too_short", "unknown")],
        ),
        (make_domain(missing=MissingWriters(40)), {"to": 20}, [("ledger_too_short", "complete")]),
        (TIMES, {"to": 20, "read": ReadOffsets({0: 9})}, [("times_only", "incomplete")]),
        (make_domain(), {"to": 20, "read": ReadOffsets({0: 1})}, [("not_read", "waiting")]),
        (
            make_domain(),
            {"to": 20, "read": ReadOffsets({0: 2}, at_most=19)},
            [("not_read", "waiting")],
        ),
        (
            make_domain(),
            {"to": 20, "read": ReadOffsets({1: 2})},
            [("unknown_partition", "waiting"), ("not_read", "waiting")],
        ),
    ],
)
def test_each_lack_has_a_kind_and_a_status(
    domain: Domain, asked: dict[str, Any], lacks: list[tuple[str, str]]
) -> None:
    found = ask(domain, **asked)

    assert list_lacks(found) == lacks
    assert found.is_complete == all(status == "complete" for _, status in lacks)


@pytest.mark.parametrize(
    ("asked", "complete_to", "seq"),
    [
        ({"to": 20}, 30, 2),
        ({}, 30, 3),
        ({"floor_ms": 8}, 24, 3),
        ({"to": 10, "require": ("second",)}, 30, 2),
        ({"require": ("idle",)}, 20, None),
        ({"read": ReadOffsets({0: 2})}, 20, 2),
        ({"read": ReadOffsets({0: 2}, at_most=15)}, 15, 2),
        ({"read": ReadOffsets(at_most=15)}, 15, 2),
        ({"read": ReadOffsets(at_most=99)}, 30, 3),
    ],
)
def test_the_first_mark_answers_for_the_greatest_time(
    asked: dict[str, Any], complete_to: int, seq: int | None
) -> None:
    found = ask(make_domain(), **asked)

    assert (found.complete_to, found.mark and found.mark.seq) == (complete_to, seq)


@pytest.mark.parametrize("marks", [(), MARKS])
def test_time_without_mark_names_longest_holder(marks: Sequence[Mark]) -> None:
    (lack,) = ask(make_domain(marks), to=31).lacks

    assert (lack.writer, lack.domain, lack.since) == ("always", "default", 5)


def test_ended_greatest_time_is_incomplete() -> None:
    found = ask(make_domain(), require=("idle",))

    assert (found.status, found.complete_to) == ("incomplete", 20)


def test_missing_writer_is_not_required_before_its_time() -> None:
    found = ask(lose("opened"), require_known=True)

    assert (found.status, found.complete_to) == ("incomplete", 15)


def test_waiting_verdict_has_the_previous_greatest_time() -> None:
    found = ask(make_domain(), require=("always",), read=ReadOffsets({0: 1}))

    assert (found.status, found.complete_to) == ("complete", 10)


def test_claim_of_expired_marks_is_unknown() -> None:
    """An earlier mark may be the first one with its time."""
    expired = make_domain(MARKS[2:])
    read = ReadOffsets(at_most=25)

    assert list_lacks(ask(expired, to=20, read=read, require=("always",))) == [
        ("marks_expired", "unknown")
    ]
    assert ask(expired, to=20, read=read).is_complete
    whole = ReadOffsets(at_most=30)
    assert ask(expired, to=20, read=whole, require=("always",)).is_complete
    assert ask(make_domain(), to=20, read=read, require=("always",)).is_complete


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (Requirement(require_all=True, require_known=True), "includes `require_known`"),
        (Requirement(to=5, since=5), "`since` 5 is not before `to` 5"),
        (Requirement(wait_ms=5), "`wait_ms` has no effect without `to`"),
        (Requirement(read=ReadOffsets({}, log="log-2")), "its positions are of log log-1"),
        (Requirement(read=ReadOffsets({}, domain="ship")), "is of the domain 'ship': name it"),
    ],
)
def test_questions_without_an_answer_are_refused(asked: Requirement, says: str) -> None:
    with pytest.raises(Rejected, match=says):
        judge(make_domain(), asked)


def test_a_sentence_has_the_remarks_and_then_the_lacks() -> None:
    read = ReadOffsets({0: 3}, "group 'g'", remarks=("it is compacted",))
    found = ask(lose("x"), to=20, read=read, require=("none",))

    assert found.sentence == (
        "orders is complete to 20, read by group 'g', by always (1 writer, none expected), "
        "without x: timed out 0s ago; it is compacted; "
        "none (unknown) does not vouch: correct none"
    )


@pytest.mark.parametrize(
    ("missing", "late", "status"),
    [
        ("fail", "fail", "incomplete"),
        ("wait", "accept", "waiting"),
        ("warn", "fail", "incomplete"),
        ("accept", "warn", "complete"),
    ],
)
def test_policy_decides_on_missing_and_late(missing: str, late: str, status: str) -> None:
    domain = make_domain(missing=lose("x").missing, late=LATE)
    found = ask(domain, to=20, since=11, require_known=True)

    assert apply_policy(found, missing, late).status == status


def test_policy_does_not_pass_unvouched_times() -> None:
    found = apply_policy(ask(make_domain(), to=9), "accept", "accept")

    assert list_lacks(found) == [("before_first_mark", "incomplete")]


def test_combination_has_the_worst_of_its_sources() -> None:
    """Its status is the worst, its time the least, and its lacks name their source."""
    parts = {"web": ask(make_domain()), "till": ask(make_domain(), to=31)}
    found = combine(parts | {"shop": ask(make_domain(), to=9, read=ReadOffsets({0: 1}))})

    assert (found.status, found.complete_to) == ("incomplete", 10)
    assert [(each.source, each.kind) for each in found.lacks] == [
        ("till", "time_not_reached"),
        ("shop", "before_first_mark"),
    ]
    assert combine({"web": parts["web"]}) is parts["web"]


def claim(**fields: Any) -> TableClaim:  # noqa: ANN401 - fields of a claim
    """Return a table's claim up to 30 that lacks nothing, but for changed fields."""
    known = {"stream": "web", "domain": "default", "since": MIN_INT64, "first_lower": 10}
    known |= {"vouched": {"count": 2, "expected": 2, "expected_vouching": 2}, "missing": ()}
    of_one = Claim("t", 30, **{**known, **fields})
    return TableClaim(30, 4, {"t": of_one}, missing=of_one.missing, steps=((3, 20), (4, 30)))


SOURCE = ClaimSource("web", "default", 0)
EVERYONE = Requirement(require_all=True)
KNOWN = Requirement(require_known=True)


@pytest.mark.parametrize(
    ("asked", "time", "fields", "lacks"),
    [
        (EVERYONE, 20, {}, []),
        (Requirement(), 31, {}, [("not_claimed", "waiting")]),
        (Requirement(), 9, {}, [("before_first_mark", "incomplete")]),
        (Requirement(), 20, {"since": 25}, [("rows_deleted", "incomplete")]),
        (Requirement(), 20, {"missing": ("x",)}, [("missing", "complete")]),
        (KNOWN, 20, {"missing": ("x",)}, [("missing", "incomplete")]),
        (KNOWN, 20, {"since": None}, [("since_unknown", "unknown")]),
        (Requirement(), 20, {"since": None}, []),
        (
            EVERYONE,
            20,
            {"vouched": {"count": 1, "expected": 0, "expected_vouching": 0}},
            [("open_stream", "incomplete")],
        ),
        (
            EVERYONE,
            20,
            {"vouched": {"count": 1, "expected": 2, "expected_vouching": 1}},
            [("not_vouching", "incomplete")],
        ),
    ],
)
def test_claim_lacks_its_missing_fields(
    asked: Requirement, time: int, fields: dict[str, Any], lacks: list[tuple[str, str]]
) -> None:
    found = judge_claim("t", claim(**fields), time, asked, {})

    assert list_lacks(found) == lacks


def test_claim_without_required_writers_is_unknown() -> None:
    found = judge_claim("t", claim(), 20, Requirement(require=("x",)), None)

    assert list_lacks(found) == [("not_asked", "unknown")]


def test_claim_is_joined_with_answers_of_its_stream() -> None:
    """It has the least time, and the first version with that time."""
    asked = Requirement(require=("idle",))
    found = judge_claim("t", claim(), 20, asked, {SOURCE: ask(make_domain(), require=("idle",))})

    assert find_unanswered(claim(), asked) == [SOURCE]
    assert (found.status, found.complete_to, found.version) == ("incomplete", 20, 3)
    assert [(each.source, each.writer) for each in found.lacks] == [("web", "idle")]


def test_unreachable_source_is_a_lack() -> None:
    lack = Lack(kind="not_asked", status="unknown", sentence="no domain")
    found = judge_claim("t", claim(), 20, Requirement(require=("x",)), {SOURCE: lack})

    assert found.lacks == (lack,)


@pytest.mark.parametrize(
    ("kind", "status"), [("not_claimed", "waiting"), ("claim_ended", "incomplete")]
)
def test_a_table_without_a_claim_waits_unless_it_ended(kind: Any, status: str) -> None:  # noqa: ANN401
    found = judge_no_claim("t", NoClaim("no claim", kind))

    assert (list_lacks(found), found.sentence) == (
        [(kind, status)],
        "nothing is claimed of t: no claim",
    )


def test_a_table_with_several_claims_is_refused() -> None:
    with pytest.raises(Rejected, match="nothing is claimed of t: two claims"):
        judge_no_claim("t", NoClaim("two claims", "ambiguous"))
