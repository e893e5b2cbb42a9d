"""What the sensor decides, without Airflow: against a real controller and a real table."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock
from uuid import uuid4

import httpx
import pytest

from noted_time import Rejected
from noted_time.client import Json
from noted_time.client.transport import Transport
from noted_time.reading.claims import BEFORE_FIRST_MARK
from noted_time.values import UnexpectedAnswer, format_time
from noted_time_airflow import watching
from noted_time_airflow.waiting import Everyone, Verdict, Wanted, WhileMissing, look_at_stream
from noted_time_airflow.watching import CHECK_FAILURES, Address, judge_error, poll_once, watch
from reader_client.protocol.requirements import FORGOTTEN
from tests.support.calls import HOUR_MS
from tests.support.claimed import TEN, Orders
from tests.support.controllers import until
from tests.support.gates import Guarded
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S, wait_until

NINE = TEN - HOUR_MS
COMPLETE = "{} is complete to 2013-01-01T10:00:00Z, "
BY_BOTH = COMPLETE + "by 2 writers, all that are expected"
AWAY = "lima (excluded, vouches to 2013-01-01T09:00:00Z)"
WITHOUT = f"{COMPLETE}by 1 of 2 expected writers, not by {AWAY}, without lima (timed_out)"


class Shop(NamedTuple):
    """A stream that expects two writers, Oslo and Lima."""

    served: Served
    name: str

    def note(self, writer: str, time: int | None = None, **fields: Any) -> None:  # noqa: ANN401 - any of a note
        """Note as a writer."""
        self.served.post(self.name, {"writer": writer, "time": time, **fields})

    def pass_lima(self) -> None:
        """Let the watermark go on to ten without Lima, who is silent for its timeout."""
        self.note("oslo", TEN)
        self.served.create(self.name, writer_timeout_ms=100)
        wait_until(lambda: self.served.lower(self.name) == TEN)
        self.served.create(self.name, writer_timeout_ms=HOUR_MS)

    def look(self, complete_to: int = TEN, **wanted: Any) -> Verdict:  # noqa: ANN401 - any of it
        """Look once."""
        return looked(self.wanted(complete_to, **wanted), (self.served.url, None))

    def wanted(self, complete_to: int = TEN, **wanted: Any) -> Wanted:  # noqa: ANN401 - any of it
        """Return what a sensor of the stream awaits."""
        return Wanted(complete_to, self.name, **wanted)


def looked(wanted: Wanted, address: Address | None = None) -> Verdict:
    """Look once, as the sensor does."""
    try:
        return poll_once(wanted, address)
    except CHECK_FAILURES as error:
        return judge_error(error)


@pytest.fixture
def shop(served: Served) -> Shop:
    """Return a stream that is complete to nine, of a name of its own."""
    shop = Shop(served, uuid4().hex)
    served.make(shop.name, expected_writers=["oslo", "lima"])
    shop.note("oslo", NINE)
    shop.note("lima", NINE, position={"0": 7})
    shop.note("oslo", NINE, position={"1": 5})
    return shop


def test_a_stream_that_is_not_complete_is_waited_for(shop: Shop) -> None:
    """By a question that waits at the controller, and the sentence says how far it is."""
    says = "time 2013-01-01T10:00:00Z is not complete yet: the lower is 2013-01-01T09:00:00Z"

    assert shop.look() == Verdict("waiting", f"{shop.name}: {says}")


def test_a_complete_stream_says_where_to_read_to(shop: Shop) -> None:
    """By the cut of the first mark that is complete to the time."""
    shop.note("oslo", TEN, position={"1": 8})
    shop.note("lima", TEN, position={"0": 9})

    found = {"complete_to": TEN, "seq": 2, "cut": {"0": 9, "1": 8}}
    assert shop.look() == Verdict("complete", BY_BOTH.format(shop.name), found=found)


def test_an_answer_that_is_not_complete_to_the_time_is_none(shop: Shop) -> None:
    """As of a proxy that answers an earlier question: the sensor asks again, and says why."""
    earlier, look = look_at_stream(shop.wanted(NINE)), look_at_stream(shop.wanted(TEN))
    next(look)
    with closing(Transport(shop.served.url)) as transport:
        answer = transport.ask(next(earlier))

    with pytest.raises(UnexpectedAnswer, match="is a mark of 2013-01-01T09:00:00Z, before it"):
        look.send(answer)


def test_a_sealed_stream_is_complete_to_any_time(shop: Shop) -> None:
    """Its last mark is the answer, though that is of an earlier one."""
    shop.served.call("POST", f"/{shop.name}/seal", {})

    assert shop.look(TEN, missing="warn").status == "complete"


@pytest.mark.parametrize(
    ("missing", "status", "also"),
    [
        ("fail", "failed", f"; {AWAY} does not vouch"),
        ("warn", "complete", f"; {AWAY} does not vouch"),
        ("wait", "waiting", f"; {AWAY} does not vouch"),
        ("accept", "complete", ""),
    ],
)
def test_a_missing_writer_counts_as_the_sensor_says(
    shop: Shop, missing: WhileMissing, status: str, also: str
) -> None:
    """It is named in each case."""
    shop.pass_lima()
    found = shop.look(missing=missing)

    assert (found.status, found.is_warning, found.sentence) == (
        status,
        missing == "warn",
        WITHOUT.format(shop.name) + also,
    )


@pytest.mark.parametrize(
    ("require", "status", "also"),
    [
        (("oslo",), "complete", ""),
        (("oslo", "lima"), "failed", f"; {AWAY} does not vouch"),
        (("rome",), "failed", f"; rome (unknown) does not vouch; {FORGOTTEN}"),
    ],
)
def test_some_writers_may_be_required(
    shop: Shop, require: tuple[str, ...], status: str, also: str
) -> None:
    """Others are only named; one that nobody knows is not there either."""
    shop.pass_lima()
    found = shop.look(require=require)

    also = also.format(stream=shop.name, retention="1d")
    assert (found.status, found.sentence) == (status, WITHOUT.format(shop.name) + also)


def back(shop: Shop, how: str) -> None:
    """Bring Lima back, or end the wait for it."""
    if how == "removed":
        shop.served.call("DELETE", f"/{shop.name}/writers/lima")
    elif how == "noted":
        shop.note("lima", TEN + 1)
    else:
        shop.note("lima", state=how)


@pytest.mark.parametrize(
    "required", [{}, {"require": ["lima"]}, {"require": "known"}], ids=["all", "lima", "known"]
)
@pytest.mark.parametrize("how", ["noted", "idle", "finished", "removed"])
def test_waiting_ends_with_a_mark_that_has_the_writer(shop: Shop, how: str, required: Json) -> None:
    """One that is idle, or was removed, vouches for nothing more, but is missing no longer."""
    shop.pass_lima()
    shop.note("lima", TEN - 1)
    before = shop.look(missing="wait", **required)
    back(shop, how)
    for time in (TEN + 1, TEN + 2):  # one that was removed is missing at the mark that names it
        shop.note("oslo", time)
    after = shop.look(missing="wait", **required)

    vouches = how in {"noted", "finished"} or required.get("require") == "known"
    assert (before.status, after.status) == ("waiting", "complete" if vouches else "waiting")


def test_a_writer_that_is_unknown_is_waited_for(shop: Shop) -> None:
    """Until it has come, and a mark counts it: also if the sensor fails without a writer."""
    shop.pass_lima()
    seen = [shop.look(missing="wait", require=("rome",)).status]
    for time in (NINE, TEN + 1):
        shop.note("rome", time)
        seen.append(shop.look(require=("rome",)).status)
    shop.note("oslo", TEN + 1)
    seen.append(shop.look(require=("rome",)).status)

    assert seen == ["waiting", "waiting", "waiting", "complete"]


@pytest.mark.parametrize(
    ("missing", "require", "status"),
    [
        ("fail", "all", "failed"),
        ("wait", "all", "failed"),
        ("warn", "all", "complete"),
        ("accept", "all", "complete"),
        ("fail", "known", "complete"),
    ],
)
def test_nobody_knows_who_should_be_there_in_an_open_stream(
    served: Served, missing: WhileMissing, require: Everyone, status: str
) -> None:
    """So requiring all fails at once, with the remedy: the first of five shops alone completes."""
    shop = Shop(served, uuid4().hex)
    served.make(shop.name)
    shop.note("oslo", TEN)
    found = shop.look(missing=missing, require=require)

    is_objected = require == "all" and missing != "accept"
    remedy = f"noted-time stream set {shop.name} --expected-writer"
    assert (found.status, remedy in found.sentence) == (status, is_objected)
    assert found.is_warning == (missing == "warn")


def test_nobody_ever_vouches_for_a_time_before_the_first_mark(shop: Shop) -> None:
    """So waiting for it is no use."""
    found = shop.look(NINE - 1, missing="wait")

    assert (found.status, found.sentence.rpartition("; ")[2]) == (
        "failed",
        BEFORE_FIRST_MARK.format(format_time(NINE)),
    )


def test_another_domain_is_judged_by_its_own_times(served: Served) -> None:
    """A mark of the other has the writer that is back, which says nothing of this one."""
    shop = Shop(served, uuid4().hex)
    served.make(shop.name, domains=["ordered", "shipped"], expected_writers=["oslo", "lima"])
    for writer in ("oslo", "lima"):
        shop.note(writer, NINE, domain="shipped")
        shop.note(writer, NINE, domain="ordered")
    shop.note("oslo", TEN, domain="shipped")
    shop.note("oslo", TEN, domain="ordered")
    served.create(shop.name, writer_timeout_ms=100)
    wait_until(lambda: served.lower(shop.name, "shipped") == TEN)
    served.create(shop.name, writer_timeout_ms=HOUR_MS)
    seen = []
    for domain in ("ordered", "shipped"):
        for writer in ("lima", "oslo"):
            shop.note(writer, TEN + 1, domain=domain)
        seen.append(shop.look(domain="shipped", missing="wait").status)

    assert seen == ["waiting", "complete"]


# Tables


def test_a_table_is_waited_for_by_its_claims(tmp_path: Path) -> None:
    """And says which version to read."""
    orders = Orders(tmp_path)
    wanted = Wanted(TEN, table=orders.url)
    seen = []
    for batch, time in enumerate((NINE, TEN, TEN + 1)):
        orders.claim(time, batch)
        seen.append(looked(wanted))

    so_far = f"{orders.url} is complete to 2013-01-01T09:00:00Z, not yet to 2013-01-01T10:00:00Z"
    says = f"{orders.url} is complete to 2013-01-01T10:00:00Z, by 2 of 2 expected writers"
    found = Verdict("complete", says, found={"complete_to": TEN, "version": 1})
    assert seen == [Verdict("waiting", so_far), found, found]


@pytest.mark.parametrize(
    ("missing", "statuses"),
    [
        ("fail", ["failed", "failed"]),
        ("warn", ["complete", "complete"]),
        ("wait", ["waiting", "complete"]),
    ],
)
def test_a_table_without_a_writer_counts_as_the_sensor_says(
    tmp_path: Path, missing: WhileMissing, statuses: list[str]
) -> None:
    """At the first version that is complete; a later claim may have the writer again."""
    orders = Orders(tmp_path)
    wanted = Wanted(TEN, table=orders.url, missing=missing)
    orders.claim(TEN, 0, "lima")
    seen = [looked(wanted)]
    orders.claim(TEN + 1, 1)
    seen.append(looked(wanted))

    assert [each.status for each in seen] == statuses
    assert all("by 1 of 2 expected writers, without lima" in e.sentence for e in seen)


@pytest.mark.parametrize(
    ("claimed", "why"),
    [
        ({"since": TEN}, "10:00:00Z: rows before 2013-01-01T10:00:00Z may be"),
        ({"first": TEN + 1}, "from the first mark on: ask for 2013-01-01T10:00:00.001Z"),
    ],
)
def test_a_time_below_which_nothing_is_claimed_fails_the_wait(
    tmp_path: Path, claimed: dict[str, Any], why: str
) -> None:
    """More of the table does not bring back what was deleted before its query began."""
    orders = Orders(tmp_path)
    orders.claim(TEN + 1, 0, "lima", **claimed)

    with pytest.raises(Rejected, match=why):
        poll_once(Wanted(TEN, table=orders.url, missing="wait"), None)


NOT = "who vouches is not known, as no controller was asked"


@pytest.mark.parametrize("missing", ["fail", "wait", "warn", "accept"])
def test_that_nobody_was_asked_who_vouches_counts(tmp_path: Path, missing: WhileMissing) -> None:
    """Without a controller it is an objection, and not the answer that nobody is."""
    orders = Orders(tmp_path)
    orders.claim(TEN, 0, asked=False, stream="orders")
    found = looked(Wanted(TEN, table=orders.url, missing=missing))
    free = looked(Wanted(TEN, table=orders.url, require=[]))

    status = "complete" if missing in {"warn", "accept"} else "failed"
    assert (found.status, NOT in found.sentence) == (status, missing != "accept")
    assert found.is_warning == (missing == "warn")
    assert (free.status, free.is_warning) == ("complete", False)


@pytest.mark.parametrize(
    ("missing", "statuses"),
    [
        ("fail", ["failed"] * 3),
        ("warn", ["complete"] * 3),
        ("accept", ["complete"] * 3),
        ("wait", ["waiting", "waiting", "complete"]),
    ],
)
def test_the_controller_is_asked_where_the_query_did_not(
    shop: Shop, tmp_path: Path, missing: WhileMissing, statuses: list[str]
) -> None:
    """About the stream of the claim; a later mark has Lima, so a version that read to it, too."""
    orders = Orders(tmp_path)
    orders.claim(TEN, 0, asked=False, stream=shop.name)
    shop.pass_lima()
    wanted, where = Wanted(TEN, table=orders.url, missing=missing), (shop.served.url, None)
    seen = [looked(wanted, where)]
    for writer in ("lima", "oslo"):
        shop.note(writer, TEN + 1)
    seen.append(looked(wanted, where))
    orders.claim(TEN + 1, 1, asked=False, stream=shop.name)
    seen.append(looked(wanted, where))

    assert [each.status for each in seen] == statuses
    assert f"; {shop.name} was asked: by 1 of 2" in seen[0].sentence or missing == "accept"
    versions = [each.found["version"] for each in seen if each.found]
    assert versions == {"fail": [], "wait": [1]}.get(missing, [0, 0, 0])


def test_an_ended_claim_is_waited_for(tmp_path: Path) -> None:
    """An operator may accept it; the sentence says what ended it."""
    orders = Orders(tmp_path)
    orders.claim(TEN, 0)
    orders.overwrite()
    found = looked(Wanted(TEN, table=orders.url))

    assert (found.status, "ended by WRITE (Overwrite)" in found.sentence) == ("waiting", True)


# Looking again


async def watched(shop: Shop, log: list[str], timeout_s: float = PATIENCE_S) -> Verdict:
    """Wait for a stream as the trigger does, and keep what it logs."""
    address = (shop.served.url, None)
    return await watch(shop.wanted(), address, timeout_s=timeout_s, log=log.append)


async def test_a_controller_that_is_away_is_asked_again(shop: Shop) -> None:
    """Until it is back, and its absence is logged once."""
    log: list[str] = []
    shop.served.stop()
    waiting = asyncio.create_task(watched(shop, log))
    await until(lambda: bool(log))
    await asyncio.to_thread(shop.served.start)
    await asyncio.to_thread(lambda: [shop.note(name, TEN) for name in ("oslo", "lima")])
    found = await waiting

    assert (found.status, "no answer from" in log[0]) == ("complete", True)


async def test_time_up_says_why_it_waited(shop: Shop) -> None:
    """The last reason there was."""
    found = await watched(shop, [], timeout_s=0)

    says = "time 2013-01-01T10:00:00Z is not complete yet: the lower is 2013-01-01T09:00:00Z"
    assert found == Verdict("timed out", f"time is up: {shop.name}: {says}")


async def test_a_refused_token_ends_it_at_once() -> None:
    """With the remedy; a token in the connection is shown."""
    guarded = Guarded()
    with Served(gate=guarded.gate) as controller:
        controller.token = token = guarded.token("admin")
        controller.create("orders", expected_writers=["w"])
        controller.note("orders", TEN, {})
        found = []
        for shown in ("", token):
            wanted, address = Wanted(TEN, "orders"), (controller.url, shown)
            found.append(await watch(wanted, address, timeout_s=PATIENCE_S, log=print))

    assert [each.status for each in found] == ["failed", "complete"]
    assert found[0].sentence.startswith("401 ")


async def test_a_library_that_is_missing_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    says = 'reading delta:t needs deltalake: pip install "noted-time[delta]"'
    monkeypatch.setattr(watching, "poll_once", Mock(side_effect=ImportError(says)))
    found = await watch(Wanted(TEN, table="delta:t"), None, timeout_s=PATIENCE_S, log=print)

    assert found == Verdict("failed", says)


async def test_sensors_of_one_hour_leave_no_connection(shop: Shop) -> None:
    """Each has its own, which is given back with the verdict, and when a sensor is cancelled."""
    log: list[str] = []
    connections = shop.served._server.server_state.connections
    tasks = [asyncio.create_task(watched(shop, log)) for _ in range(10)]
    await until(lambda: len(shop.served._controller.polls) == len(tasks))
    tasks[0].cancel()
    await asyncio.to_thread(lambda: [shop.note(name, TEN) for name in ("oslo", "lima")])
    found = await asyncio.gather(*tasks[1:])

    assert ({each.status for each in found}, tasks[0].cancelled()) == ({"complete"}, True)
    await until(lambda: not connections)


def test_what_may_be_raised_is_a_verdict() -> None:
    """A fault of the program itself is none, and shows where it is."""
    assert (issubclass(Rejected, CHECK_FAILURES), issubclass(httpx.HTTPError, CHECK_FAILURES)) == (
        True,
        False,
    )
