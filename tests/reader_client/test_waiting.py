"""Waits with dates and after an outage, reports over a bad network, and sealed streams."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time import Mark, NotCompleteYet, Rejected, StreamCut
from noted_time.client import Backoff
from reader_client import ReaderClient
from reader_client.group.reports import Reports
from reader_client.marks.follower import Follower
from tests.reader_client.answers import marks_answer, stream_answer
from tests.support.faults import Faults
from tools.trials.served import Served
from tools.trials.waiting import PATIENCE_S, eventually

SOON = Backoff(first_s=0.01, cap_s=0.05)


def test_controller_that_is_back_answers_the_first_poll(served: Served, stream: str) -> None:
    """The first poll after a failure is short, so its answer comes at once."""
    network = Faults("no connection", "no connection", "no connection")
    with ReaderClient(stream, controller=served.url, backoff=SOON, transport=network) as client:
        client.catch_up()
        eventually(lambda: len(network.bodies) > 5, expected=True)
        with pytest.raises(NotCompleteYet, match="the lower is 10"):
            client.wait_for(99, timeout=0.2)


def test_times_may_be_dates(served: Served) -> None:
    """Dates may be in any zone; fractions of a millisecond are rounded up."""
    served.create("dated")
    time = datetime(2013, 1, 1, 10, tzinfo=UTC)
    served.note("dated", int(time.timestamp() * 1000), {"0": 100})
    elsewhere = time.astimezone(timezone(timedelta(hours=-5)))
    with ReaderClient("dated", controller=served.url) as client:
        seqs = client.wait_for(elsewhere, timeout=PATIENCE_S).seq, client.cut_at(time).seq
        with pytest.raises(NotCompleteYet):
            client.cut_at(time + timedelta(microseconds=1))

    assert seqs == (1, 1)


def test_dates_without_a_zone_are_refused(served: Served, stream: str) -> None:
    with (
        ReaderClient(stream, controller=served.url) as reader,
        pytest.raises(Rejected, match="no time zone"),
    ):
        next(reader.windows(after=datetime(2013, 1, 1)))  # noqa: DTZ001 - that is the point


# Reports over a bad network


Fate = Literal["answered", "lost", "applied but not answered"]

reported = st.dictionaries(st.integers(0, 3), st.integers(0, 99))

fates = st.sampled_from(["answered", "lost", "applied but not answered"])


def post(reports: Reports, known_offsets: dict[int, int], fate: Fate) -> None:
    """Report once, with this fate; `known_offsets` has the controller's offsets."""
    new_offsets = reports.take()
    if fate != "lost":
        known_offsets.update(new_offsets)
    if fate == "answered":
        reports.record_answer(known_offsets)
    else:
        reports.put_back()


@settings(deadline=None)
@given(st.lists(reported | fates))
def test_last_offset_of_each_segment_is_reported(acts: list[dict[int, int] | Fate]) -> None:
    """After losses and delays, the group's position has the reader's last offsets."""
    reports = Reports()
    known_offsets = {9: 9}
    last = {9: 9}
    post(reports, known_offsets, "answered")
    for act in acts:
        if isinstance(act, dict):
            reports.report(act)
            last.update(act)
        else:
            post(reports, known_offsets, act)
    under_way = reports.position
    while reports.due:
        post(reports, known_offsets, "answered")

    assert (under_way, reports.position, known_offsets) == (last, last, last)


@settings(deadline=None)
@given(st.lists(reported | fates | st.frozensets(st.integers(0, 3))))
def test_released_segment_belongs_to_its_next_reader(
    acts: list[dict[int, int] | Fate | frozenset[int]],
) -> None:
    """The next reader reports 100; this reader's offsets are below that."""
    reports = Reports()
    known_offsets = dict[int, int]()
    last = dict[int, int]()
    for act in acts:
        if isinstance(act, dict):
            reports.report(act)
            last.update(act)
        elif isinstance(act, frozenset):
            reports.release(act)
            known_offsets.update(dict.fromkeys(act, 100))
            last.update(dict.fromkeys(act, 100))
        else:
            post(reports, known_offsets, act)
    reports.announce()
    while reports.due:
        post(reports, known_offsets, "answered")

    assert known_offsets == last


# Sealed streams


LAST = Mark(1, 20, 19, StreamCut({0: 5}), final=True)


def test_a_stream_is_sealed_once_all_its_marks_are_known() -> None:
    """A page with marks may have a successor, unless its last mark is final."""
    first = Mark(1, 10, 9, StreamCut({0: 3}))
    sealed_states = []
    for rest in ([], [replace(LAST, seq=2)]):
        new_follower = Follower("default", keep_last=9)
        new_follower.take_stream(stream_answer())
        new_follower.take_marks(marks_answer([first], final_cut={0: 5}))
        early = new_follower.is_sealed
        new_follower.take_marks(marks_answer(rest, final_cut={0: 5}))
        sealed_states.append((early, new_follower.is_sealed, new_follower.window({0: 5}).sealed))
        assert new_follower.was_at_end

    assert sealed_states == [(False, True, True)] * 2
