"""What tables claim: equal to the model's, and never more than is true."""

from random import Random

import pytest

from noted_time.reading import Commit, Standing, TableHistory, to_commit
from noted_time.values import Claim
from tests.support.table_model import ModelTable, Query, expire, restarted

HISTORIES = 20_000
PARTS = 8


def act(table: ModelTable, queries: list[Query], random: Random, *, expires: bool) -> None:
    """Do one thing that is done to tables."""
    query, chance = random.choice(queries), random.random()
    if chance < 0.45:
        query.plan(random)
        seen = table.history()
        if random.random() < 0.2:  # others commit after the committer has looked
            foreign(table, random)
        table.commit_batch(query, seen)
    elif chance < 0.55:
        restarted(query)
        if query.times:  # Spark runs the last batch again
            table.commit_batch(query, table.history())
    elif chance < 0.85:
        foreign(table, random)
    elif expires:
        expire(table, random)


def foreign(table: ModelTable, random: Random) -> None:
    """Do something in the name of nobody."""
    chance = random.random()
    if chance < 0.4:
        table.commit("append", [("", random.randrange(50), 0)])
    elif chance < 0.7:
        table.commit("none", ())
    elif chance < 0.8:
        kept = sorted(table.rows[table.head])
        table.commit("other", random.sample(kept, random.randrange(len(kept) + 1)))
    elif chance < 0.9 and (chain := table.chain()):
        known = [each.id for each in chain if each.id not in table.expired]
        table.head = random.choice(known)  # rolled back
    else:
        on = random.choice([each for each in (0, *table.commits) if each not in table.expired])
        table.commit("append", [("", 1, 1)], on=on)  # on a branch


@pytest.mark.parametrize("part", range(PARTS))
def test_a_claim_is_the_models_and_true(part: int) -> None:
    """For any interleaving. If commits expire the model knows more, and only the truth counts."""
    for seed in range(part, HISTORIES, PARTS):
        random = Random(seed)
        table, queries = ModelTable(), [Query("a", "q1"), Query("b", "q2")]
        expires = seed % 2 == 0
        for _ in range(12):
            act(table, queries, random, expires=expires)

            standings = table.history().standings()
            for query in queries:
                claimed = standings.get(query.name, Standing()).complete_to
                assert expires or claimed == table.claimed(query), seed
                assert claimed is None or table.is_true(query, claimed), seed


def test_a_query_that_comes_to_an_empty_table_in_its_middle_claims_nothing() -> None:
    """The table was deleted, or is another one: rows of the batches before are not in it."""
    claim = Claim("flights", 50, "time", "q", 7)
    created = Commit(0, None, "none", "CREATE TABLE")

    found = [to_commit(TableHistory(commits), claim) for commits in ((), (created,))]
    assert [each.complete_to for each in found] == [None, None]
    assert found[0].ended.startswith("it was empty before batch 7 of its query")


def test_a_table_that_a_query_has_written_before_it_claims_may_be_claimed() -> None:
    """Claims are added to a query that has run for a while."""
    rows = Commit(0, None, "append", "WRITE")

    claim = to_commit(TableHistory((rows,)), Claim("flights", 50, "time", "q", 7))
    assert claim.complete_to == 50


def test_a_query_takes_a_name_over_once() -> None:
    """It says so for ever, in its program. What ends its claim later ends it all the same."""
    before = Commit(1, None, "append", claims={"flights": Claim("flights", 50, query="old")})
    taken = Claim("flights", 20, query="new", batch=0, starts=True)
    own = Commit(2, None, "append", claims={"flights": taken})
    overwrite = Commit(3, 2, "other", "overwrite")
    history = TableHistory((own, overwrite), (before,))

    claim = Claim("flights", 30, query="new", batch=1)
    found = [to_commit(history, claim, start_over=start_over) for start_over in (True, False)]
    assert [each.complete_to for each in found] == [None, None]
    assert [each.starts for each in found] == [False, False]
