"""A replica that forwards a request names the owner of the stream, and clients go there."""

from collections.abc import Callable, Iterator
from contextlib import closing

import httpx
import pytest

from noted_time.client import OWNER_HEADER, Question, stream_path
from noted_time.client.transport import Transport
from noted_time.values import Note
from tests.replicas.one_replica import HERE, OTHER, THERE, Replica
from writer_client.sending.exchange import Exchange
from writer_client.sending.pending_notes import PendingNote

A = "http://a"
B = "http://b"
ELSEWHERE = "http://elsewhere"


async def test_forwarded_answer_names_owner(this: Replica) -> None:
    """This holds for notes and other requests. The owner sends no header."""
    answers = [await this.client.get(f"/v1/streams/{name}/explain") for name in (HERE, THERE)]
    answers += [await this.note(name) for name in (HERE, THERE)]

    assert [answer.headers.get(OWNER_HEADER) for answer in answers] == [None, OTHER] * 2


class Replicas:
    """Controllers: `a` forwards to `owner`, and controllers of `away` cannot be reached."""

    def __init__(self) -> None:
        self.owner = B
        self.away: set[str] = set()
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Accept one note."""
        url = f"http://{request.url.host}"
        self.asked.append(url)
        if url in self.away:
            raise httpx.ConnectError("away", request=request)
        headers = {} if url == self.owner else {OWNER_HEADER: self.owner}
        results = [{"status": "accepted", "lower": 5}]
        return httpx.Response(200, json={"results": results}, headers=headers)


@pytest.fixture
def replicas() -> Replicas:
    """Two replicas; `b` owns the stream."""
    return Replicas()


@pytest.fixture
def post(replicas: Replicas) -> Iterator[Callable[[int], None]]:
    """Post that many notes, one after the other."""
    transport = Transport(f"{A},{B}", transport=httpx.MockTransport(replicas))
    exchange = Exchange(transport.controllers, "s")

    def post_notes(times: int) -> None:
        for _ in range(times):
            transport.run(exchange.post((PendingNote(Note("UA", 5), first_ticket=1, made=1),)))

    yield post_notes
    transport.close()


def test_clients_go_to_owner_of_their_stream(
    replicas: Replicas, post: Callable[[int], None]
) -> None:
    """A writer and a reader go there with the second request, and stay."""
    post(3)
    with closing(Transport(f"{A},{B}", transport=httpx.MockTransport(replicas))) as transport:
        for _ in range(3):
            transport.ask(Question("GET", stream_path("s")))

    assert replicas.asked == [A, B, B] * 2


def test_writer_asks_only_configured_controllers(
    replicas: Replicas, post: Callable[[int], None]
) -> None:
    """An answer cannot send its token to an unknown controller."""
    replicas.owner = ELSEWHERE
    post(3)

    assert replicas.asked == [A, A, A]


def test_writer_returns_later_to_failed_controller(
    replicas: Replicas, post: Callable[[int], None]
) -> None:
    """The writer tries an owner that it cannot reach again after a hundred notes."""
    replicas.away = {B}
    post(103)

    assert [n for n, url in enumerate(replicas.asked) if url == B] == [1, 103]
