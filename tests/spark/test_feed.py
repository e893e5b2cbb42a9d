"""Marks from a controller over HTTP; no Spark runs here."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from functools import partial

import pytest

from noted_time.client.transport import Transport
from noted_time.values import ClientFailed, Succession
from reader_client.marks.follower import Follower
from spark_integration.marks import feed as feed_module
from spark_integration.marks.feed import ControllerFeed, FeedMarks
from spark_integration.marks.released import Released, RestatedBatches
from tools.trials.served import Served
from tools.trials.waiting import eventually


def test_feed_follows_a_controller_again_once_it_is_back(controller: Served) -> None:
    """The feed follows from the start to the seal, by long polls."""
    stream = controller.stream("flights")
    stream.note("w", 10, {0: 1})
    controller.stop()
    feed = ControllerFeed(controller.url, "flights", None, wait_ms=500)
    seen_seqs = list[int]()
    feed.begin(Released())

    def seqs() -> list[int]:
        seen_seqs.extend(mark.seq for mark in feed.take().marks)
        return seen_seqs

    controller.start()
    assert eventually(seqs, [1])
    controller.stop()
    controller.start()
    note = {"writer": "w", "time": 30, "position": {"0": 3}, "log": "ours"}
    controller.post("flights", note)
    assert eventually(seqs, [1, 2])
    stream.seal()
    assert eventually(seqs, [1, 2, 3])
    stream_id = controller.get("flights")["id"]
    known_marks = FeedMarks(stream_id, (), Succession(), {0: 3}, logs=("ours",), domain="default")
    sealed_marks = replace(known_marks, is_quiet=True, first_lower=10)
    assert eventually(feed.take, sealed_marks)
    feed.close()


def test_feed_does_not_wait_for_a_silent_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query starts without marks, and stops during an open request."""
    monkeypatch.setattr(feed_module, "CATCH_UP_S", 0.05)
    monkeypatch.setattr(feed_module, "CLOSE_S", 0.05)
    monkeypatch.setattr(Transport, "hang_up", lambda _: None)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        feed = ControllerFeed(f"http://127.0.0.1:{silent.getsockname()[1]}", "flights", "default")
        hang = []
        for call in (partial(feed.begin, Released()), feed.close):
            calling = threading.Thread(target=call, daemon=True)
            calling.start()
            calling.join(5)  # the request ends after 10 s
            hang.append(calling.is_alive())

    assert (hang, feed.take().marks) == ([False, False], ())


@pytest.mark.parametrize("from_the_start", [True, False])
def test_fault_of_the_feeds_thread_is_raised_by_take(
    controller: Served, monkeypatch: pytest.MonkeyPatch, *, from_the_start: bool
) -> None:
    """Otherwise it would look like a stream without new marks."""
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
    """Take marks until an error."""
    eventually(lambda: feed.take() is None, expected=True)


NONE = Released()
THIRD = Released("a", 3, 30)
FIFTH = Released("a", 5, 50)
SEALED = Released("a", 5, 90, sealed=True)


@pytest.mark.parametrize(
    ("let_in", "usual", "feeding"),
    [
        ([NONE, NONE, NONE], "0", "0"),
        ([NONE, THIRD, THIRD, THIRD], "0", "01"),
        ([NONE, THIRD, FIFTH, FIFTH, FIFTH], "0", "012"),
        ([THIRD, THIRD, THIRD], "0", "01"),
        ([THIRD, FIFTH, FIFTH, FIFTH], "0", "01"),
        ([THIRD, THIRD, FIFTH, FIFTH], "0", "012"),
        ([THIRD, SEALED, SEALED], "01", "01"),
        ([SEALED, SEALED, SEALED], "0", "01"),
    ],
)
def test_batch_after_each_stated_lower_is_due_once(
    let_in: list[Released], usual: str, feeding: str
) -> None:
    """Each case has the marks of its plans. The first plan of a run states its mark again."""

    def due(batches: RestatedBatches) -> str:
        runs = [batches.run(0, let_in_seq) for let_in_seq in let_in]
        return "".join(str(plan) for plan, run in enumerate(runs) if run) or "-"

    assert (due(RestatedBatches()), due(RestatedBatches(batch_after_mark=True))) == (usual, feeding)
