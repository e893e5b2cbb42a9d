"""A group's backlog and an alignment, as a reader learns of them and takes part in both."""

import asyncio
from typing import Any

import pytest

from noted_time import BacklogState, UnknownAlignment
from noted_time.client import Backoff
from reader_client import Align, AsyncReaderClient, ReaderClient
from reader_client.asking.answers import group_answer
from reader_client.group import aligning
from reader_client.group.backlog import ReportedBacklog
from tests.support.aligned import put_alignment, report_member, states_aligned, times_aligned
from tests.support.served import Served
from tests.support.waiting import eventually

SOON = Backoff(first_s=0.01, cap_s=0.02)

OPTIONS: dict[str, Any] = {"group": "g", "refresh_ms": 20, "backoff": SOON}

REPORTED = BacklogState(backlog=True, because=("reported",), since=7)


def in_group(served: Served, stream: str, name: str = "r") -> ReaderClient:
    """Return a reader of the group `g`."""
    return ReaderClient(served.url, stream, reader=name, **OPTIONS)


def set_policy(served: Served, stream: str, behind_ms: int) -> None:
    """Decide when the group has a backlog."""
    served.call("PUT", f"/{stream}/reader-groups/g", {"backlog": {"behind_ms": behind_ms}})


def test_a_reader_learns_of_its_backlog_and_of_its_end(served: Served, stream: str) -> None:
    """While it reads, with the reason, and once for each change."""
    set_policy(served, stream, 5)
    served.note(stream, 20, {"0": 200})
    flags: list[bool] = []
    with in_group(served, stream) as reader:
        reader.on_backlog(lambda state: flags.append(state.backlog))
        eventually(lambda: reader.backlog().because, ("behind",))
        eventually(lambda: flags, [True])
        reader.advance({0: 200})
        eventually(lambda: reader.backlog().backlog, expected=False)
        eventually(lambda: flags, [True, False])


def test_what_one_reader_reports_reaches_all_of_them(served: Served, stream: str) -> None:
    """Until it takes it back or leaves; it knows itself at once."""
    with in_group(served, stream, "one") as one, in_group(served, stream, "two") as two:
        one.set_backlog(True)
        at_once = one.backlog().because
        eventually(lambda: two.backlog().because, ("reported",))
        one.set_backlog(False)
        eventually(lambda: two.backlog().backlog, expected=False)
        one.set_backlog(True)
        eventually(lambda: two.backlog().backlog, expected=True)
        one.offline()
        eventually(lambda: two.backlog().backlog, expected=False)

    assert at_once == ("reported",)


def test_a_report_survives_an_outage_and_the_removal_of_the_group(
    served: Served, stream: str
) -> None:
    """It is reported again, like the position."""
    with in_group(served, stream) as reader:
        reader.advance({0: 5})
        eventually(lambda: reader.backlog().since is None, expected=True)
        served.stop()
        reader.set_backlog(True)
        served.start()

        def group() -> tuple[bool, dict[str, int]]:
            found = served.call("GET", f"/{stream}/reader-groups/g")
            return found["backlog"], found["position"]

        eventually(lambda: reader._reporting is not None and reader._reporting.is_reported, True)  # noqa: FBT003
        before = group()
        served.call("DELETE", f"/{stream}/reader-groups/g")
        eventually(group_or_nothing(served, stream), before)

    assert before == (True, {"0": 5})


def group_or_nothing(served: Served, stream: str) -> Any:  # noqa: ANN401 - a question
    """Return what asks for the flag and the position of the group, if it is there."""

    def ask() -> tuple[bool, dict[str, int]] | None:
        rows = served.call("GET", f"/{stream}/reader-groups")["groups"]
        if not rows:
            return None
        found = served.call("GET", f"/{stream}/reader-groups/g")
        return found["backlog"], found["position"]

    return ask


def fails(state: BacklogState) -> None:
    """Fail at whatever it is called with."""
    raise ValueError(state)


def test_a_callback_that_fails_is_logged_and_the_reader_continues(
    served: Served, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are called, too."""
    flags: list[BacklogState] = []
    with in_group(served, stream) as reader:
        reader.on_backlog(fails)
        reader.on_backlog(flags.append)
        reader.set_backlog(True)
        eventually(lambda: [state.because for state in flags], [("reported",)])

    assert "a callback of on_backlog failed; the reader continues" in caplog.messages


async def test_the_client_for_asyncio_does_the_same(served: Served, stream: str) -> None:
    """The callback is called in the loop."""
    set_policy(served, stream, 5)
    served.note(stream, 20, {"0": 200})
    found: asyncio.Queue[BacklogState] = asyncio.Queue()
    async with (
        AsyncReaderClient(served.url, stream, reader="r", **OPTIONS) as reader,
        asyncio.timeout(20),
    ):
        reader.on_backlog(found.put_nowait)
        states = [await found.get()]
        reader.set_backlog(None)
        reader.advance({0: 200})
        states.append(await found.get())
        assert reader.backlog() == states[-1]

    changes = [(state.backlog, state.because) for state in states]
    assert changes == [(True, ("behind",)), (False, ())]


def test_what_changes_meanwhile_is_reported_next() -> None:
    """An answer heeds what was under way, and nothing that came after it."""
    backlog = ReportedBacklog()
    backlog.say(backlog=True)
    reports = [backlog.take()]
    backlog.say(backlog=None)
    backlog.answered(REPORTED)
    reports += [backlog.take(), backlog.take()]
    backlog.answered(BacklogState())
    reports.append(backlog.take())
    backlog.announce()
    reports.append(backlog.take())

    assert reports == [{"backlog": True}, *[{"backlog": None}] * 2, {}, {"backlog": None}]


def test_an_answer_without_a_backlog_means_none() -> None:
    """And a reason that a later controller may name leaves the flag what it is."""
    group: dict[str, Any] = {"position": {}, "readers": {}}
    because = [{"reason": "behind"}, {"reason": "new"}, {"reason": "behind"}]
    said = group_answer({**group, "backlog": True, "because": because, "since": 5})

    assert (group_answer(group).backlog, said.backlog) == (
        BacklogState(),
        BacklogState(backlog=True, because=("behind",), since=5),
    )


# Readers that stay within a drift of the slowest


@pytest.fixture
def aligned(served: Served, stream: str) -> str:
    """Return a stream with marks at 10, 20 and 40, and an alignment with a drift of 20."""
    served.note(stream, 20, {"0": 100, "1": 50})
    served.note(stream, 40, {"0": 300, "1": 70})
    put_alignment(served.url, stream, max_drift=20)
    return stream


def test_a_segment_above_the_bound_is_not_to_be_read(served: Served, aligned: str) -> None:
    """The other segments are, until the slowest member has advanced."""
    report_member(served.url, aligned, "slow", 10)
    with ReaderClient(served.url, aligned, align=aligned, refresh_ms=10) as reader:
        reader.catch_up()
        reader.advance({0: 300, 1: 50})
        eventually(lambda: reader.may_read(0), expected=False)
        others = [reader.may_read(segment) for segment in (1, 7)]
        report_member(served.url, aligned, "slow", 25)

        eventually(lambda: reader.may_read(0), expected=True)
        assert others == [True, True]


def test_a_reader_is_the_member_of_its_streams_name(served: Served, aligned: str) -> None:
    """At the lower of its own position, or under the name that is given."""
    with (
        ReaderClient(served.url, aligned, align=aligned, refresh_ms=10) as one,
        ReaderClient(served.url, aligned, align=Align(aligned, "two"), refresh_ms=10) as two,
    ):
        one.advance({0: 100})
        two.advance({0: 300, 1: 60})

        assert eventually(lambda: times_aligned(served.url, aligned), {aligned: 10, "two": 20})


def test_readers_of_a_group_are_one_member(served: Served, aligned: str) -> None:
    """At the lower of the group's position, whichever member reports."""
    with (
        ReaderClient(served.url, aligned, group="g", reader="a", align=aligned, refresh_ms=10) as a,
        ReaderClient(served.url, aligned, group="g", reader="b", align=aligned, refresh_ms=10) as b,
    ):
        a.advance({0: 300})
        b.advance({1: 50})

        assert eventually(lambda: times_aligned(served.url, aligned), {aligned: 20})


def test_a_reader_at_a_quiet_or_sealed_end_holds_no_other(served: Served, aligned: str) -> None:
    """It has read everything: alone, and as a group, until there is more."""
    often: dict[str, Any] = {"refresh_ms": 10, "wait_ms": 10}
    grouped: dict[str, Any] = {"group": "g", "reader": "r", "align": Align(aligned, "two")}
    with (
        ReaderClient(served.url, aligned, align=aligned, **often) as one,
        ReaderClient(served.url, aligned, **grouped, **often) as two,
    ):

        def come_to_be(one: str, two: str) -> bool:
            states = {aligned: one, "two": two}
            return eventually(lambda: states_aligned(served.url, aligned), states)

        one.advance({0: 300, 1: 70})
        two.advance({0: 300, 1: 69})
        assert come_to_be("live", "live")
        served.call("POST", f"/{aligned}/notes", {"notes": [{"writer": "w", "state": "idle"}]})
        assert come_to_be("idle", "live")
        two.advance({0: 300, 1: 70})
        assert come_to_be("idle", "idle")
        served.call("POST", f"/{aligned}/notes", {"notes": [{"writer": "w"}]})
        assert come_to_be("live", "live")
        served.call("POST", f"/{aligned}/seal", {})
        assert come_to_be("finished", "finished")


def why_not(reader: ReaderClient) -> str:
    """Return why it is unknown what may be read."""
    try:
        reader.may_read(0)
    except UnknownAlignment as error:
        return str(error).partition(":")[0]
    return ""


def test_a_missing_alignment_is_reported(served: Served, stream: str) -> None:
    """Rather than that everything may be read."""
    with ReaderClient(served.url, stream, align="none") as reader:
        assert eventually(lambda: why_not(reader), "there is no alignment 'none'")


def test_without_an_alignment_everything_may_be_read(served: Served, stream: str) -> None:
    """No controller is asked."""
    with ReaderClient(served.url, stream) as reader:
        assert reader.may_read(0)


def test_the_last_bound_holds_for_the_timeout_while_the_controller_is_away(
    served: Served, aligned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing bounds the reader."""
    report_member(served.url, aligned, "slow", 10)
    with ReaderClient(served.url, aligned, align=aligned, refresh_ms=10) as reader:
        reader.catch_up()
        reader.advance({0: 300, 1: 70})
        eventually(lambda: reader.may_read(0), expected=False)
    now = aligning._now_ms()
    found = []
    for after_ms in (50_000, 60_001):
        monkeypatch.setattr(aligning, "_now_ms", lambda later=now + after_ms: later)
        found.append(reader.may_read(0))

    assert found == [False, True]
