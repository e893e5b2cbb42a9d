"""What a reader learns of the end of a stream."""

from dataclasses import replace

from noted_time import Mark, StreamCut, TimeWindow
from noted_time.client import Backoff
from reader_client import ReaderClient
from reader_client.follower import Follower
from tests.reader_client.answers import marks_answer, stream_answer
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S

SOON = Backoff(first_s=0.01, cap_s=0.05)
LAST = Mark(1, 20, 19, StreamCut({0: 5}), final=True)


def test_a_window_at_the_final_cut_is_sealed(served: Served, stream: str) -> None:
    """The last mark is followed, any time is complete there, and no caller waits for another."""
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
    """An answer that still has marks may be followed by another, unless the last one is final."""
    first = Mark(1, 10, 9, StreamCut({0: 3}))
    found = []
    for rest in ([], [replace(LAST, seq=2)]):
        followed = Follower("default", keep_last=9)
        followed.take_stream(stream_answer())
        followed.take_marks(marks_answer([first], final_cut={0: 5}))
        early = followed.is_sealed
        followed.take_marks(marks_answer(rest, final_cut={0: 5}))
        found.append((early, followed.is_sealed, followed.window({0: 5}).sealed))

    assert found == [(False, True, True)] * 2
