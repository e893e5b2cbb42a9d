"""Requests that are forwarded unchanged, and the advertised URL of a replica."""

import asyncio

import httpx
import pytest

from controller.api.sockets.server import normalize_url
from noted_time import Rejected
from tests.replicas.one_replica import ELSEWHERE, HERE, OTHER, THERE, Replica

REQUEST_ID = "00f1e2d3c4b5a697"
NO_STORE = {"cache-control": "no-store"}


async def test_other_requests_are_forwarded_unchanged(this: Replica) -> None:
    """Method, path, query, body and the relevant headers are forwarded once."""
    path = f"/v1/streams/{THERE}/reader-groups/g%2F/readers/r?a=%20b&a=2"
    sent_headers = {"authorization": "Bearer x", "cookie": "c", "x-forwarded-for": "1.2.3.4"}
    sent_headers["noted-request"] = REQUEST_ID
    await this.client.put(path, json={"position": {}}, headers=sent_headers)
    (request,) = this.owner.asked

    passed_names = {"authorization", "content-type", "accept", "noted-time-forwarded", "cookie"}
    assert (request.method, str(request.url)) == ("PUT", f"{OTHER}{path}")
    assert request.content == b'{"position":{}}'
    assert {name: request.headers[name] for name in passed_names & request.headers.keys()} == {
        "authorization": "Bearer x",
        "content-type": "application/json",
        "accept": "*/*",
        "noted-time-forwarded": "1",
    }
    assert not {"x-forwarded-for", "noted-request"} & request.headers.keys()


async def test_forwarded_answers_are_unchanged(this: Replica) -> None:
    """Status, body and the relevant headers are returned."""
    answer_headers = {
        "retry-after": "7",
        "content-type": "text/x",
        "www-authenticate": "Bearer",
        "allow": "GET",
    }
    this.owner.reply = lambda _: httpx.Response(
        418, content=b"tea", headers=answer_headers | {"server": "other", "connection": "close"}
    )
    answer = await this.client.get(f"/v1/streams/{THERE}/explain")

    assert (answer.status_code, answer.content) == (418, b"tea")
    assert dict(answer.headers) == answer_headers | NO_STORE | {
        "content-length": "3",
        "noted-time-owner": OTHER,
    }


async def test_forwarded_answer_has_the_id_of_its_own_request(this: Replica) -> None:
    """It is from the replica that was reached, whatever the owner answers."""
    this.owner.reply = lambda _: httpx.Response(200, json={}, headers={"noted-request": "0" * 16})
    answers = [
        await this.client.get(
            f"/v1/streams/{THERE}/explain", headers={"noted-request": REQUEST_ID}
        ),
        await this.note(THERE, **{"noted-request": REQUEST_ID}),
        await this.client.get(f"/v1/streams/{THERE}/explain"),
    ]

    request_ids = [answer.headers.get_list("noted-request") for answer in answers]
    assert request_ids == [[REQUEST_ID], [REQUEST_ID], []]


async def test_answer_without_body_has_no_length(this: Replica) -> None:
    """A 204 must not have a length."""
    this.owner.reply = lambda _: httpx.Response(204)
    forwarded_answer = await this.client.delete(f"/v1/streams/{THERE}")
    own_answer = await this.client.delete(f"/v1/streams/{HERE}")

    assert (own_answer.status_code, dict(own_answer.headers)) == (204, NO_STORE)
    assert forwarded_answer.status_code == 204
    assert dict(forwarded_answer.headers) == {"noted-time-owner": OTHER} | NO_STORE


async def test_timeout_of_forwarded_poll_includes_its_wait(this: Replica) -> None:
    """The timeout is the wait and the usual timeout."""
    path = f"/v1/streams/{THERE}"
    await this.client.get(f"{path}/marks?wait_ms=20000")
    await this.client.post(f"{path}/completeness", json={"to": 5, "wait_ms": 20000})

    assert [request.extensions["timeout"]["read"] for request in this.owner.asked] == [24, 24]


@pytest.fixture
async def waiting_poll(this: Replica) -> asyncio.Task[httpx.Response]:
    """A long poll that only a third replica answers."""

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "other":
            await asyncio.Event().wait()
        return httpx.Response(200, json={"at": request.url.host})

    this.forwarding.http_client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    poll = this.client.get(f"/v1/streams/{THERE}/marks?wait_ms=20000")
    return asyncio.create_task(poll)


async def test_long_poll_follows_its_stream(
    this: Replica, waiting_poll: asyncio.Task[httpx.Response]
) -> None:
    await asyncio.sleep(0.1)
    this.set_owner(ELSEWHERE)

    assert (await waiting_poll).json() == {"at": "third"}


async def test_long_poll_ends_when_replica_stops(
    this: Replica, waiting_poll: asyncio.Task[httpx.Response]
) -> None:
    """The caller gets a 503 at once."""
    await asyncio.sleep(0.1)
    this.controller.prepare_to_stop()

    async with asyncio.timeout(4):  # less than other requests are held
        assert (await waiting_poll).status_code == 503


@pytest.mark.parametrize(
    "path",
    [
        "/v1/streams/a b/notes",
        "/v1/streams//notes",
        f"/v1/streams/{'x' * 250}/notes",
        "/v1/streams/a✈/explain",
    ],
)
async def test_invalid_stream_name_is_not_forwarded(this: Replica, path: str) -> None:
    """It is refused by the replica that received it."""
    method = "POST" if path.endswith("notes") else "GET"
    answer = await this.client.request(method, path, json={"notes": [{"writer": "w"}]})

    assert answer.status_code in {404, 405, 422}
    assert (this.owner.asked, this.owner.frames) == ([], [])


# The advertised URL


@pytest.mark.parametrize(
    "url", ["http://replica-1:7464", "https://r/", "http://[::1]:7464", "http://gateway/replica-1/"]
)
def test_advertised_url_is_normalized(url: str) -> None:
    """A slash at the end is removed, because paths are appended."""
    assert normalize_url(url) == url.removesuffix("/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "replica-1",
        "replica-1:7464",
        "ftp://replica-1",
        "http://",
        "http:///v1",
        "http://[::1",
        "http://replica-1:port",
        "http://replica-1?x=1",
        "http://replica-1#x",
        "http://user:secret@replica-1",
        "http://replica-1\n:7464",
    ],
)
def test_invalid_url_is_not_advertised(url: str) -> None:
    """The refusal does not repeat a password."""
    with pytest.raises(Rejected, match="--advertise") as refusal:
        normalize_url(url)

    assert "secret" not in str(refusal.value)
