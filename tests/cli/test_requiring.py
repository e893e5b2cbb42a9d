"""`--require`, `--require-all` and `--require-known`: who vouches for what is complete."""

from pathlib import Path

import pytest

from reader_client.protocol.requirements import FORGOTTEN
from tests.cli.conftest import Commands, Console, note
from tests.support.claimed import TEN, Orders
from tests.support.served import Served

SHOPS = ("berlin", "delhi", "lima", "oslo", "rome")


@pytest.fixture
def daily(served: Served) -> str:
    """Return an open stream, of whose shops the first has noted ten."""
    name = served.new()
    note(served, name, berlin=TEN)
    return name


def asking(daily: str, table: str) -> list[tuple[str, ...]]:
    """Return all ways to ask, of the stream and the table."""
    return [
        ("wait", daily, str(TEN)),
        ("complete-to", daily),
        ("wait", "--table", table, str(TEN)),
        ("complete-to", "--table", table),
    ]


@pytest.mark.parametrize("asked", [True, False])
def test_all_cannot_be_required_of_an_open_stream(
    run: Commands, daily: str, tmp_path: Path, *, asked: bool
) -> None:
    """At once, with the remedy; also for tables, whether or not their claims asked."""
    orders = Orders(tmp_path)
    orders.claim(TEN, 0, asked=asked, expected=0, stream=daily)
    done = [run(*words, "--require-all") for words in asking(daily, orders.url)]

    remedy = f"noted-time stream create {daily} --expected-writer"
    assert [(each.status, remedy in each.err) for each in done] == [(3, True)] * 4
    assert [each.out for each in done[1::2]] == ["", ""]


def test_one_shop_of_five_completes_an_open_stream_and_none_that_expects_all(
    run: Console, daily: str
) -> None:
    """The sentence says by whom; once all are expected, a mark has to have each of them."""
    opened = run("wait", daily, str(TEN))
    expected = (word for shop in SHOPS for word in ("--expected-writer", shop))
    run("stream", "create", daily, *expected)
    ask = ("wait", daily, str(TEN), "--require-all", "--timeout", "0s")
    declared = run(*ask)
    run.note(daily, **dict.fromkeys(SHOPS, TEN + 1))
    all_there = run(*ask)

    assert "complete to 2013-01-01T10:00:00Z, by berlin (1 writer, none expected)" in opened.out
    assert declared.status == 3
    assert "no mark has the rows of delhi (joined later), lima (joined later), " in declared.err
    assert (all_there.status, "by 5 writers, all that are expected" in all_there.out) == (0, True)


def test_a_writer_that_joined_later_is_waited_for(run: Console, daily: str) -> None:
    """The mark that passed the time before it joined has none of its rows; the next one has."""
    run.served.post(daily, {"writer": "lima", "time": TEN})
    ask = [("wait", daily, str(TEN), "--timeout", "0s"), ("complete-to", daily)]
    before = [run(*words, "--require", "lima") for words in ask]
    run.note(daily, berlin=TEN + 1, lima=TEN + 1)
    after = [run(*words, "--require", "lima") for words in ask]
    without = run("wait", daily, str(TEN))

    assert [each.status for each in (*before, *after)] == [3, 3, 0, 0]
    assert all("lima (joined later)" in each.err for each in before)
    assert ": mark 2, " in after[0].out
    late = "with late rows of lima (an unknown number)"
    assert f"; lima had not joined, {late}: mark 1" in without.out


@pytest.mark.parametrize("asked", [True, False])
def test_a_writer_that_nobody_knows_ends_every_question_with_3(
    run: Commands, daily: str, tmp_path: Path, *, asked: bool
) -> None:
    """Also that about a table whose claim asked the controller: it does not name who vouched.

    The stream may have forgotten it, after its own retention.
    """
    run("stream", "create", daily, "--writer-retention", "90d")
    orders = Orders(tmp_path)
    orders.claim(TEN, 0, asked=asked, stream=daily)
    done = [run(*words, "--require", "nobody") for words in asking(daily, orders.url)]

    says, also = "nobody (unknown) does not vouch", FORGOTTEN.format(stream=daily, retention="90d")
    assert [(each.status, says in each.err, also in each.err) for each in done] == [
        (3, True, True)
    ] * 4


def test_a_table_has_the_rows_of_a_later_mark_once_it_read_to_that(
    run: Console, daily: str, tmp_path: Path
) -> None:
    """Not because the stream has gone on."""
    orders = Orders(tmp_path)
    orders.claim(TEN, 0, stream=daily)
    run.note(daily, lima=TEN + 1, berlin=TEN + 1)
    run.note(daily, lima=TEN + 2, berlin=TEN + 2)
    ask = ("complete-to", "--table", orders.url, "--floor", "1h", "--require")
    berlin, lima = run(*ask, "berlin"), run(*ask, "lima")

    assert (berlin.status, lima.status) == (0, 3)
    assert f"{daily}: they vouch from 2013-01-01T10:00:00.001Z on" in lima.err


def test_an_idle_writer_vouches_for_nothing_later_and_is_known_all_the_same(run: Console) -> None:
    """It may write rows of any time from its own on, so nobody says that all are there."""
    stream = run.served.new(expected_writers=["delhi", "oslo"])
    run.note(stream, delhi=TEN - 1, oslo=TEN - 1)
    run.served.post(stream, {"writer": "delhi", "state": "idle"})
    run.note(stream, oslo=TEN)
    plain, every, known = (
        run("wait", stream, str(TEN), *words)
        for words in ((), ("--require-all",), ("--require-known",))
    )

    idle = "delhi (idle, vouches to 2013-01-01T09:59:59.999Z)"
    assert f"by 1 of 2 expected writers, not by {idle}: mark" in plain.out
    assert [each.status for each in (plain, every, known)] == [0, 3, 0]
    assert f"{idle} does not vouch" in every.err


def test_a_claim_shows_how_many_vouched(run: Commands, tmp_path: Path) -> None:
    """A record without that says that nobody was asked."""
    orders = Orders(tmp_path)
    orders.claim(TEN, 0, "lima")
    asked = [run("claim", "show", orders.url, *words) for words in ((), ("--json",))]
    orders.claim(TEN, 1, asked=False)
    unasked = run("claim", "show", orders.url)

    assert asked[0].out == (
        f"{orders.url} is complete to 2013-01-01T10:00:00Z, by 1 of 2 expected writers, "
        "without lima: version 0\n"
        "  orders: time below 2013-01-01T10:00:00Z, by 1 of 2 expected writers\n"
    )
    assert asked[1].json["claims"]["orders"]["vouched"] == {
        "count": 1,
        "expected": 2,
        "expected_vouching": 1,
    }
    assert "; missing writers were not asked for" in unasked.out
