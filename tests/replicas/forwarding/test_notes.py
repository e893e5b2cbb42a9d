"""Requests for a stream of another replica, which may be unavailable or no longer own it."""

import asyncio
from functools import partial
from unittest.mock import Mock

import httpx
import msgspec
import pytest
from structlog.testing import CapturingLogger

from controller.api.replicas import forwarding
from controller.api.replicas.forwarding import FRAME_BYTES, FRAMES_AT_ONCE, MOST_ITEMS, Item
from controller.api.wire.responses import NOT_MINE, PROBLEM, Answer
from controller.service.limits import Limits
from controller.store.records import ChangeSet, StreamRecord
from noted_time.values import StreamSettings
from tests.replicas.one_replica import (
    ELSEWHERE,
    HERE,
    OTHER,
    RESULTS,
    THERE,
    TROUBLES,
    Replica,
    decode_answers,
    encode_frame,
    list_codes,
    list_sizes,
    list_statuses,
    run_replica,
)
from tests.support.controllers import wait_until_async
from tests.support.gates import Guarded
from tests.support.http import places, problem


async def test_notes_are_forwarded_to_owner(this: Replica) -> None:
    """The answer of the owner is returned unchanged."""
    refusal = b'{"status":409,"code":"conflict"}'
    this.owner.answer = Mock(side_effect=[Answer.of(409, refusal, PROBLEM), RESULTS])
    refusal_reply = await this.note(THERE, "a")
    accepted_reply = await this.note(THERE, "a", "b")

    bodies = []
    for frame in this.owner.frames:
        bodies += [msgspec.json.decode(item.body)["notes"] for item in frame]
    assert (refusal_reply.status_code, refusal_reply.content) == (409, refusal)
    assert (accepted_reply.status_code, accepted_reply.content) == (RESULTS.status, RESULTS.body)
    first = {"writer": "a", "time": 5}
    second = {"writer": "b", "time": 5}
    assert bodies == [[first], [first, second]]


async def test_changed_secret_is_shown_to_owner(this: Replica) -> None:
    """A replica reads the secret again after a refusal, and sends the notes again."""
    this.owner.secret = this.store.replicas_secret()
    first = await this.note(THERE)
    this.owner.secret = this.store._secret = b"another"
    this.forwarding.secret._again_at = 0  # as a second later
    second = await this.note(THERE)

    assert ((first.status_code, second.status_code), len(this.owner.frames)) == ((200, 200), 3)


async def test_asked_replica_explains_refused_body(this: Replica) -> None:
    """It names all faults, while the owner names only the first fault of a frame."""
    this.owner.answer = Mock(return_value=Answer.of(422, b'{"errors":[1]}', PROBLEM))
    path = f"/v1/streams/{THERE}/notes"
    answer = await this.client.post(path, json={"notes": [{"writer": 1, "times": 2}]})
    refusal = await this.note(THERE)

    assert places(answer) == ["body.notes.0.writer", "body.notes.0.times"]
    assert refusal.json() == {"errors": [1]}


async def test_waiting_requests_share_frame(this: Replica) -> None:
    """Two hundred concurrent requests take a few frames, and each gets its own answer."""

    def repeat_body(item: Item) -> Answer:
        return Answer.of(200, item.body)

    this.owner.answer = repeat_body
    writers = [f"w{n}" for n in range(200)]
    answers = await asyncio.gather(*(this.note(THERE, writer) for writer in writers))

    assert [answer.json()["notes"][0]["writer"] for answer in answers] == writers
    assert sum(list_sizes(this.owner.frames)) == 200
    assert len(this.owner.frames) < 50


async def test_few_frames_are_sent_at_once(this: Replica) -> None:
    """Later requests wait until one of these frames is answered."""
    opened_event = asyncio.Event()
    this.owner.before = opened_event.wait
    requests = []
    for n in range(30):
        requests.append(asyncio.create_task(this.note(THERE, f"w{n}")))
        await asyncio.sleep(0.005)
    under_way = len(this.owner.frames)
    opened_event.set()
    answers = await asyncio.gather(*requests)

    assert (under_way, {*list_statuses(answers)}) == (FRAMES_AT_ONCE, {200})
    assert sum(list_sizes(this.owner.frames[:under_way])) < 15
    assert len(this.owner.frames) < 15


async def test_frames_are_bounded(this: Replica) -> None:
    """The bounds are in bytes, which the last request may exceed, and in requests."""
    body = {"notes": [{"writer": "w", "domain": "k" * 200}] * 1000}  # 0.23 MB
    requests = []
    for _ in range(20):
        request = this.client.post(f"/v1/streams/{THERE}/notes", json=body)
        requests.append(asyncio.create_task(request))
    await asyncio.gather(*requests)

    size = len(this.owner.frames[0][0].body)
    for frame in this.owner.frames:
        assert sum(len(item.body) for item in frame) < FRAME_BYTES + size
        assert len(frame) <= MOST_ITEMS


async def test_notes_wait_until_owner_has_stream(this: Replica) -> None:
    """The request is sent again to a replica that is not yet the owner."""
    this.owner.answer = Mock(side_effect=[NOT_MINE, NOT_MINE, RESULTS])
    answer = await this.note(THERE)

    assert (answer.status_code, len(this.owner.frames)) == (200, 3)


async def test_notes_wait_for_stream_without_owner(this: Replica) -> None:
    """They go to the next owner."""
    this.set_owner(None)  # and this replica has its share already
    await this.wait_for_owner(None)
    request = asyncio.create_task(this.note(THERE))
    await asyncio.sleep(0.3)
    before = len(this.owner.frames)
    this.set_owner(ELSEWHERE)

    assert (before, (await request).status_code, len(this.owner.frames)) == (0, 200, 1)


async def test_waiting_notes_are_taken_if_stream_moves_here(this: Replica) -> None:
    other_record = StreamRecord("id-there", THERE, StreamSettings(mark_interval_ms=0))
    this.store.commit(ChangeSet(other_record))
    this.owner.trouble = [httpx.ConnectError("it was killed")] * 1000
    request = asyncio.create_task(this.note(THERE))
    await this.wait_for_frames()
    this.set_owner(None, replicas=1)
    answer = await request

    assert answer.json() == {"refused": 0, "results": [{"status": "accepted", "lower": 5}]}
    assert this.controller.owns(THERE)


def name_type(trouble: Exception) -> str:
    return type(trouble).__name__


@pytest.mark.usefixtures("short_hold")
@pytest.mark.parametrize("trouble", TROUBLES, ids=name_type)
async def test_unreachable_owner_is_reported(
    this: Replica, trouble: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the hold, the caller gets a 503, and the log has the reason once."""
    this.owner.trouble = [trouble] * 1000
    monkeypatch.setattr(forwarding, "log", logger := CapturingLogger())
    answers = [await this.note(THERE), await this.explain(THERE)]

    for answer in answers:
        assert problem(answer)[:2] == (503, "no_owner")
        assert answer.headers["retry-after"] == "1"
    (call,) = logger.calls
    assert call.args == ("forwarding_failed",)


@pytest.mark.usefixtures("short_hold")
@pytest.mark.parametrize(
    "content",
    [b"", b"\xc1", msgspec.msgpack.encode([]), msgspec.msgpack.encode([RESULTS, RESULTS])],
    ids=["nothing", "no frame", "too few", "too many"],
)
async def test_invalid_answer_of_owner_counts_as_missing(this: Replica, content: bytes) -> None:

    def answer_with_content(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=content)

    transport = httpx.MockTransport(answer_with_content)
    this.forwarding.http_client = httpx.AsyncClient(transport=transport)

    assert problem(await this.note(THERE))[:2] == (503, "no_owner")


async def test_replica_without_owners_refuses_at_once(this: Replica) -> None:
    """Requests are not held while the replica reads the owners again."""
    this.controller._committer.ready = False
    answers = [await this.note(THERE), await this.explain(THERE)]
    this.controller._committer.ready = True

    assert list_codes(answers) == [(503, "unavailable")] * 2


@pytest.mark.parametrize(("requests", "writers"), [(5, 1), (1, 100)], ids=["requests", "bytes"])
async def test_waiting_requests_and_bytes_are_bounded(
    monkeypatch: pytest.MonkeyPatch, requests: int, writers: int
) -> None:
    """The next request is refused, and the waiting ones are answered."""
    monkeypatch.setattr(forwarding, "FORWARDED_BYTES", 1000)
    opened_event = asyncio.Event()
    names = [f"writer-{n}" for n in range(writers)]
    async with run_replica(limits=Limits(waiting_requests=5)) as replica:
        replica.owner.before = opened_event.wait
        asked = [asyncio.create_task(replica.note(THERE, *names)) for _ in range(requests)]
        await replica.wait_for_frames()
        over = await replica.note(THERE)
        opened_event.set()
        answers = [*await asyncio.gather(*asked), await replica.note(THERE)]

    assert problem(over)[:2] == (503, "overloaded")
    assert {*list_statuses(answers)} == {200}


async def test_token_is_forwarded() -> None:
    """The owner checks the token."""
    guard = Guarded()
    token = guard.token("write", writers=["w"])
    token_header = {"authorization": f"Bearer {token}"}
    async with run_replica(guard.gate) as replica:
        await replica.note(THERE, **token_header)
        answer_without = await replica.note(THERE)
        guard.revoke(token)
        answer_after_revoking = await replica.note(THERE, **token_header)

    ((item,),) = replica.owner.frames
    assert item.authorization == f"Bearer {token}".encode()
    assert list_statuses([answer_without, answer_after_revoking]) == [401, 401]


# Requests whose owner is unavailable or has changed


@pytest.mark.parametrize("trouble", TROUBLES, ids=name_type)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/notes"),
        ("GET", "/reader-groups/g"),
        ("PUT", "/reader-groups/g/readers/r"),
        ("DELETE", ""),
    ],
)
async def test_request_is_retried_unless_it_could_run_twice(
    this: Replica, method: str, path: str, trouble: Exception
) -> None:
    """A repeated note is harmless. After a deletion, the caller decides whether to repeat it."""
    this.owner.trouble = [trouble] * 2
    body: dict[str, object] = {"notes": [{"writer": "w"}]} if path == "/notes" else {"position": {}}
    answer = await this.client.request(method, f"/v1/streams/{THERE}{path}", json=body)

    times = len(this.owner.asked) + len(this.owner.frames)
    if method == "DELETE" and trouble not in TROUBLES[:2]:
        assert (*problem(answer)[:2], times) == (503, "unavailable", 1)
        assert answer.headers["retry-after"] == "1"
    else:
        assert (answer.status_code, times) == (200, 3)


async def test_misdirected_request_follows_stream(this: Replica) -> None:
    """The first receiver did not run it, so it is sent to the present owner."""

    def elsewhere(request: httpx.Request) -> httpx.Response:
        if request.url.host == "other":
            this.set_owner(ELSEWHERE)
            return httpx.Response(421)
        return httpx.Response(200, json={"at": request.url.host})

    this.owner.reply = elsewhere
    answer = await this.explain(THERE)

    assert answer.json() == {"at": "third"}


async def test_request_waiting_for_commit_follows_its_stream(this: Replica) -> None:
    """If the stream moves before the commit, the request is forwarded unchanged."""
    path = f"/v1/streams/{HERE}"
    body = {"mark_interval_ms": 7}

    def repeat_body(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=request.content)

    this.owner.reply = repeat_body
    put_answer, note_answer, report = await this.lose(
        partial(this.client.put, path, json=body),
        partial(this.note, HERE),
        partial(this.client.put, f"{path}/reader-groups/g/readers/r", json={"position": {}}),
    )

    assert (put_answer.json(), note_answer.content, report.json()) == (
        body,
        RESULTS.body,
        {"position": {}},
    )
    assert [request.method for request in this.owner.asked] == ["PUT", "PUT"]


async def test_waiting_poll_follows_its_stream(this: Replica) -> None:
    """It is forwarded as soon as the stream moves."""
    this.owner.reply = Mock(return_value=httpx.Response(200, json={"at": OTHER}))
    poll = this.client.get(f"/v1/streams/{HERE}/marks?wait_ms=30000")
    request = asyncio.create_task(poll)
    await wait_until_async(lambda: len(this.controller.polls) == 1)
    await this.lose()

    async with asyncio.timeout(20):
        assert (await request).json() == {"at": OTHER}
    (forwarded_poll,) = this.owner.asked
    assert forwarded_poll.url.host == "other"


async def test_forwarded_request_waiting_for_commit_is_misdirected(this: Replica) -> None:
    """The forwarding replica finds the new owner."""
    forwarded_headers = {"noted-time-forwarded": "1"}
    path = f"/v1/streams/{HERE}"
    item = Item(HERE, b"", b'{"notes":[{"writer":"w"}]}')
    put_answer, note_answer, frame = await this.lose(
        partial(this.client.put, path, json={}, headers=forwarded_headers),
        partial(this.note, HERE, **forwarded_headers),
        partial(this.send, encode_frame([item])),
    )

    assert [put_answer.status_code, note_answer.status_code] == [421, 421]
    assert decode_answers(frame.content) == [NOT_MINE]
    assert (this.owner.asked, this.owner.frames) == ([], [])


@pytest.mark.usefixtures("short_hold")
@pytest.mark.parametrize("url", ["http://[::1", "http://other:x", "http://other:99999"])
async def test_owner_with_invalid_url_counts_as_missing(this: Replica, url: str) -> None:
    """Callers get an error after the hold."""
    this.owner.trouble = [OverflowError("port must be 0-65535")] * 1000
    this.set_owner(url)
    await this.wait_for_owner(url)
    answer = await this.note(THERE)

    assert problem(answer)[:2] == (503, "no_owner")
