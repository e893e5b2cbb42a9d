"""What a table is complete to, for a shell: `complete-to --table`, `wait --table` and `claim`."""

from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from noted_time import tables
from tests.cli.conftest import Commands
from tests.support.claimed import ROWS, TEN, Orders
from tests.support.served import Served


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    """Return a table that is complete to 10:02."""
    found = Orders(tmp_path)
    found.claim(TEN, 0)
    found.claim(TEN + 120_000, 1)
    return found


def test_one_time_is_printed_for_a_shell(run: Commands, orders: Orders) -> None:
    """Rounded down as for a stream."""
    done = run("complete-to", "--table", orders.url, "--floor", "1h")

    assert (done.status, done.out) == (0, "2013-01-01T10:00:00Z\n")


def test_missing_writers_are_named_and_may_end_it(run: Commands, orders: Orders) -> None:
    """As they were at the claim."""
    orders.claim(TEN + 180_000, 2, "stock")
    done = run("complete-to", "--table", orders.url)
    required = run("complete-to", "--table", orders.url, "--require-all")

    assert (done.status, done.out) == (0, "2013-01-01T10:03:00Z\n")
    by = "by 1 of 2 expected writers, without stock"
    assert done.err == f"noted-time: complete to 2013-01-01T10:03:00Z, {by}\n"
    assert (required.status, required.out) == (3, "")


ASK = ("complete-to", "wait")


@pytest.mark.parametrize("command", ASK)
def test_who_is_missing_is_asked_where_the_query_did_not(
    run: Commands, served: Served, tmp_path: Path, command: str
) -> None:
    """By the controller of the URL: one that is required may be missing, unknown, or neither."""
    orders, stream = Orders(tmp_path), f"orders.{command}"
    orders.claim(TEN, 0, asked=False, stream=stream)
    served.create(stream, expected_writers=["lima", "oslo"])
    served.post(stream, {"writer": "lima", "time": TEN - 1}, {"writer": "oslo", "time": TEN})
    run("remove", stream, "lima", "--yes")
    time = (str(TEN),) if command == "wait" else ()
    asked = [
        run(command, *time, "--table", orders.url, *words)
        for words in ((), ("--require", "oslo"), ("--require", "lima"), ("--require-all",))
    ]

    assert [each.status for each in asked] == [0, 0, 3, 3]
    assert all(f"{stream}: lima (excluded, vouches to" in each.err for each in asked[2:])
    assert all("missing writers were not asked for" in each.out + each.err for each in asked)


@pytest.mark.parametrize("command", ASK)
def test_without_a_controller_that_nobody_was_asked_is_an_objection(
    run: Commands, tmp_path: Path, command: str
) -> None:
    """The sentence names the remedies; so it is where the claim names no stream."""
    time = (str(TEN),) if command == "wait" else ()
    orders = Orders(tmp_path)
    orders.claim(TEN, 0, asked=False)
    done = run(command, *time, "--table", orders.url, "--require-all")

    assert done.status == 3
    assert all(remedy in done.err for remedy in ("--url", "controller_url=", 'missing="accept"'))


@pytest.mark.parametrize("command", ASK)
@pytest.mark.parametrize("option", ["--domain", "--since"])
def test_what_a_table_does_not_have_is_refused(
    run: Commands, orders: Orders, command: str, option: str
) -> None:
    """It was ignored; `complete-to` has no --since."""
    time = (str(TEN),) if command == "wait" else ()
    done = run(command, *time, "--table", orders.url, option, "7")

    assert (done.status, done.out) == (2, "")


def test_an_overwritten_table_is_complete_to_nothing(run: Commands, orders: Orders) -> None:
    """The sentence says what ended the claim."""
    orders.overwrite()
    done = [
        run(*words)
        for words in (
            ("complete-to", "--table", orders.url),
            ("wait", "--table", orders.url, str(TEN), "--timeout", "0s"),
            ("claim", "show", orders.url),
        )
    ]

    assert [(each.status, each.out) for each in done] == [(1, "")] * 3
    assert all("orders: ended by WRITE (Overwrite) in version 2" in each.err for each in done)


def test_an_operator_accepts_what_ended_a_claim(run: Commands, orders: Orders) -> None:
    """The last claim holds again, and nothing is left to accept."""
    orders.overwrite()
    looked = run("claim", "accept", orders.url)
    words = ("claim", "accept", orders.url, "--at", "2", "--comment", "backfill, checked: Ada")
    accepted = run(*words)
    shown = run("claim", "show", orders.url, "--json").json
    again = run(*words)

    assert looked.status == 1
    assert looked.out == (
        f"{orders.url}: orders: ended by WRITE (Overwrite) in version 2\n"
        "  2  WRITE (Overwrite)\n"
        f"if the table is right:  noted-time claim accept {orders.url} --at 2 --comment …\n"
    )
    assert accepted.out.endswith("orders is complete to 2013-01-01T10:02:00Z again\n")
    assert shown["claims"]["orders"]["accepted"] == "backfill, checked: Ada"
    assert (again.status, again.out) == (1, "")


@pytest.mark.parametrize("is_expired", [True, False])
def test_a_table_without_a_kept_claim_has_nothing_to_accept(
    run: Commands, tmp_path: Path, *, is_expired: bool
) -> None:
    """Its history has expired, or no commit ever had a claim. `accept` and `why` say what to do."""
    orders = Orders(tmp_path)
    if is_expired:
        orders.claim(TEN, 0)
    for _ in range(2):
        write_deltalake(orders.path, ROWS, mode="append")
    if is_expired:
        DeltaTable(orders.path).create_checkpoint()
        (tmp_path / "orders/_delta_log/00000000000000000000.json").unlink()
    looked, asked = run("claim", "accept", orders.url), run("why", orders.url)

    reason = "its claims are in history that has expired" if is_expired else "no commit has a claim"
    remedy = "let its query claim (NotedTable), or its job (`noted-time claim inherit"
    assert (looked.status, asked.status) == (1, 3)
    assert looked.out == f"{orders.url}: {reason}\nto claim: {remedy} {orders.url} …`)\n"
    assert asked.out.endswith(f"To do: {remedy} {orders.url} …`)\n")


def test_waiting_ends_with_the_first_version_that_is_complete(
    run: Commands, orders: Orders
) -> None:
    """Or with 124, and how far the table is."""
    done = run("wait", "--table", orders.url, str(TEN))
    late = run("wait", "--table", orders.url, str(TEN + 120_001), "--timeout", "0s")

    by = "by 2 of 2 expected writers: version 0"
    assert (done.status, done.out) == (
        0,
        f"{orders.url} is complete to 2013-01-01T10:00:00Z, {by}\n",
    )
    assert late.status == 124
    assert "it is complete to 2013-01-01T10:02:00Z" in late.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("complete-to",), "name a stream, or a table with --table"),
        (("wait", "--table", "delta:orders", "flights", "7"), "give the time alone"),
        (("complete-to", "--table", "orders"), "write delta:LOCATION or iceberg:CATALOG.TABLE"),
        (("complete-to", "--table", "delta:/nowhere"), "there is no Delta table at '/nowhere'"),
        (("complete-to", "--table", "delta:{}", "--name", "web"), "web: no commit has a claim"),
    ],
)
def test_a_question_about_no_table_is_refused(
    run: Commands, orders: Orders, words: tuple[str, ...], said: str
) -> None:
    """It names what is wrong."""
    done = run(*(each.format(orders.path) for each in words))

    assert (done.out, done.status in {1, 2}) == ("", True)
    assert said in " ".join(done.err.replace("│", " ").split())


def inherit(gold: str, *sources: str) -> tuple[str, ...]:
    """Return the command that lets a table inherit from the pinned orders."""
    options = [word for each in sources for word in ("--from", each)]
    return ("claim", "inherit", gold, "--name", "gold", "--time-of", "id", *options)


def test_a_table_of_a_job_inherits_what_its_sources_claimed_before_it(
    run: Commands, orders: Orders, tmp_path: Path
) -> None:
    """Once, and anew after the next job; a source that grows meanwhile does not matter."""
    gold = f"delta:{tmp_path / 'gold'}"
    pins = run("claim", "pin", orders.url)
    orders.claim(TEN + 180_000, 2)
    write_deltalake(tmp_path / "gold", ROWS)
    words = inherit(gold, pins.out.strip())
    first, again = run(*words), run(*words)
    write_deltalake(tmp_path / "gold", ROWS, mode="overwrite")
    ended = run("claim", "show", gold)
    later = run(*words, "--delay", "1m")
    record = run("claim", "show", gold, "--json").json["claims"]["gold"]

    said = f"{gold}: gold is complete to 2013-01-01T10:02:00Z, from version 0 on"
    assert (first.out, again.out) == (f"{said}\n", f"{said} already\n")
    assert (ended.status, "gold: ended by WRITE (Overwrite) in version 2" in ended.err) == (1, True)
    assert later.out == f"{gold}: gold is complete to 2013-01-01T10:01:00Z, from version 2 on\n"
    (parent,) = record["inherits"]
    assert parent == {
        "table": orders.url,
        "id": orders.table,
        "version": 1,
        "names": ["orders"],
        "complete_to": TEN + 120_000,
        "records": ["r1"],
        "vouched": [{"count": 2, "expected": 2, "expected_vouching": 2}],
    }
    assert (record["missing"], record["batch"][0], record["after"]) == ([], "inherit", 2)


def test_a_time_that_is_lower_than_before_is_said(
    run: Commands, orders: Orders, tmp_path: Path
) -> None:
    """And claimed, because the job has written other rows."""
    gold = f"delta:{tmp_path / 'gold'}"
    (pinned,) = run("claim", "pin", orders.url).out.split()
    write_deltalake(tmp_path / "gold", ROWS)
    run(*inherit(gold, pinned))
    done = run(*inherit(gold, pinned), "--delay", "1h")

    assert (done.status, f"{gold} was complete to 2013-01-01T10:02:00Z" in done.err) == (0, True)
    assert run("complete-to", "--table", gold).out == "2013-01-01T09:02:00Z\n"


def test_a_source_without_a_claim_is_refused_by_name_unless_it_is_static(
    run: Commands, orders: Orders, tmp_path: Path
) -> None:
    """So is one that was changed while the job ran; nothing is written."""
    gold, shops = f"delta:{tmp_path / 'gold'}", f"delta:{tmp_path / 'shops'}"
    for name in ("gold", "shops"):
        write_deltalake(tmp_path / name, ROWS)
    pins = run("claim", "pin", orders.url, shops).out.split()
    words = inherit(gold, *pins)
    unclaimed, static = run(*words), run(*words, "--static", shops)
    orders.overwrite()
    changed = run(*words, "--static", shops)

    assert (unclaimed.status, static.status, changed.status) == (1, 0, 1)
    assert f"{shops} has no claim at version 0: no commit has a claim" in unclaimed.err
    assert f"{orders.url} was changed after version 1" in changed.err
    assert len(DeltaTable(tmp_path / "gold").history()) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "delta:orders"), "does not name the version that the job read"),
        (("--from", "{url}@7"), "version 7 is not in the history of {url}"),
        (("--from", "{url}@1-0011223344556677"), "version 1 of {url} is not the pinned one"),
        (("--from", "{url}@1", "--time-of", "day"), "time_of='day' is not a column"),
        (("--from", "{url}@1", "--time-of", "window.start"), "is the start of a window"),
        (("--from", "{url}@1", "--name", "orders"), "'orders' is the name of a query's claim"),
        (("--from", "{url}@1", "--at", "9"), "version 9 does not lead to the present state"),
        (("--from", "{url}@1", "--static", "{url}"), "name a source with a claim"),
    ],
)
def test_nothing_is_inherited_by_mistake(
    run: Commands, orders: Orders, words: tuple[str, ...], said: str
) -> None:
    """The answer names the mistake."""
    given = [each.format(url=orders.url) for each in words]
    done = run("claim", "inherit", orders.url, "--name", "gold", "--time-of", "id", *given)

    assert (done.status, done.out) == (1, "")
    assert said.format(url=orders.url) in done.err


GONE = "rows before 2013-01-01T10:00:00Z may be missing: they were deleted before its query began"
UNKNOWN = "it is not known which rows were deleted before its query began"


def test_rows_that_were_gone_before_the_query_began_are_said(run: Commands, tmp_path: Path) -> None:
    """From when on none is missing, or that this is not known."""
    orders = Orders(tmp_path)
    complete = "complete to 2013-01-01T10:02:00Z, by 2 of 2 expected writers; "
    orders.claim(TEN + 120_000, 0, since=TEN)
    known = [run("complete-to", "--table", orders.url), run("claim", "show", orders.url)]
    orders.claim(TEN + 120_000, 1, since=None)
    unknown = [run("complete-to", "--table", orders.url), run("claim", "show", orders.url)]

    assert [each.status for each in (*known, *unknown)] == [0] * 4
    assert all(f"{complete}{GONE}" in each.out + each.err for each in known)
    assert f"{complete}{UNKNOWN}" in unknown[1].out


def test_a_time_below_which_nothing_is_claimed_is_refused(run: Commands, tmp_path: Path) -> None:
    """Of whatever asks; above it the claim holds."""
    orders = Orders(tmp_path)
    orders.claim(TEN + 120_000, 0, since=TEN)
    ask = ("wait", "--table", orders.url, "--timeout", "0s")
    asked = [run(*ask, str(TEN)), run("complete-to", "--table", orders.url, "--floor", "1h")]
    above = run(*ask, str(TEN + 1))

    says = f"nothing is claimed to 2013-01-01T10:00:00Z: {GONE}"
    assert [(each.status, says in each.err) for each in asked] == [(1, True)] * 2
    assert (above.status, GONE in above.out) == (0, True)


def test_nothing_is_claimed_before_it_is_known_what_is_gone(run: Commands, tmp_path: Path) -> None:
    """That is no end: the next batch that knows claims."""
    orders = Orders(tmp_path)
    orders.claim(None, 0, since=None)
    pending = run("claim", "show", orders.url)
    orders.claim(TEN, 1, since=TEN - 1)
    known = run("claim", "show", orders.url)

    assert (pending.status, UNKNOWN in pending.err, known.status) == (1, True, 0)


def test_all_cannot_be_required_where_it_is_not_known_what_is_gone(
    run: Commands, tmp_path: Path
) -> None:
    """Nobody can say that nobody is missing."""
    orders = Orders(tmp_path)
    orders.claim(TEN, 0, since=None)
    done = run("complete-to", "--table", orders.url, "--require-all")

    assert (done.status, UNKNOWN in done.err) == (3, True)


def test_the_table_of_a_job_is_opened_once(
    orders: Orders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its history, its columns and the record; so is each source."""
    gold, opened = tmp_path / "gold", []
    write_deltalake(gold, ROWS)
    pins = tables.pin(orders.url)

    class Opened(DeltaTable):
        def __init__(self, location: str) -> None:
            opened.append(location)
            super().__init__(location)

    monkeypatch.setattr("deltalake.DeltaTable", Opened)
    done = tables.inherit(f"delta:{gold}", pins, name="gold", time_of="id")

    assert (done.is_repeated, opened) == (False, [str(orders.path), str(gold)])
