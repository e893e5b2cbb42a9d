"""Readers that stay within a drift of the slowest."""

from typing import Any

import pytest

from noted_time import UnknownAlignment
from reader_client import ReaderClient, aligning
from tests.support.aligned import put_alignment, report_member, states_aligned, times_aligned
from tests.support.served import Served
from tests.support.waiting import eventually


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
        ReaderClient(served.url, aligned, align=aligned, align_as="two", refresh_ms=10) as two,
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
    often: dict[str, Any] = {"align": aligned, "refresh_ms": 10, "wait_ms": 10}
    with (
        ReaderClient(served.url, aligned, **often) as one,
        ReaderClient(served.url, aligned, group="g", reader="r", align_as="two", **often) as two,
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
