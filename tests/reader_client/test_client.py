"""What a reader gets from its client, against the real controller."""

import threading
import time
from itertools import islice
from typing import Any

import httpx
import pytest

from noted_time import InvalidName, NotCompleteYet, Rejected, TimeWindow, Unreachable
from noted_time.client import Backoff
from noted_time.values import UnknownDomain
from reader_client import ReaderClient
from tests.support.faults import Fault, Faults
from tests.support.served import Served
from tests.support.waiting import PATIENCE_S, wait_until

SOON = Backoff(first_s=0.01, cap_s=0.05)
NO_WINDOW = TimeWindow(None, None)


def reader(served: Served, stream: str, **options: Any) -> ReaderClient:  # noqa: ANN401
    """Return a reader that has caught up and does not wait long after failures."""
    client = ReaderClient(served.url, stream, backoff=SOON, **options)
    client.catch_up()
    return client


def test_a_reader_at_a_cut_has_read_up_to_its_lower(served: Served, stream: str) -> None:
    """A position turns into the window of the marks around it."""
    with reader(served, stream) as client:
        client.advance({0: 100})

        assert client.get_time_window() == TimeWindow(10, None, 1, None)


def test_marks_are_followed_as_they_are_made(served: Served, stream: str) -> None:
    """A mark made while the reader waits is known a moment later."""
    with reader(served, stream) as client:
        served.note(stream, 20, {"0": 200})
        mark = client.wait_for(20, timeout=PATIENCE_S)

    assert (mark.seq, mark.lower, dict(mark.cut.offsets)) == (2, 20, {0: 200})


def test_a_position_accumulates(served: Served, stream: str) -> None:
    """Segments that are not named keep their offsets; a named one may go back."""
    with reader(served, stream) as client:
        client.advance({0: 100, 1: 7})
        client.advance({1: 5})

        assert (client.position, client.get_time_window().lower) == ({0: 100, 1: 5}, 10)


def test_any_position_can_be_asked_about(served: Served, stream: str) -> None:
    """Asking does not move the reader."""
    with reader(served, stream) as client:
        windows = client.window_at({0: 100}), client.get_time_window()

    assert windows == (TimeWindow(10, None, 1, None), TimeWindow(None, 10, None, 1))


def test_a_cut_bounds_how_far_to_read(served: Served, stream: str) -> None:
    """The first mark that is complete to a time, and an error until there is one."""
    with reader(served, stream) as client:
        mark = client.cut_at(10)
        with pytest.raises(NotCompleteYet, match="time 11 is not complete yet: the lower is 10"):
            client.cut_at(11)

    assert dict(mark.cut.offsets) == {0: 100}


def test_marks_are_yielded_in_order(served: Served, stream: str) -> None:
    """The iterator gives what is known, then waits for what comes."""
    with reader(served, stream) as client:
        first = [mark.seq for mark in client.marks()]
        for time_ in (20, 30):
            served.note(stream, time_, {"0": time_ * 10})
        further = [mark.lower for mark in islice(client.marks(after=1, wait=10), 2)]

    assert (first, further) == ([1], [20, 30])


def test_an_iterator_ends_with_its_client(served: Served, stream: str) -> None:
    """Waiting for ever ends when the client is closed."""
    client = reader(served, stream)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.extend(m.seq for m in client.marks(wait=None)))
    thread.start()
    wait_until(lambda: seen)
    client.close()
    thread.join(PATIENCE_S)

    assert (seen, thread.is_alive()) == ([1], False)


def test_each_domain_is_followed(served: Served) -> None:
    """Without a choice of domains, all declared ones are followed, each with windows of its own."""
    served.create("orders", domains=["order_time", "ship_time"])
    served.note("orders", 10, {"0": 100}, domain="order_time")
    served.note("orders", 7, {"0": 120}, domain="ship_time")
    with reader(served, "orders") as client:
        client.advance({0: 100})
        lowers = [client.get_time_window(domain).lower for domain in ("order_time", "ship_time")]
        with pytest.raises(UnknownDomain, match="no domain 'default'"):
            client.get_time_window()

    assert lowers == [10, None]


def test_only_the_chosen_domains_are_followed(served: Served) -> None:
    """A reader that names one domain need not name it again."""
    served.create("parcels", domains=["order_time", "ship_time"])
    served.note("parcels", 7, {"0": 120}, domain="ship_time")
    with reader(served, "parcels", domains=["ship_time"]) as client:
        client.advance({0: 120})

        assert client.get_time_window().lower == 7


def test_a_split_is_understood(served: Served, stream: str) -> None:
    """Standing on a successor means having read all of its predecessors."""
    with reader(served, stream) as client:
        client.advance({2: 4})
        served.call(
            "POST", f"/{stream}/scale", {"sealed": {"0": 300}, "created": {"2": [0], "3": [0]}}
        )
        served.note(stream, 20, {"2": 4})
        client.wait_for(20, timeout=PATIENCE_S)

        assert client.get_time_window().lower == 20


def test_a_window_stands_while_the_controller_is_away() -> None:
    """The last known history keeps answering, and grows again when the controller is back."""
    with Served() as served:
        served.create("flights")
        served.note("flights", 10, {"0": 100})
        with reader(served, "flights") as client:
            client.advance({0: 250})
            served.stop()
            away = client.get_time_window().lower
            served.start()
            served.note("flights", 20, {"0": 200})
            client.wait_for(20, timeout=PATIENCE_S)

            assert (away, client.get_time_window().lower) == (10, 20)


@pytest.mark.parametrize("fault", ["no connection", "no answer", "busy", "nonsense"])
def test_following_survives_a_failing_network(served: Served, stream: str, fault: Fault) -> None:
    """Whatever happens to the answers, the marks arrive in the end."""
    network = Faults(*[fault] * 3, retry_after_s=0)
    with ReaderClient(served.url, stream, backoff=SOON, transport=network) as client:
        assert client.wait_for(10, timeout=PATIENCE_S).seq == 1


def test_a_group_has_the_window_of_all_its_readers(served: Served, stream: str) -> None:
    """A reader gets the group's window, whichever segments are its own."""
    served.note(stream, 20, {"0": 100, "1": 50})
    with (
        reader(served, stream, group="g", reader="a", refresh_ms=20) as one,
        reader(served, stream, group="g", reader="b", refresh_ms=20) as other,
    ):
        one.advance({0: 100})
        wait_until(lambda: other.get_time_window().lower == 10)
        other.advance({1: 50})
        wait_until(lambda: one.get_time_window().lower == 20)

        assert other.get_time_window() == TimeWindow(20, None, 2, None)


def test_a_readers_own_progress_counts_at_once(served: Served, stream: str) -> None:
    """The reader need not wait for its report to come back."""
    with reader(served, stream, group="g", reader="a") as client:
        wait_until(lambda: client.get_time_window() != NO_WINDOW)
        client.advance({0: 100})

        assert client.get_time_window().lower == 10


def test_a_group_is_not_guessed_at(served: Served, stream: str) -> None:
    """Before the group's position is known, its time is unknown."""
    network = Faults()
    network.gate.clear()
    client = ReaderClient(served.url, stream, group="g", reader="a", transport=network)
    client.advance({0: 100})
    window = client.get_time_window()
    network.gate.set()
    client.close()

    assert window == NO_WINDOW


def test_a_reader_that_goes_offline_puts_its_segments_back(served: Served, stream: str) -> None:
    """The reader that takes over begins at the given position; the window goes back."""
    with reader(served, stream, group="g", reader="a") as client:
        client.advance({0: 100})
        client.offline({0: 60})
        window = client.get_time_window()
    group = served.call("GET", f"/{stream}/reader-groups/g")

    assert (group["position"], group["readers"], window.lower) == ({"0": 60}, {}, None)


def test_closing_reports_what_is_left(served: Served, stream: str) -> None:
    """The last position of a reader arrives, and the reader stays in its group."""
    with reader(served, stream, group="g", reader="a") as client:
        for offset in range(100):
            client.advance({0: offset})
    group = served.call("GET", f"/{stream}/reader-groups/g")

    assert group["readers"] == {"a": {"0": 99}}


def test_reports_outlast_a_controller_that_is_away() -> None:
    """Positions reached during the outage are reported when the controller is back."""
    with Served() as served:
        served.create("flights")
        with reader(served, "flights", group="g", reader="a", refresh_ms=20) as client:
            served.stop()
            client.advance({0: 40})
            with pytest.raises(Unreachable, match="reader 'a' of group 'g' may still be"):
                client.offline(timeout=0.1)
            client.advance({0: 50})
            served.start()
            wait_until(lambda: _readers(served, "flights") not in (None, {"a": {}}))

            assert _readers(served, "flights") == {"a": {"0": 50}}


def test_a_reader_of_a_stream_made_again_reports_again(served: Served, stream: str) -> None:
    """A group that is gone with its stream comes back with its readers."""
    with reader(served, stream, group="g", reader="a", refresh_ms=20, wait_ms=200) as client:
        client.advance({0: 100})
        served.call("DELETE", f"/{stream}")
        served.create(stream)
        client.advance({0: 3})
        wait_until(lambda: _readers(served, stream) == {"a": {"0": 3}})
        client.offline()

        assert _readers(served, stream) == {}


def test_a_reader_without_a_group_cannot_go_offline(served: Served, stream: str) -> None:
    """There is no controller to notify."""
    with (
        reader(served, stream) as client,
        pytest.raises(Rejected, match="does not belong to a group"),
    ):
        client.offline()


def test_closing_does_not_wait_for_a_long_poll(served: Served, stream: str) -> None:
    """A reader ends long before a poll would, and so do its threads."""
    client = reader(served, stream, group="g", reader="a")
    time.sleep(0.05)
    began = time.monotonic()
    client.close()
    client.close()
    left = [
        t.name for t in threading.enumerate() if t.name.startswith(f"noted-time reader {stream}")
    ]

    assert (left, time.monotonic() - began < 20) == ([], True)


def test_names_are_checked_before_anything_is_asked(served: Served) -> None:
    """A bad name, or half of a reader's, is refused at once."""
    with pytest.raises(InvalidName, match="group 'a/b'"):
        ReaderClient(served.url, "flights", group="a/b", reader="r")
    with pytest.raises(Rejected, match="a reader of a group needs both names"):
        ReaderClient(served.url, "flights", group="g")


def _readers(served: Served, stream: str) -> object:
    try:
        return served.call("GET", f"/{stream}/reader-groups/g")["readers"]
    except httpx.HTTPStatusError:
        return None
