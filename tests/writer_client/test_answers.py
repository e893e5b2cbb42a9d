"""When notes are posted, faults of the sender, and numbers of requests."""

from collections.abc import Callable
from typing import Any

import pytest

from noted_time import UnknownStream, Unreachable
from noted_time.values import Accepted, ClientFailed
from tests.support.faults import Faults
from tests.writer_client.scripted import SOON, URL, Scripted, hasty
from tools.trials.served import Served
from writer_client import Pace, WriterClient
from writer_client.sending.answers import NotesReply
from writer_client.sending.exchange import unix_us
from writer_client.sending.notices import Notices
from writer_client.sending.outbox import Outbox
from writer_client.sending.posting import Posting


def make_client(network: Scripted, **options: Any) -> WriterClient:  # noqa: ANN401 - its own
    """Return a client that retries quickly."""
    return WriterClient(
        "s", "UA", controller=URL, pace=Pace(backoff=SOON), transport=network, **options
    )


def test_a_flush_posts_at_once_and_forgets_the_last_refusal() -> None:
    """Without an answer in time, `Unreachable` has no cause."""
    outbox = Outbox("UA")
    posting = Posting(outbox, Pace(), Notices("s", "UA", URL, None), now=0)
    outbox.note(5, {})
    ticket = outbox.last_ticket
    posting.settle(outbox.take(), UnknownStream("s"), now=0)
    posting.hurry()
    with pytest.raises(Unreachable, match="not durable within 0 s: no answer") as error:
        posting.get_outcome(ticket, 0)

    assert (error.value.__cause__, posting.wait_s(0)) == (None, 0)


def test_a_post_waits_for_the_clock_or_until_the_writer_is_idle() -> None:
    """A wait that is almost over is rounded up, so no loop spins."""
    outbox = Outbox("UA")
    beats = list[float]()
    notices = Notices("s", "UA", URL, None)
    posting = Posting(
        outbox, Pace(), notices, now=0, idle_after_ms=1500, beat=lambda: beats.append(1)
    )
    outbox.change_state("live", {})
    posting.settle(outbox.take(), NotesReply((Accepted(None),)), now=0)
    waits = [posting.wait_s(now) for now in (0, 0.75, 1, 1.4995, 1.5)]

    assert (waits, beats, outbox.state) == ([1, 0.25, 0.5, 0.001, 0], [1], "idle")


def test_dead_sender_is_raised_by_every_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An internal fault must not look like success; the error has its cause."""
    fault = KeyError("an internal fault")
    client = make_client(Scripted())

    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(client._outbox, "record_answer", fail)
    client.note_time(5, {0: 10})
    calls: list[Callable[[], object]] = [
        client.flush,
        lambda: client.note_time(6, {0: 10}),
        client.join,
        client.idle,
        client.wrote,
        client.finish,
        client.close,
    ]
    causes = []
    for call in calls:
        with pytest.raises(ClientFailed, match="failed and no longer sends: KeyError") as up:
            call()
        causes.append(up.value.__cause__)

    assert causes == [fault] * len(calls)
    died = "writer 'UA' of stream 's': its sender failed"
    unsent = (
        f"writer 'UA' of stream 's': notes not delivered to {URL}: 1 (last time 5); "
        "the last error: 'an internal fault'"
    )
    log_lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert log_lines == [("CRITICAL", died), ("WARNING", unsent)]


# Numbers of requests; a controller ignores late ones


def numbers(network: Faults) -> list[set[int]]:
    """Return the numbers of the notes of each request."""
    numbers_of_requests = []
    for body in network.bodies:
        numbers_of_requests.append({note["sequence"] for note in body["notes"]})
    return numbers_of_requests


def test_each_request_has_a_higher_number(served: Served, stream: str) -> None:
    """Repeated requests get a new number, which all their notes share."""
    served.create(stream, domains=["default", "ship"])
    network = Faults("no answer", "no connection", "nonsense")
    begin_us = unix_us()
    with hasty(served, stream, network) as client:
        client.note_time(5, {0: 10})
        client.note_time(7, {0: 12}, domain="ship")
        client.flush()

    request_numbers = [number for (number,) in numbers(network)]
    assert (len(request_numbers) > 3, request_numbers, request_numbers[0] >= begin_us) == (
        True,
        sorted(set(request_numbers)),
        True,
    )


def test_each_controller_is_sent_a_higher_number(served: Served, stream: str) -> None:
    """The controller that did not answer may still receive the request."""
    network = Faults("no answer")
    urls = f"{served.url},{served.url}"
    with WriterClient(stream, "UA", controller=urls, transport=network) as client:
        client.join()
        client.flush()
        (first,), (second,), *_ = numbers(network)

    assert first < second
