"""Requests of a writer are numbered, so that those that come late do no harm."""

from typing import Any

import httpx
import pytest

from noted_time.client import Backoff
from noted_time.values import SharedName
from tests.support.faults import Faults
from tests.support.served import Served
from writer_client import WriterClient
from writer_client.exchange import unix_us

SOON = Backoff(first_s=0.01, cap_s=0.05)
YEAR_US = 365 * 86_400_000_000


class Twin(httpx.BaseTransport):
    """Lets another process of the writer's name note before each of the next `times` requests."""

    def __init__(self, served: Served, stream: str, times: int, *, ahead_us: int) -> None:
        self.times = times
        self._served = served
        self._stream = stream
        self._ahead_us = ahead_us
        self._network = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on, overtaken or not."""
        if self.times:
            self.times -= 1
            said(self._served, self._stream, sequence=unix_us() + self._ahead_us)
        return self._network.handle_request(request)

    def close(self) -> None:
        """Give the network back."""
        self._network.close()


def said(served: Served, stream: str, **note: Any) -> list[str]:  # noqa: ANN401 - any JSON
    """Note as `UA` manually; returns the status."""
    notes = [{"writer": "UA", **note}]
    results = served.call("POST", f"/{stream}/notes", {"notes": notes})["results"]
    return [result["status"] for result in results]


def numbers(network: Faults) -> list[set[int]]:
    """Return the numbers of the notes of each request."""
    return [{note["sequence"] for note in body["notes"]} for body in network.bodies]


def test_each_request_has_a_higher_number(served: Served, stream: str) -> None:
    """Also a repeated one; all notes of a request share one."""
    served.create(stream, domains=["default", "ship"])
    network = Faults("no answer", "no connection", "nonsense")
    begun = unix_us()
    with WriterClient(served.url, stream, "UA", backoff=SOON, transport=network) as client:
        client.note_time(5, {0: 10})
        client.note_time(7, {0: 12}, domain="ship")
        client.flush()

    each = [number for (number,) in numbers(network)]
    assert (len(each) > 3, each, each[0] >= begun) == (True, sorted(set(each)), True)


def test_each_controller_is_sent_a_higher_number(served: Served, stream: str) -> None:
    """The one that did not answer may have it still."""
    network = Faults("no answer")
    urls = f"{served.url},{served.url}"
    with WriterClient(urls, stream, "UA", transport=network) as client:
        client.join()
        client.flush()
        (first,), (second,), *_ = numbers(network)

    assert first < second


def test_requests_that_come_late_change_nothing(served: Served, stream: str) -> None:
    """Every one that a writer ever made, but the last, is delivered once more when it has left."""
    network = Faults()
    with WriterClient(served.url, stream, "UA", backoff=SOON, transport=network) as client:
        for say in (client.join, client.idle, client.join):
            say()
            client.flush()
        client.note_time(5, {0: 10})
    before = served.writers(stream)

    url = f"{served.url}/v1/streams/{stream}/notes"
    late = [httpx.post(url, json=body, trust_env=False) for body in network.bodies[:-1]]

    statuses = {result["status"] for answer in late for result in answer.json()["results"]}
    assert (statuses, served.writers(stream)) == ({"superseded"}, before)


def test_a_clock_that_went_back_is_nothing_to_the_caller(served: Served, stream: str) -> None:
    """A writer whose former self was ahead continues from there."""
    former = unix_us() + YEAR_US
    said(served, stream, sequence=former)
    network = Faults()
    with WriterClient(served.url, stream, "UA", transport=network) as client:
        client.note_time(5, {0: 10})
        client.flush()
        client.note_time(6, {0: 11})
        client.flush()

    each = [number for (number,) in numbers(network)]
    assert (each[1:], served.writers(stream)["UA"]["times"]) == (
        [former + 1, former + 2],
        {"default": 6},
    )


def test_two_processes_of_one_name_are_reported(served: Served, stream: str) -> None:
    """The notes are kept, and arrive once the other has ended."""
    network = Twin(served, stream, 2, ahead_us=YEAR_US)
    with WriterClient(served.url, stream, "UA", backoff=SOON, transport=network) as client:
        client.note_time(5, {0: 10})
        with pytest.raises(SharedName, match="writer 'UA' are overtaken again and again"):
            client.flush()
        client.flush()

        assert served.writers(stream)["UA"]["times"] == {"default": 5}


def test_two_processes_that_take_turns_are_reported(served: Served, stream: str) -> None:
    """Each post of a writer whose clock is behind is overtaken once."""
    network = Twin(served, stream, 0, ahead_us=YEAR_US)
    with WriterClient(served.url, stream, "UA", backoff=SOON, transport=network) as client:
        for time in (5, 6):
            network.times = 1
            client.note_time(time, {0: 10})
            client.flush()
        network.times = 1
        client.note_time(7, {0: 10})
        with pytest.raises(SharedName):
            client.flush()
