"""Marks followed at a controller over HTTP; no Spark runs here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from noted_time import ScaleEvent
from noted_time.values import ClientFailed
from reader_client.marks.follower import Follower
from spark_integration.marks.feed import ControllerFeed
from spark_integration.marks.released import Released
from tests.support.calls import CalledStream
from tests.support.served import Served
from tests.support.waiting import eventually


class Followed:
    """A feed and the seqs that came of it."""

    def __init__(self, controller: Served, released: Released) -> None:
        self.feed = ControllerFeed(controller.url, "flights", None, wait_ms=500)
        self.feed.begin(released)
        self._seqs: list[tuple[str, int]] = []
        self._ids: list[str] = []

    def seqs(self) -> list[tuple[str, int]]:
        """Return (stream, seq) of all marks so far; streams are called a, b in their order."""
        new = self.feed.take()
        if new.marks and new.stream_id not in self._ids:
            self._ids.append(new.stream_id)
        self._seqs += [("ab"[len(self._ids) - 1], mark.seq) for mark in new.marks]
        return self._seqs


@pytest.fixture
def followed(controller: Served) -> Iterator[Followed]:
    """Return a feed on a stream with two marks."""
    stream = controller.stream("flights")
    stream.note("w", 10, {0: 1})
    stream.note("w", 20, {0: 2})
    followed = Followed(controller, Released())
    yield followed
    followed.feed.close()


def test_all_marks_of_now_are_there_when_a_feed_has_begun(followed: Followed) -> None:
    """So a query that only reads what is there now knows them all."""
    assert followed.seqs() == [("a", 1), ("a", 2)]


@pytest.mark.parametrize("cut", [{0: 2}, {0: 3}])
def test_the_end_of_a_sealed_stream_is_known_when_a_feed_has_begun(
    controller: Served, cut: dict[int, int]
) -> None:
    """Also if its last mark was made before, or was admitted by an earlier run."""
    stream = controller.stream("flights")
    stream.note("w", 10, {0: 1})
    stream.note("w", 20, {0: 2})
    stream.seal(cut=cut)
    released, found = Released(), []
    for _ in range(2):
        feed = ControllerFeed(controller.url, "flights", None)
        feed.begin(released)
        known = feed.take()
        feed.close()
        released = Released(known.stream_id, known.marks[-1].seq if known.marks else 0)
        found.append((len(known.marks) > 1, known.final_cut))

    assert found == [(True, cut), (False, cut)]


def test_later_marks_come_by_long_poll(followed: Followed, controller: Served) -> None:
    """Also after the controller was away for a while."""
    controller.stop()
    controller.start()
    controller.note("flights", 30, {"0": 3})

    assert eventually(followed.seqs, [("a", 1), ("a", 2), ("a", 3)])


def test_scale_events_are_known_with_the_marks_that_follow_them(
    followed: Followed, controller: Served
) -> None:
    """Those of a recreated stream are its own."""
    stream, found = CalledStream(controller, "flights"), []
    stream.scale(ScaleEvent({0: 2}, {1: (0,)}))
    stream.note("w", 30, {1: 1})
    eventually(followed.seqs, [("a", 1), ("a", 2), ("a", 3)])
    found.append(dict(followed.feed.take().succession.final))
    controller.stream("flights").note("w", 5, {0: 1})
    eventually(followed.seqs, [("a", 1), ("a", 2), ("a", 3), ("b", 1)])
    found.append(dict(followed.feed.take().succession.final))

    assert found == [{0: 2}, {}]


def test_a_feed_explains_which_offsets_a_mark_needs(controller: Served) -> None:
    """And who noted them, for a query on another log."""
    controller.stream("flights").note("w", 10, {0: 90})
    feed = ControllerFeed(controller.url, "flights", None)
    feed.begin(Released())
    said = feed.explain({0: 3})
    feed.close()

    assert "needs segment 0 to 90, as w noted (read to 3)" in said
    assert said.endswith("Ask again: noted-time explain flights")


def test_a_controller_that_is_away_from_the_start_is_not_an_error(controller: Served) -> None:
    """The marks come when it is there."""
    controller.stream("flights").note("w", 10, {0: 1})
    controller.stop()
    followed = Followed(controller, Released())
    controller.start()

    assert eventually(followed.seqs, [("a", 1)])
    followed.feed.close()


@pytest.mark.parametrize("from_the_start", [True, False])
def test_a_fault_of_the_thread_is_raised_where_marks_are_taken(
    controller: Served, monkeypatch: pytest.MonkeyPatch, *, from_the_start: bool
) -> None:
    """It must not look like a stream on which nothing happens."""
    controller.stream("flights").note("w", 10, {0: 1})
    feed = ControllerFeed(controller.url, "flights", None, wait_ms=20)
    if not from_the_start:
        feed.begin(Released())
    monkeypatch.setattr(Follower, "take_marks", None)
    call = partial(feed.begin, Released()) if from_the_start else partial(take_for_ever, feed)
    with pytest.raises(ClientFailed, match="noted marks ended by TypeError"):
        call()
    feed.close()


def take_for_ever(feed: ControllerFeed) -> None:
    """Take marks until that raises."""
    eventually(lambda: feed.take() is None, expected=True)
