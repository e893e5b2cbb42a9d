"""The backlog of a reader group."""

import asyncio
from typing import Any

import pytest

from noted_time import BacklogState
from noted_time.client import Backoff
from reader_client import AsyncReaderClient, ReaderClient
from reader_client.group.reporting import ReportedBacklog
from reader_client.protocol.answers import GroupReply
from tests.support.http import read_json
from tools.trials.served import Served
from tools.trials.waiting import eventually

SOON = Backoff(first_s=0.01, cap_s=0.02)

OPTIONS: dict[str, Any] = {"group": "g", "refresh_ms": 20, "backoff": SOON}

REPORTED = BacklogState(backlog=True, backlog_causes=("reported",), backlog_began_at=7)


def make_reader(served: Served, stream: str, name: str = "r") -> ReaderClient:
    """Return a reader of the group `g`."""
    return ReaderClient(stream, controller=served.url, reader=name, **OPTIONS)


def fails(state: BacklogState) -> None:
    raise ValueError(state)


def test_failing_callback_is_logged_and_reader_continues(
    served: Served, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    flags: list[BacklogState] = []
    with make_reader(served, stream) as reader:
        reader.on_backlog(fails)
        reader.on_backlog(flags.append)
        reader.set_backlog(True)
        eventually(lambda: [state.backlog_causes for state in flags], [("reported",)])

    assert "a callback of on_backlog failed; the reader continues" in caplog.messages


def test_backlog_change_during_a_report_is_reported_next() -> None:
    """An answer confirms only the report before it."""
    backlog = ReportedBacklog()
    backlog.set_backlog(backlog=True)
    reports = [backlog.take()]
    backlog.set_backlog(backlog=None)
    backlog.record_answer(REPORTED)
    reports += [backlog.take(), backlog.take()]
    backlog.record_answer(BacklogState())
    reports.append(backlog.take())
    backlog.announce()
    reports.append(backlog.take())

    assert reports == [{"backlog": True}, *[{"backlog": None}] * 2, {}, {"backlog": None}]


def test_unknown_backlog_reason_is_ignored() -> None:
    """Known reasons are still reported."""
    reasons = ("reader_lag", "new", "behind")
    because = [{"reason": reason, "domain": None, "reader": None} for reason in reasons]
    group = {
        "position": {},
        "readers": {},
        "backlog": True,
        "backlog_causes": because,
        "backlog_began_at": 5,
    }
    state = read_json(GroupReply, group).state

    assert state == BacklogState(backlog=True, backlog_causes=("reader_lag",), backlog_began_at=5)


async def test_async_reader_reports_its_backlog(served: Served, stream: str) -> None:
    """The callback runs in the event loop."""
    served.call("PUT", f"/{stream}/reader-groups/g", {"backlog": {"reader_lag_ms": 5}})
    served.note(stream, 20, {"0": 200})
    queue: asyncio.Queue[BacklogState] = asyncio.Queue()
    async with (
        AsyncReaderClient(stream, controller=served.url, reader="r", **OPTIONS) as reader,
        asyncio.timeout(20),
    ):
        reader.on_backlog(queue.put_nowait)
        states = [await queue.get()]
        reader.set_backlog(None)
        reader.advance({0: 200})
        states.append(await queue.get())
        assert reader.backlog() == states[-1]

    changes = [(state.backlog, state.backlog_causes) for state in states]
    assert changes == [(True, ("reader_lag",)), (False, ())]
