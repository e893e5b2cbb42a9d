"""Waits that cannot succeed, reports over a bad network, and sealed streams."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from demo.trials.served import Served
from demo.trials.waiting import PATIENCE_S, eventually
from noted_time import (
    Mark,
    NotAllowed,
    NotCompleteYet,
    Rejected,
    StreamCut,
    TimeWindow,
    UnknownDomain,
    UnknownStream,
    Unreachable,
)
from noted_time.client import Backoff
from reader_client import ReaderClient
from reader_client.group.reports import Reports
from reader_client.marks.follower import Follower
from tests.reader_client.answers import marks_answer, stream_answer
from tests.support.faults import Fault, Faults

SOON = Backoff(first_s=0.01, cap_s=0.05)

AWAY = "http://127.0.0.1:9"
REFUSED: list[Fault] = ["refused"] * 1000


def wait_for(client: ReaderClient, timeout: float) -> object:
    """Wait for a time."""
    return client.wait_for(10, timeout)


def wait_for_marks(client: ReaderClient, timeout: float) -> object:
    """Wait for a mark that does not exist yet."""
    return list(client.marks(after=1, wait=timeout))


def catch_up(client: ReaderClient, timeout: float) -> object:
    """Wait for the present marks."""
    client.catch_up(timeout)
    return None


waiting = pytest.mark.parametrize("wait", [wait_for, wait_for_marks, catch_up])


@waiting
@pytest.mark.parametrize(
    ("asked", "error", "sentence"),
    [
        ({"stream": "nowhere"}, UnknownStream, "there is no stream 'nowhere': create it"),
        ({"domains": ["bla"]}, UnknownDomain, "no domain 'bla'; it declares default"),
        ({"transport": Faults(*REFUSED)}, NotAllowed, "403 Forbidden: no such door"),
    ],
    ids=["stream", "domain", "token"],
)
def test_wait_ends_at_once_if_only_others_can_help(  # noqa: PLR0913, PLR0917 - a table
    served: Served,
    stream: str,
    wait: Callable[[ReaderClient, float], object],
    asked: dict[str, Any],
    error: type[Exception],
    sentence: str,
) -> None:
    """The controller's reason names the declared domains."""
    with (
        ReaderClient(served.url, **{"stream": stream} | asked) as client,
        pytest.raises(error, match=sentence),
    ):
        wait(client, PATIENCE_S)


@waiting
def test_wait_timeout_names_an_absent_controller(
    wait: Callable[[ReaderClient, float], object],
) -> None:
    """It raises the last error, because completeness is unknown."""
    with (
        ReaderClient(AWAY, "flights", backoff=SOON) as client,
        pytest.raises(Unreachable, match=r"127\.0\.0\.1:9 did not answer within .*refused"),
    ):
        wait(client, 0.05)


def test_controller_that_is_back_answers_the_first_poll(served: Served, stream: str) -> None:
    """The first poll after a failure is short, so its answer comes at once."""
    network = Faults("no connection", "no connection", "no connection")
    with ReaderClient(served.url, stream, backoff=SOON, transport=network) as client:
        client.catch_up()
        eventually(lambda: len(network.bodies) > 5, expected=True)
        with pytest.raises(NotCompleteYet, match="the lower is 10"):
            client.wait_for(99, timeout=0.2)


def test_a_refusal_that_was_fixed_does_not_end_the_wait(served: Served) -> None:
    """A new wait asks again at once, despite the backoff."""
    hour = Backoff(first_s=3600, cap_s=3600)
    with ReaderClient(served.url, "created-late", backoff=hour) as client:
        with pytest.raises(UnknownStream):
            client.catch_up()
        served.create("created-late")
        served.note("created-late", 10, {"0": 100})

        assert client.wait_for(10, timeout=PATIENCE_S).lower == 10


def test_local_questions_raise_the_refusal_if_nothing_is_known(served: Served, stream: str) -> None:
    """A mistyped domain must not look like an empty window."""
    with ReaderClient(served.url, stream, domains=["bla"]) as client:
        with pytest.raises(UnknownDomain):
            client.catch_up()
        for ask in (client.get_time_window, client.last_mark, lambda: client.cut_at(5)):
            with pytest.raises(UnknownDomain, match="no domain 'bla'; it declares default"):
                ask()


def test_times_may_be_dates(served: Served) -> None:
    """Dates may be in any zone; fractions of a millisecond are rounded up."""
    served.create("dated")
    at = datetime(2013, 1, 1, 10, tzinfo=UTC)
    served.note("dated", int(at.timestamp() * 1000), {"0": 100})
    elsewhere = at.astimezone(timezone(timedelta(hours=-5)))
    with ReaderClient(served.url, "dated") as client:
        seqs = client.wait_for(elsewhere, timeout=PATIENCE_S).seq, client.cut_at(at).seq
        with pytest.raises(NotCompleteYet):
            client.cut_at(at + timedelta(microseconds=1))

    assert seqs == (1, 1)


def test_a_closed_reader_raises(served: Served, stream: str) -> None:
    client = ReaderClient(served.url, stream, group="g", reader="r")
    client.close()
    began = time.monotonic()
    for call in (
        lambda: client.wait_for(99, PATIENCE_S),
        lambda: client.advance({0: 1}),
        client.offline,
    ):
        with pytest.raises(Rejected, match="is closed; create a new one"):
            call()

    assert time.monotonic() - began < PATIENCE_S / 2


# Reports over a bad network


Fate = Literal["answered", "lost", "applied but not answered"]

reported = st.dictionaries(st.integers(0, 3), st.integers(0, 99))

fates = st.sampled_from(["answered", "lost", "applied but not answered"])


def post(reports: Reports, known: dict[int, int], fate: Fate) -> None:
    """Report once, with this fate; `known` has the controller's offsets."""
    taken = reports.take()
    if fate != "lost":
        known.update(taken)
    if fate == "answered":
        reports.record_answer(known)
    else:
        reports.put_back()


@settings(deadline=None)
@given(st.lists(reported | fates))
def test_last_offset_of_each_segment_is_reported(acts: list[dict[int, int] | Fate]) -> None:
    """After losses and delays, the group's position has the reader's last offsets."""
    reports, known, last = Reports(), {9: 9}, {9: 9}
    post(reports, known, "answered")
    for act in acts:
        if isinstance(act, dict):
            reports.report(act)
            last.update(act)
        else:
            post(reports, known, act)
    under_way = reports.position
    while reports.due:
        post(reports, known, "answered")

    assert (under_way, reports.position, known) == (last, last, last)


@settings(deadline=None)
@given(st.lists(reported | fates | st.frozensets(st.integers(0, 3))))
def test_released_segment_belongs_to_its_next_reader(
    acts: list[dict[int, int] | Fate | frozenset[int]],
) -> None:
    """The next reader reports 100; this reader's offsets are below that."""
    reports, known, last = Reports(), dict[int, int](), dict[int, int]()
    for act in acts:
        if isinstance(act, dict):
            reports.report(act)
            last.update(act)
        elif isinstance(act, frozenset):
            reports.release(act)
            known.update(dict.fromkeys(act, 100))
            last.update(dict.fromkeys(act, 100))
        else:
            post(reports, known, act)
    reports.announce()
    while reports.due:
        post(reports, known, "answered")

    assert known == last


# Sealed streams


LAST = Mark(1, 20, 19, StreamCut({0: 5}), final=True)


def test_a_window_at_the_final_cut_is_sealed(served: Served, stream: str) -> None:
    """All times are complete there, and no call waits for another mark."""
    with ReaderClient(served.url, stream, backoff=SOON) as client:
        client.catch_up()
        client.advance({0: 100})
        before = client.get_time_window().sealed
        served.call("POST", f"/{stream}/seal", {"cut": {"0": 150}, "final_times": {"default": 99}})
        mark = client.wait_for(10**15, timeout=PATIENCE_S)
        client.advance({0: 150})

        assert (before, mark.final, mark.lower) == (False, True, 99)
        assert client.get_time_window() == TimeWindow(99, None, 2, None, sealed=True)
        assert [each.seq for each in client.marks(after=0, wait=60)] == [1, 2]


def test_a_stream_is_sealed_once_all_its_marks_are_known() -> None:
    """A page with marks may have a successor, unless its last mark is final."""
    first = Mark(1, 10, 9, StreamCut({0: 3}))
    found = []
    for rest in ([], [replace(LAST, seq=2)]):
        followed = Follower("default", keep_last=9)
        followed.take_stream(stream_answer())
        followed.take_marks(marks_answer([first], final_cut={0: 5}))
        early = followed.is_sealed
        followed.take_marks(marks_answer(rest, final_cut={0: 5}))
        found.append((early, followed.is_sealed, followed.window({0: 5}).sealed))
        assert followed.was_at_end

    assert found == [(False, True, True)] * 2
