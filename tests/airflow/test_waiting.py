"""The verdicts of the sensor, without Airflow, on a real controller and a real table."""

import asyncio
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args
from unittest.mock import Mock
from uuid import uuid4

import httpx
import pytest

from noted_time import Rejected
from noted_time.client import Json, run
from noted_time.client.transport import Transport
from noted_time.client.waiting import NotYet, build_performer
from noted_time.lineage import Dataset
from noted_time.progress import ReadOffsets
from noted_time.verdict.words import NOT_KNOWN
from noted_time_airflow import waiting
from noted_time_airflow.waiting import (
    CHECK_FAILURES,
    Address,
    Condition,
    PollResult,
    WaitLog,
    WhileMissing,
    judge,
    judge_error,
    poll_once,
    watch,
)
from noted_time_extensions.tables.tests.support.claimed import TEN, Orders
from reader_client.protocol.datasets import StreamDataset
from tests.support.controllers import wait_until_async
from tests.support.gates import Guarded
from tools.trials.calls import HOUR_MS
from tools.trials.served import Served
from tools.trials.waiting import PATIENCE_S, wait_until

NINE = TEN - HOUR_MS
SO_FAR = "is not known to be complete to 2013-01-01T10:00:00Z"
BEHIND = "{} " + SO_FAR + ": its lower is 2013-01-01T09:00:00Z, and it waits for lima and oslo"
COMPLETE = "{} is complete to 2013-01-01T10:00:00Z, "
AWAY = "lima (excluded, vouches to 2013-01-01T09:00:00Z)"
WITHOUT = f"{COMPLETE}by 1 of 2 expected writers, not by {AWAY}, without lima: timed out 0s ago"
UNKNOWN = f"; rome (unknown) does not vouch: {NOT_KNOWN}"
MISTYPED = "; limaa (unknown) does not vouch: did you mean 'lima'?"
NOT_THERE = f"; {AWAY} does not vouch"
COMPLETE_ALL = "complete complete complete complete"
LACKS = "failed waiting warned complete"
MISSING = NOT_THERE.replace("excluded", "missing")
LIMA_LACKS = (NOT_THERE, MISSING)
PRINTING = WaitLog(print, print)
UNAUTHENTICATED = (
    "401 Unauthenticated: missing, expired or revoked token: send Authorization: Bearer nt_…; set "
    "the password of Airflow's connection (noted_time_conn_id) to a token with the scope read"
)


class Shop(NamedTuple):
    """A stream that expects two writers, Oslo and Lima."""

    served: Served
    name: str

    def note(self, writer: str, time: int | None = None, **fields: Any) -> None:  # noqa: ANN401 - any of a note
        self.served.post(self.name, {"writer": writer, "time": time, **fields})

    def note_both(self, time: int, **fields: Any) -> None:  # noqa: ANN401 - likewise
        for writer in ("lima", "oslo"):
            self.note(writer, time, **fields)

    def pass_lima(self, domain: str | None = None) -> None:
        """Let the watermark pass Lima at ten, because Lima is silent for its timeout."""
        self.note("oslo", TEN, domain=domain)
        self.served.create(self.name, writer_timeout_ms=100)
        wait_until(lambda: self.served.lower(self.name, domain or "default") == TEN)
        self.served.create(self.name, writer_timeout_ms=HOUR_MS)

    def look(self, condition: Condition | None = None) -> PollResult:
        """Poll once."""
        return poll(condition or self.condition(), (self.served.url, None))

    def condition(self, complete_to: int = TEN, **condition: Any) -> Condition:  # noqa: ANN401 - any of it
        """Return the arguments of a sensor for the stream."""
        return Condition(dataset=self.name, complete_to=complete_to, **condition)


def poll(condition: Condition, address: Address | None = None) -> PollResult:
    """Poll once, as the sensor does."""
    try:
        return poll_once(condition, address)
    except CHECK_FAILURES as error:
        return judge_error(error)


def poll_by_each_policy(
    condition: Condition, look: Callable[[Condition], PollResult]
) -> tuple[str, list[PollResult]]:
    """Poll once by each policy, and return the outcomes of fail, wait, warn and accept."""
    results = []
    outcomes = []
    for policy in get_args(WhileMissing):
        result = look(replace(condition, missing=policy))
        results.append(result)
        outcomes.append("warned" if result.is_warning else result.status)
    return " ".join(outcomes), results


@pytest.fixture
def shop(served: Served) -> Shop:
    """Return a new stream that is complete to nine."""
    shop = Shop(served, uuid4().hex)
    served.make(shop.name, expected_writers=["oslo", "lima"])
    shop.note("oslo", NINE)
    shop.note("lima", NINE, position={"0": 7})
    shop.note("oslo", NINE, position={"1": 5})
    return shop


def test_stream_is_waited_for_until_a_mark_has_the_time(shop: Shop) -> None:
    """The cut of this mark is the end of the rows to read."""
    before = shop.look()
    shop.note("oslo", TEN, position={"1": 8})
    shop.note("lima", TEN, position={"0": 9})

    by_both = COMPLETE.format(shop.name) + "by 2 writers, all that are expected"
    position_found = {"complete_to": TEN, "seq": 2, "cut": {"0": 9, "1": 8}}
    assert (before, shop.look()) == (
        PollResult("waiting", BEHIND.format(shop.name)),
        PollResult("complete", by_both, found=position_found),
    )


@pytest.mark.parametrize(
    ("condition", "verdicts", "also"),
    [
        ({}, LACKS, NOT_THERE),
        ({"require": "known"}, LACKS, MISSING),
        ({"require": ["oslo"]}, "warned warned warned complete", ""),
        ({"require": ["oslo", "lima"]}, LACKS, NOT_THERE),
        ({"require": ["rome"]}, "failed failed warned complete", UNKNOWN),
        ({"require": ["limaa"]}, "failed failed warned complete", MISTYPED),
    ],
)
def test_missing_writer_counts_as_the_policy_says(
    shop: Shop, condition: Json, verdicts: str, also: str
) -> None:
    """The sentence names the writer. The sensor does not wait for an unknown writer."""
    shop.pass_lima()
    statuses, results = poll_by_each_policy(shop.condition(**condition), shop.look)

    without = WITHOUT.format(shop.name)
    named_without = without
    if also.startswith(LIMA_LACKS):
        named_without = without.replace(
            f", not by {AWAY}", ""
        )  # as the end of the sentence names it
    says = named_without + also.format("noted-time", shop.name)
    assert statuses == verdicts
    sentences = [re.sub(r" \d+s ago", " 0s ago", result.sentence) for result in results]
    assert sentences == [says, says, says, without]


def test_unread_rows_of_a_group_pass_no_policy(shop: Shop) -> None:
    """Lima is missing at ten, but not in the next mark, which the group reads last.

    Lima may have late rows then, so each policy warns.
    """
    read_offsets = {0: 7, 1: 4}
    group = StreamDataset(Dataset("group:g@b/t"), {shop.name: lambda _: ReadOffsets(read_offsets)})

    def look(condition: Condition) -> PollResult:
        try:
            return run(judge(group, condition), build_performer(transport.ask))
        except NotYet as error:
            return judge_error(error)

    def poll_again() -> str:
        return poll_by_each_policy(Condition(dataset="group:g@b/t", complete_to=TEN), look)[0]

    with closing(Transport(shop.served.url)) as transport:
        shop.pass_lima()
        statuses = [poll_again()]
        read_offsets[1] = 5
        statuses.append(poll_again())
        shop.note_both(TEN + 1, position={"1": 6})
        statuses.append(poll_again())
        read_offsets[1] = 6
        statuses.append(poll_again())

    assert statuses == [
        "failed waiting waiting waiting",
        LACKS,
        "waiting waiting warned warned",
        "warned warned warned warned",
    ]


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ({"kafka_conn_id": "eu"}, "kafka_conn_id has no effect on a stream: leave it out"),
        ({"stream": "orders"}, "stream has no effect on a stream: leave it out"),
        (
            {"dataset": "delta:t", "domain": "shipped"},
            "domain has no effect on a table: leave it out",
        ),
        ({"dataset": "group:loader"}, "'group:loader' does not name a group and its topic: "),
    ],
)
def test_dataset_is_refused_at_once(condition: Json, says: str) -> None:
    fields: Json = {"dataset": "sold", "complete_to": TEN} | condition
    result = poll(Condition(**fields))

    assert (result.status, result.sentence[: len(says)]) == ("failed", says)


@pytest.mark.parametrize(
    ("by", "verdicts"),
    [
        ("claim", [LACKS, LACKS, COMPLETE_ALL]),
        ("controller", [LACKS, "waiting waiting warned complete", COMPLETE_ALL]),
    ],
)
def test_later_table_version_may_have_the_writer_again(
    shop: Shop, tmp_path: Path, by: str, verdicts: list[str]
) -> None:
    """The claim says so, or the controller if the query did not ask for missing writers."""
    orders = Orders(tmp_path)
    claim = partial(orders.claim, asked=by == "claim", stream=shop.name)
    condition = Condition(dataset=orders.url, complete_to=TEN)
    versions = []

    def poll_again() -> str:
        look = partial(poll, address=(shop.served.url, None))
        statuses, results = poll_by_each_policy(condition, look)
        versions.append([result.found["version"] for result in results if result.found])
        return statuses

    claim(TEN, 0, "lima")
    shop.pass_lima()
    statuses = [poll_again()]
    shop.note_both(TEN + 1)
    statuses.append(poll_again())
    claim(TEN + 1, 1)
    statuses.append(poll_again())

    assert (statuses, versions) == (verdicts, [[0, 0], [0, 0], [1, 1, 1, 0]])


def test_table_needs_a_connection_to_require_writers(tmp_path: Path) -> None:
    """The counts in its claim do not name who joined later."""
    orders = Orders(tmp_path)
    orders.claim(TEN, 0, stream="sold")
    condition = Condition(dataset=orders.url, complete_to=TEN)
    statuses, results = poll_by_each_policy(condition, partial(poll, address=None))

    assert statuses == "failed failed warned complete"
    assert (
        "as no controller was asked: name one (--url, noted_time_conn_id=)" in results[0].sentence
    )


async def watch_stream(
    shop: Shop, reasons: list[str], warnings: list[str], timeout_s: float = PATIENCE_S
) -> PollResult:
    """Wait for a stream as the trigger does, and collect what it logs."""
    return await watch(
        shop.condition(),
        (shop.served.url, None),
        timeout_s=timeout_s,
        wait_log=WaitLog(reasons.append, warnings.append),
    )


async def test_unreachable_controller_is_a_warning_again_and_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sensor waits on. The interval of the warnings is a minute."""
    monkeypatch.setattr(waiting, "WARNING_INTERVAL_S", 0.1)
    reasons: list[str] = []
    warnings: list[str] = []
    shop.served.stop()
    first_result = poll(shop.condition(), (shop.served.url, None))
    sensor = asyncio.create_task(watch_stream(shop, reasons, warnings))
    await wait_until_async(lambda: len(warnings) > 1)
    await asyncio.to_thread(shop.served.start)
    await asyncio.to_thread(shop.note_both, TEN)
    last_result = await sensor

    assert (first_result.status, first_result.is_warning, last_result.status) == (
        "waiting",
        True,
        "complete",
    )
    assert {sentence[:15] for sentence in (first_result.sentence, *warnings)} == {"no answer from "}
    assert not any(reason.startswith("no answer") for reason in reasons)


async def test_timeout_says_why_the_sensor_waited(shop: Shop) -> None:
    result = await watch_stream(shop, [], [], timeout_s=0)

    assert result == PollResult("timed out", BEHIND.format(shop.name))


async def test_refused_token_ends_the_wait_at_once() -> None:
    """A token in the connection is sent. The remedy is the connection's password."""
    guarded_gate = Guarded()
    with Served(gate=guarded_gate.gate) as controller:
        controller.token = token = guarded_gate.token("admin")
        controller.create("orders", expected_writers=["w"])
        controller.note("orders", TEN, {})
        condition = Condition(dataset="orders", complete_to=TEN)
        results = []
        for shown_token in ("", token):
            address = (controller.url, shown_token)
            results.append(await watch(condition, address, timeout_s=PATIENCE_S, wait_log=PRINTING))

    assert [result.status for result in results] == ["failed", "complete"]
    assert results[0].sentence == UNAUTHENTICATED


async def test_missing_library_ends_the_wait_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    says = 'reading delta:t needs deltalake: pip install "noted-time[delta]"'
    monkeypatch.setattr(waiting, "poll_once", Mock(side_effect=ImportError(says)))
    condition = Condition(dataset="delta:t", complete_to=TEN)
    result = await watch(condition, None, timeout_s=PATIENCE_S, wait_log=PRINTING)

    assert result == PollResult("failed", says)


async def test_finished_sensors_leave_no_connection(shop: Shop) -> None:
    """Each sensor closes its connection with its verdict, or when it is cancelled."""
    connections = shop.served._server.server_state.connections
    tasks = [asyncio.create_task(watch_stream(shop, [], [])) for _ in range(10)]
    await wait_until_async(lambda: len(shop.served._controller.polls) == len(tasks))
    tasks[0].cancel()
    await asyncio.to_thread(shop.note_both, TEN)
    results = await asyncio.gather(*tasks[1:])

    assert ({result.status for result in results}, tasks[0].cancelled()) == ({"complete"}, True)
    await wait_until_async(lambda: not connections)


def test_expected_errors_are_verdicts() -> None:
    """A fault of the program is not a verdict, and keeps its traceback."""
    assert (issubclass(Rejected, CHECK_FAILURES), issubclass(httpx.HTTPError, CHECK_FAILURES)) == (
        True,
        False,
    )
