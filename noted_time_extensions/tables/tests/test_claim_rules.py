"""Claims of tables are never too high, and exact if nothing happened to the tables."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from noted_time.values import MIN_INT64, Rejected
from noted_time_extensions.tables import committing, table_history
from noted_time_extensions.tables.claim import EXPECTS_PROPERTY, Claim, Parent, parse_claims
from noted_time_extensions.tables.committing import (
    RememberedBatch,
    build_acceptance,
    prepare_commit,
    withdraw_batch,
)
from noted_time_extensions.tables.table_history import (
    ClaimStatus,
    Commit,
    NoClaim,
    TableClaim,
    TableHistory,
)
from noted_time_extensions.tables.tests.support.table_model import Query, World
from tests.controller.api.test_clock_names import find_clock, list_stored_names

HISTORIES = int(os.environ.get("NOTED_TIME_CLAIMS", "1500"))
"""For each kind of table; 50,000 are deep."""

STEPS = 25
PARTS = 4

CLAIM_FIELDS = {
    "batch": "a number",
    "names": "event times by the name of a claim",
    "seen": "a count",
    "vouched": "counts",
}
"""The integers whose names do not say their clock."""

RARE = (2178, 3250)
"""Seeds of histories that reach a version of the same number, and a gap."""


def find_false_claim(seed: int, *, is_numbered: bool, kind: type[World]) -> str:
    """Play a history, and return the first false claim, or `""`."""
    chance = Random(seed)
    world = kind(chance, is_numbered, [Query("a", chance), Query("b", chance)])
    for step in range(STEPS):
        world.act(is_benign=False)
        history = world.history()
        statuses = history.statuses()
        table = history.claim()
        for query in world.queries:
            status = statuses.get(query.name, ClaimStatus())
            holder = status.claim.query if status.claim is not None else query.id
            times = [status.complete_to]
            if isinstance(table, TableClaim) and query.name in world.names():
                times.append(table.complete_to)
            if any(time is not None and world.lacks(query, holder, time) for time in times):
                return f"{seed}, step {step}: {query.name} claims {times}"
    return ""


class PassingWorld(World):
    """A world whose queries pass over batches, and withdraw most of those without rows."""

    def run(self, query: Query) -> None:
        batch = query.plan()
        number = len(query.checkpoint.planned) - 1
        if self.chance.random() < (0.7 if batch.begin < batch.end else 0.3):
            super().run(query)
            return
        if batch.begin == batch.end and self.chance.random() < 0.9:
            memory = withdraw_batch(query.checkpoint.memory, number)
            query.checkpoint = replace(query.checkpoint, memory=memory)
        if self.chance.random() < 0.9:
            query.checkpoint = replace(query.checkpoint, finished=number + 1)


@pytest.mark.parametrize("kind", [World, PassingWorld])
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("is_numbered", [True, False])
def test_claim_is_never_too_high(kind: type[World], part: int, *, is_numbered: bool) -> None:
    """Tables, checkpoints and their contents are restored, lost, recreated and expire."""
    seeds = (RARE[part % 2], *range(part, HISTORIES, PARTS))
    false_claims = [find_false_claim(seed, is_numbered=is_numbered, kind=kind) for seed in seeds]

    assert [false_claim for false_claim in false_claims if false_claim] == []


@pytest.mark.parametrize(
    ("expects", "states"), [("", "50"), ("a", "50"), ("a,b", None), ("b", None)]
)
def test_commit_states_the_least_time_of_all_names(expects: str, states: str | None) -> None:
    """Iceberg's sink for Kafka Connect writes it. A name without a record has no time."""
    history = TableHistory((), {EXPECTS_PROPERTY: expects})
    properties = committing.format_properties(history, Claim("a", 50, "time", "q", 3))

    assert properties.get("kafka.connect.valid-through-ts") == states


class CalmWorld(World):
    """A world whose only fault is a driver killed before Spark's own commit."""

    def run(self, query: Query) -> None:
        self.run_calmly(query, self.chance.choice([1, 1, 2]))


@pytest.mark.parametrize("is_numbered", [True, False])
def test_claim_is_exact_without_restores(*, is_numbered: bool) -> None:
    """Batches run again, and others append and compact."""
    for seed in range(HISTORIES // 3):
        chance = Random(seed)
        world = CalmWorld(chance, is_numbered, [Query("a", chance)])
        for _ in range(STEPS):
            world.act(is_benign=True)
            checkpoint = world.queries[0].checkpoint
            written_times = [
                batch.complete_to for batch in checkpoint.planned[: checkpoint.finished]
            ]
            complete_to = world.history().statuses().get("a", ClaimStatus()).complete_to
            assert complete_to == next(reversed(written_times), None), seed


def history(*commits: Commit, table: str = "t", **fields: Any) -> TableHistory:  # noqa: ANN401 - fields
    return TableHistory(commits, table=table, is_numbered=True, **fields)


def commit(number: int, *found_claims: Claim, change: Any = "append", **fields: Any) -> Commit:  # noqa: ANN401 - fields
    records = {claim.name: claim for claim in found_claims}
    return Commit(number, number - 1 if number else None, change, claims=records, **fields)


def record(batch: int, complete_to: int | None = None, **fields: Any) -> Claim:  # noqa: ANN401 - fields
    known_fields = {"query": "q", "id": f"r{batch}", "table": "t", "plan": f"p{batch}"}
    return Claim("flights", complete_to, "time", batch=batch, **{**known_fields, **fields})


COUNTS = {"count": 2, "expected": 1, "expected_vouching": 1}
FIRST = commit(0, record(0, table=""))
SECOND = commit(1, record(1, 50, after=0, after_id="r0", seen=0))


def remember(*claims: Claim, run: str = "") -> tuple[RememberedBatch, ...]:
    return tuple(
        RememberedBatch(claim.batch, {claim.part: claim}, {claim.part: run}) for claim in claims
    )


def test_rerun_batch_is_skipped_if_content_is_equal() -> None:
    committed_part = committing.find_committed_part(history(FIRST, SECOND), record(1, 50))

    assert committed_part == SECOND.claims["flights"]


def test_part_written_twice_by_one_run_is_refused() -> None:
    """It would be skipped as one of an earlier run."""
    whole_history = history(FIRST, SECOND)
    claim = record(1, 50)

    with pytest.raises(Rejected, match="give each write a part="):
        committing.find_committed_part(whole_history, claim, remember(claim, run="r"), run="r")
    assert committing.find_committed_part(whole_history, claim, remember(claim, run="r"), run="s")


def test_record_carries_every_name_ever_found() -> None:
    """A name stays known after its records have expired."""
    other = Claim("landings", None, "time", "p", 0, id="o", table="t")
    table = history(FIRST, commit(1, other))
    claim = prepare_commit(table, record(1, 50), remember(record(0)))
    kept_history = history(commit(2, replace(claim, id="n")))

    assert claim.names == {"landings": None}
    assert isinstance(kept_history.claim(), NoClaim)
    assert kept_history.statuses()["landings"].at == 2
    full = history(commit(0, record(0, table="", names={str(n): None for n in range(100)})))
    with pytest.raises(Rejected, match="under 101 names, but a commit can contain only 100"):
        prepare_commit(full, record(1), remember(record(0)))


def test_a_query_starts_over_once() -> None:
    """Its program says so for ever, but what ends its claim later counts."""
    taken_claim = record(0, query="new", starts=True, id="n")
    table = history(FIRST, commit(1, taken_claim), commit(2, change="other"))
    next_claim = record(1, 30, query="new")

    assert prepare_commit(history(FIRST), taken_claim, (), start_over=True).starts
    claim_prepared = prepare_commit(table, next_claim, remember(taken_claim), start_over=True)
    assert (claim_prepared.complete_to, claim_prepared.starts) == (None, False)
    with pytest.raises(Rejected, match="which works once"):
        prepare_commit(table, record(2, 60), remember(record(1)), start_over=True)


@pytest.mark.parametrize(
    ("between", "complete_to"),
    [(commit(3), 50), (commit(3, change="none"), 50), (commit(3, change="other"), None)],
)
def test_acceptance_is_for_inspected_version(between: Commit, complete_to: int | None) -> None:
    """Later changes by others end the claim again."""
    looked_at = history(FIRST, SECOND, commit(2, change="other"))
    (acceptance,) = build_acceptance(looked_at, "Ada", at=2)
    accepted_history = history(*looked_at.commits, between, commit(4, replace(acceptance, id="v")))

    assert accepted_history.statuses()["flights"].complete_to == complete_to


@pytest.mark.parametrize("is_numbered", [True, False])
def test_accepted_claim_is_unknown_after_expiry(*, is_numbered: bool) -> None:
    """The next record of its query claims again. A change since the acceptance still ends it."""
    kept_commit = commit(2, change="other")
    (acceptance,) = build_acceptance(history(FIRST, SECOND, kept_commit), "Ada", at=2)
    accepted_claim = replace(acceptance, id="v")
    change = commit(3, change="other")
    after = record(2, 60, after=3, after_id="v", seen=3)

    def find(*commits: Commit) -> ClaimStatus:
        return TableHistory(commits, table="t", is_numbered=is_numbered).statuses()["flights"]

    unknown = find(kept_commit, commit(3, accepted_claim))
    later_claim = find(kept_commit, commit(3, accepted_claim), commit(4, after))
    assert (unknown.complete_to, unknown.why) == (None, table_history.HISTORY_EXPIRED)
    assert later_claim.complete_to == 60
    assert find(kept_commit, change, commit(4, accepted_claim)).why.endswith("rows changed")


def test_renamed_column_ends_only_its_own_claims() -> None:
    """Its name may be given to another column next."""
    for renaming, complete_to in ((("time", "at"), None), (("name", "carrier"), 50)):
        table = history(FIRST, SECOND, commit(2, change="none", renamed=renaming))
        assert table.statuses()["flights"].complete_to == complete_to


def test_unreadable_record_ends_claim_until_the_next() -> None:
    """A record of an unknown name changes nothing."""
    broken = [Claim(name, None, unreadable="holds no claim") for name in ("flights", "x")]
    table = history(FIRST, SECOND, commit(2, *broken))
    after = commit(3, record(2, 60, after=2 - 1, after_id="r1", seen=2))

    assert table.claim() == NoClaim("flights: holds no claim")
    assert history(*table.commits, after).statuses()["flights"].complete_to == 60


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"vouched": COUNTS | {"count": -5}}, "it counts 1 of 1 expected writers, and -5 writers"),
        ({"vouched": COUNTS | {"expected_vouching": 9}}, "it counts 9 of 1 expected writers"),
        ({"complete_to": 2**63 - 1}, "its time is an end of the range of times"),
        ({"max_time_ahead_ms": 9}, "its time 60 is 50 after its commit, and its stream allows 9ms"),
        ({"max_time_ahead_ms": 50}, ""),
    ],
)
def test_impossible_claim_is_ignored(given: dict[str, Any], why: str) -> None:
    """The next record claims again."""
    claim = replace(record(2, 60, after=1, after_id="r1", seen=1), **given)
    table = history(FIRST, SECOND, commit(2, claim, current_since=10))
    after = commit(3, record(3, 70, after=2, after_id="r2", seen=2))

    assert table.statuses()["flights"].why.startswith(why)
    assert table.statuses()["flights"].complete_to == (None if why else 60)
    assert history(*table.commits, after).statuses()["flights"].complete_to == 70


def test_a_record_without_an_id_claims_nothing() -> None:
    """No later record could say that it comes after it."""
    (claim,) = parse_claims({"noted-time.flights": '{"complete_to":50,"batch":["q",0]}'}).values()

    assert (claim.complete_to, claim.unreadable[:32]) == (None, "noted-time.flights holds no clai")


@pytest.mark.parametrize(
    "given",
    [
        {"complete_to": 2**63},
        {"batch": ["q"]},
        {"cut": {str(segment): 0 for segment in range(1001)}},
        {"vouched": {"count": 2}},
        {"vouched": COUNTS | {"more": 1}},
        {"inherits": [{"table": "t"}]},
    ],
)
def test_record_with_wrong_field_claims_nothing(given: dict[str, Any]) -> None:
    known_fields = {"complete_to": 50, "batch": ["q", 0], "id": "a", "unreadable": "of others"}
    claims = parse_claims(
        {f"noted-time.{i}": known_fields | fields for i, fields in enumerate([{}, given])}
    )
    claims_found = [(claim.complete_to, claim.unreadable[:12]) for claim in claims.values()]

    assert claims_found == [(50, ""), (None, "noted-time.1")]


def test_record_names_its_predecessor() -> None:
    """Its predecessor, the table's version and the other names at the time."""
    other = Claim("landings", 70, "time", "p", 0, id="o", table="t")
    table = history(FIRST, SECOND, commit(2, other), commit(3))
    claim = record(2, 60, table="")

    assert prepare_commit(table, claim, remember(record(1))) == replace(
        claim, table="t", after=1, after_id="r1", names={"landings": 70}, seen=3
    )


@pytest.mark.parametrize(
    ("batch", "memory", "ended"),
    [
        (2, (), "its checkpoint does not show that the batches before batch 2"),
        (0, (), ""),
        (2, remember(record(0), record(1)), ""),
        (2, remember(record(0, id="lost"), record(1)), ""),
        (2, remember(record(1, id="lost"), record(0)), "batch 1 is not in the table"),
        (2, remember(record(1, table="u")), "the table was created again after batch 1"),
        (2, remember(record(2, id="own")), "its checkpoint does not show"),
        (2, remember(record(1), record(2, id="own")), ""),
        (2, remember(record(1), record(2, id="lost", part="x")), "batch 2 is not in the table"),
        (2, remember(record(1, continues=True)), "batch 1 is not wholly in the table"),
        (2, remember(record(1, merges=True)), "batch 1 is not wholly in the table"),
        (3, remember(record(1)), "batch 2 is not in the table: it was neither written nor"),
        (3, (*remember(record(1)), RememberedBatch(2, {}, {}, 2)), ""),
        (4, (*remember(record(1)), RememberedBatch(2, {}, {}, 2)), "batch 3 is not in the table"),
        (2, (RememberedBatch(5, {}, {}, 0),), "its checkpoint does not show"),
    ],
)
def test_record_after_a_lost_batch_claims_nothing(
    batch: int, memory: tuple[RememberedBatch, ...], ended: str
) -> None:
    """The newest earlier batch counts, and the other parts of the same one."""
    claim = prepare_commit(history(FIRST, SECOND), record(batch, 60), memory)

    assert (claim.ended[: len(ended)], bool(claim.ended)) == (ended, bool(ended))
    assert claim.complete_to == (None if ended else 60)


def test_batch_with_an_expired_commit_may_be_lost() -> None:
    claim = prepare_commit(history(SECOND), record(2, 60), remember(record(1, id="gone")))

    assert claim.ended == "batch 1 may not be in the table: its commit has expired or is lost"


def test_part_without_watermark_needs_no_other_parts() -> None:
    """They follow."""
    memory = remember(record(1), record(2, part="x"))

    assert prepare_commit(history(FIRST, SECOND), record(2), memory).ended == ""


def test_acceptance_repeats_the_last_claim() -> None:
    """The acceptance has the last claimed time and the inspected commit."""
    known_fields: dict[str, Any] = {"stream": "s", "domain": "d", "part": "x", "from_time": 5}
    known_fields["max_time_ahead_ms"] = 7
    claimed_commit = commit(1, record(1, 50, after=0, after_id="r0", **known_fields))
    silent = commit(2, record(2, after=1, after_id="r1", **known_fields))
    other = commit(3, Claim("landings", 70, "time", "p", 0, id="o", table="t"))
    table = history(FIRST, claimed_commit, silent, other, commit(4, change="other"), commit(5))

    acceptances = build_acceptance(table, "Ada", ["flights"], at=4)
    assert acceptances == [
        replace(
            record(2, 50, after=4, after_id="o", seen=4, **known_fields),
            id="",
            accepted="Ada",
            names={"landings": None},
        )
    ]
    both = build_acceptance(table, "Ada", at=4)
    assert [acceptance.name for acceptance in both] == ["flights", "landings"]
    assert committing.find_last_record(history(commit(0))) == ""
    for version, why in ((3, "no claim had ended by version 3"), (9, "version 9 does not lead")):
        with pytest.raises(Rejected, match=why):
            build_acceptance(table, "Ada", at=version)


def test_old_checkpoint_error_names_the_snapshot() -> None:
    """It is the snapshot before the batch. The error for Delta has no version."""
    first = FIRST
    second = commit(1, record(1, 50), operation="WRITE")
    snapshots = TableHistory((first, second), table="t")

    with pytest.raises(Rejected) as error:
        committing.find_committed_part(snapshots, record(1, 50, plan="other"))
    assert str(error.value) == (
        "batch 1 of this query is in the table already, with other content: the checkpoint is "
        "older than the table; roll it back to snapshot 0, or take a new checkpoint with "
        "start_over=True"
    )
    other_tables = (snapshots, 0, "and batch 1"), (history(first, second), 1, "with other content")
    for table, batch, phrase in other_tables:
        with pytest.raises(Rejected, match=f"{phrase}: .* than the table; take a new checkpoint"):
            committing.find_committed_part(table, record(batch, plan="other"))


def test_rows_appended_by_others_are_foreign() -> None:
    job = record(1, 50, after=1, after_id="", inherits=(Parent("s", "s", 1, ("a",), 50, ("r",)),))
    own_commits = (commit(0), commit(1))
    tables = history(*own_commits, commit(2, job)), history(*own_commits, commit(2), commit(3, job))

    assert [table.statuses()["flights"].is_foreign for table in tables] == [False, True]


def test_table_claim_is_the_least_of_its_names() -> None:
    """Its version is the first where all names have that time."""
    other = Claim(
        "landings", 30, "time", "p", 0, id="o", table="t", missing_writers=("lima",), from_time=9
    )
    more = replace(other, complete_to=60, batch=1, id="o2", after=2, after_id="o", seen=2)
    checked_claim = replace(SECOND.claims["flights"], missing_writers=(), from_time=MIN_INT64)
    table = history(FIRST, commit(1, checked_claim), commit(2, other), commit(3), commit(4, more))
    claim = table.claim(["flights", "landings"])

    assert isinstance(claim, TableClaim)
    assert (claim.complete_to, claim.version, claim.missing_writers) == (50, 4, ("lima",))
    assert (claim.steps, claim.is_foreign, claim.from_time) == (((2, 30), (4, 50)), True, 9)
    assert [claim.version_at(time) for time in (30, 31, 50, 51)] == [2, 4, 4, None]
    assert set(claim.claims) == {"flights", "landings"}
    assert claim.list_missing() == ["lima"]
    unchecked_claim = history(FIRST, SECOND, commit(2, other)).claim(["flights", "landings"])
    assert isinstance(unchecked_claim, TableClaim)
    assert unchecked_claim.missing_writers is None
    assert table.claim(["x", "y"]) == NoClaim("x: no commit has a claim; y: no commit has a claim")
    assert history(commit(1)).claim() == NoClaim("its claims are in history that has expired")


def test_record_has_no_defaults_for_missing_fields() -> None:
    """No start, domain, or missing writers."""
    claim = Claim.from_json("flights", '{"complete_to": 50, "batch": ["q", 7], "id": "a"}')

    assert (claim.from_time, claim.domain, claim.missing_writers, claim.vouched) == (
        None,
        None,
        None,
        {},
    )


def test_claim_of_older_version_lacks_renamed_facts() -> None:
    """They are not known, so no default stands for them."""
    text = (
        '{"complete_to": 50, "batch": ["q", 7], "id": "a", "since": 5, "is_since_stated": true, '
        '"missing": [], "stream": "flights", "domain": "default"}'
    )
    claim = Claim.from_json("flights", text)
    unknown = (claim.from_time, claim.is_from_time_stated, claim.missing_writers)

    assert (claim.complete_to, claim.stream, unknown) == (50, "flights", (None, False, None))


def test_each_integer_of_a_claim_names_its_clock() -> None:
    fields = {field for _, field in list_stored_names([Claim])}

    assert {field for field in fields if find_clock(field) is None} == set(CLAIM_FIELDS)
