"""What becomes of a request whose owner is away, or is another by now."""

import asyncio

import httpx
import pytest

from controller.api.answers import NOT_MINE
from controller.api.forwarding import Item
from tests.replicas.played import (
    ELSEWHERE,
    HERE,
    RESULTS,
    THERE,
    TROUBLES,
    Played,
    answers_of,
    frame_of,
)
from tests.support.controllers import until
from tests.support.http import problem


@pytest.mark.parametrize("trouble", TROUBLES[:2], ids=lambda each: type(each).__name__)
async def test_a_request_that_reached_no_replica_is_forwarded_again(
    this: Played, trouble: Exception
) -> None:
    """It was not done."""
    this.owner.trouble = [trouble] * 2
    answer = await this.client.delete(f"/v1/streams/{THERE}")

    assert (answer.status_code, len(this.owner.asked)) == (200, 3)


@pytest.mark.parametrize("trouble", TROUBLES[2:], ids=lambda each: type(each).__name__)
async def test_a_request_that_may_have_been_taken_is_not_passed_on_again(
    this: Played, trouble: Exception
) -> None:
    """Its caller decides whether to ask again."""
    this.owner.trouble = [trouble]
    answer = await this.client.delete(f"/v1/streams/{THERE}")

    assert (problem(answer)[:2], answer.headers["retry-after"], len(this.owner.asked)) == (
        (503, "unavailable"),
        "1",
        1,
    )


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("trouble", TROUBLES[2:], ids=lambda each: type(each).__name__)
async def test_what_done_twice_is_done_once_is_passed_on_again(
    this: Played, trouble: Exception, method: str
) -> None:
    """Reads, settings and reports need not fail because a replica that stops hangs up."""
    path = f"/v1/streams/{THERE}/reader-groups/g" + ("/readers/r" if method == "PUT" else "")
    this.owner.trouble = [trouble] * 2
    answer = await this.client.request(method, path, json={"position": {}})

    assert (answer.status_code, len(this.owner.asked)) == (200, 3)


async def test_a_misdirected_request_follows_the_stream(this: Played) -> None:
    """Its first receiver has not done it: it is sent to the owner at that time."""

    def elsewhere(request: httpx.Request) -> httpx.Response:
        if request.url.host == "other":
            this.now_has(ELSEWHERE)
            return httpx.Response(421)
        return httpx.Response(200, json={"at": request.url.host})

    this.owner.reply = elsewhere
    answer = await this.client.get(f"/v1/streams/{THERE}/explain")

    assert answer.json() == {"at": "third"}


async def test_a_request_is_answered_here_if_the_stream_comes_here(this: Played) -> None:
    """With the body that it brought."""
    this.owner.trouble = [httpx.ConnectError("it was killed")] * 1000
    path = f"/v1/streams/{THERE}"
    asked = asyncio.create_task(this.client.put(path, json={"mark_interval_ms": 7}))
    await until(lambda: bool(this.owner.asked))
    this.now_has(None, replicas=1)
    answer = await asked

    assert (answer.status_code, answer.json()["mark_interval_ms"]) == (201, 7)


async def test_a_request_that_waits_for_a_commit_follows_its_stream(this: Played) -> None:
    """The stream goes to the other before its turn comes: so does the request, as it came."""
    path, body = f"/v1/streams/{HERE}", {"mark_interval_ms": 7}
    this.owner.reply = lambda request: httpx.Response(200, content=request.content)
    put, noted, report = await this.lose(
        lambda: this.client.put(path, json=body),
        lambda: this.note(HERE),
        lambda: this.client.put(f"{path}/reader-groups/g/readers/r", json={"position": {}}),
    )

    assert (put.json(), noted.content, report.json()) == (body, RESULTS.body, {"position": {}})
    assert [request.method for request in this.owner.asked] == ["PUT", "PUT"]


async def test_a_forwarded_request_that_waits_for_a_commit_is_misdirected(this: Played) -> None:
    """The forwarding replica finds out by itself where the stream went."""
    forwarded = {"noted-time-forwarded": "1"}
    path = f"/v1/streams/{HERE}"
    item = Item(HERE, b"", b'{"notes":[{"writer":"w"}]}')
    put, noted, frame = await this.lose(
        lambda: this.client.put(path, json={}, headers=forwarded),
        lambda: this.note(HERE, **forwarded),
        lambda: this.send(frame_of([item])),
    )

    assert (put.status_code, noted.status_code, answers_of(frame.content)) == (421, 421, [NOT_MINE])
    assert (this.owner.asked, this.owner.frames) == ([], [])


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("url", ["http://[::1", "http://other:x", "http://other:99999"])
async def test_an_owner_with_an_unreadable_url_counts_as_missing(this: Played, url: str) -> None:
    """No matter what left it there: callers get an error in the end, and none hangs for ever."""
    this.owner.trouble = [OverflowError("port must be 0-65535")] * 1000
    this.now_has(url)
    await until(lambda: this.controller.ownership.owner_url(THERE) == url)
    answer = await this.note(THERE)

    assert problem(answer)[:2] == (503, "no_owner")
