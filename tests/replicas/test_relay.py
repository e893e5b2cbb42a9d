from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import msgspec
import pytest

from controller.api import relay
from controller.api.frames import MOST_ITEMS, Item, answers_of, frame_of
from controller.api.lanes import FRAME_BYTES, FRAMES_AT_ONCE
from controller.api.notes import NOT_MINE
from controller.api.server import to_call
from controller.service.limits import Limits
from controller.store.port import Batch, StreamRecord
from noted_time import Rejected
from tests.replicas.played import HERE, OTHER, RESULTS, THERE, Played, played, settings
from tests.support.controllers import until
from tests.support.gates import Guarded
from tests.support.http import problem
from tests.support.stored import mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from controller.api.notes import Answer

pytestmark = pytest.mark.anyio

ELSEWHERE = "http://third"
TROUBLES = [
    httpx.ConnectError("nobody listens"),
    httpx.ConnectTimeout("no way there"),
    httpx.ReadTimeout("no answer"),
    httpx.RemoteProtocolError("hung up"),
    httpx.ReadError("broken off"),
]


@pytest.fixture
async def this() -> AsyncIterator[Played]:
    """A replica that asks for no tokens."""
    async with played() as made:
        yield made


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is held look again soon."""
    monkeypatch.setattr(relay, "LOOK_AGAIN_S", 0.01)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests wait for an owner for a moment only."""
    monkeypatch.setattr(relay, "HOLD_S", 0.05)


def refusing(times: int, answer: Answer = NOT_MINE) -> Callable[[Item], Answer]:
    """Return what an owner answers that refuses so many requests first."""
    left = times

    def answered(_: Item) -> Answer:
        nonlocal left
        left -= 1
        return RESULTS if left < 0 else answer

    return answered


# Notes


async def test_notes_go_to_the_owner_and_its_answer_comes_back(this: Played) -> None:
    """Whatever it is, word for word."""
    refusal = b'{"status":409,"code":"conflict"}'
    this.owner.answer = refusing(1, (409, "application/problem+json", refusal))
    refused, taken = await this.note(THERE, "a"), await this.note(THERE, "a", "b")

    bodies = [
        msgspec.json.decode(item.body)["notes"] for frame in this.owner.frames for item in frame
    ]
    assert [(answer.status_code, answer.content) for answer in (refused, taken)] == [
        (409, refusal),
        (RESULTS[0], RESULTS[2]),
    ]
    assert bodies == [
        [{"writer": "a", "time": 5}],
        [{"writer": "a", "time": 5}, {"writer": "b", "time": 5}],
    ]


async def test_notes_for_a_stream_that_is_here_stay_here(this: Played) -> None:
    """Nobody else is asked."""
    answer = await this.note(HERE)

    assert (answer.json()["results"][0]["lower"], this.owner.frames) == (5, [])


async def test_what_waits_together_travels_together(this: Played) -> None:
    """Two hundred requests at once take a few frames, and each gets its own answer."""
    this.owner.answer = lambda item: (200, "application/json", item.body)
    answers = await asyncio.gather(*(this.note(THERE, f"w{n}") for n in range(200)))

    told = [answer.json()["notes"][0]["writer"] for answer in answers]
    assert (told, sum(map(len, this.owner.frames)), len(this.owner.frames) < 50) == (
        [f"w{n}" for n in range(200)],
        200,
        True,
    )


async def test_meanwhile_the_next_frame_gathers(this: Played) -> None:
    """Only a few are under way to one replica; what comes later waits for one of them."""
    opened = asyncio.Event()

    async def wait() -> None:
        await opened.wait()

    this.owner.before = wait
    asked = []
    for n in range(30):
        asked.append(asyncio.create_task(this.note(THERE, f"w{n}")))
        await asyncio.sleep(0.005)
    under_way = len(this.owner.frames)
    opened.set()
    answers = await asyncio.gather(*asked)

    assert (under_way, {answer.status_code for answer in answers}) == (FRAMES_AT_ONCE, {200})
    assert sum(map(len, this.owner.frames[:under_way])) < 15
    assert len(this.owner.frames) < 15


async def test_no_frame_is_larger_than_its_owner_takes(this: Played) -> None:
    """Neither in bytes, but for the request that goes beyond, nor in requests."""
    body = {"notes": [{"writer": "w", "key": "k" * 200}] * 1000}  # 0.23 MB
    large = [
        asyncio.create_task(this.client.post(f"/v1/streams/{THERE}/notes", json=body))
        for _ in range(20)
    ]
    await asyncio.gather(*large)

    sizes = [sum(len(item.body) for item in frame) for frame in this.owner.frames]
    size = len(this.owner.frames[0][0].body)
    assert max(sizes) < FRAME_BYTES + size
    assert max(map(len, this.owner.frames)) <= MOST_ITEMS


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: type(each).__name__)
async def test_notes_are_passed_on_again_where_no_answer_came(
    this: Played, trouble: Exception
) -> None:
    """Whether they were taken or not: a note that was taken is taken again as a replay."""
    this.owner.trouble = [trouble] * 3
    answer = await this.note(THERE)

    assert (answer.status_code, len(this.owner.frames)) == (200, 4)


async def test_notes_wait_until_the_owner_has_the_stream(this: Played) -> None:
    """One that says that it has it not, or not yet, is asked again."""
    this.owner.answer = refusing(2)
    answer = await this.note(THERE)

    assert (answer.status_code, len(this.owner.frames)) == (200, 3)


async def test_notes_wait_for_a_stream_that_nobody_has(this: Played) -> None:
    """And go to whoever comes to have it."""
    this.now_has(None)  # and this replica has its share already
    await until(lambda: this.controller.elsewhere(THERE) is None)
    asked = asyncio.create_task(this.note(THERE))
    await asyncio.sleep(0.3)
    before = len(this.owner.frames)
    this.now_has(ELSEWHERE)

    assert (before, (await asked).status_code, len(this.owner.frames)) == (0, 200, 1)


async def test_notes_are_taken_here_where_the_stream_comes_here(this: Played) -> None:
    """As if it had been here from the first."""
    this.store.commit(Batch(streams=[StreamRecord("id-there", THERE, settings())]))
    this.owner.trouble = [httpx.ConnectError("it was killed")] * 1000
    asked = asyncio.create_task(this.note(THERE))
    await until(lambda: bool(this.owner.frames))
    this.now_has(None, replicas=1)
    answer = await asked

    assert (answer.json(), this.controller.has(THERE)) == (
        {"results": [{"status": "accepted", "lower": 5}]},
        True,
    )


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: type(each).__name__)
async def test_an_owner_that_is_not_to_be_reached_is_told_in_the_end(
    this: Played, trouble: Exception
) -> None:
    """After the hold, with the status by which a caller tries again; none hangs for ever."""
    this.owner.trouble = [trouble] * 1000
    answer = await this.note(THERE)

    assert (problem(answer)[:2], answer.headers["retry-after"]) == ((503, "no_owner"), "1")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "content",
    [b"", b"\xc1", msgspec.msgpack.encode([]), msgspec.msgpack.encode([RESULTS, RESULTS])],
    ids=["nothing", "no frame", "too few", "too many"],
)
async def test_an_owner_that_answers_nonsense_is_as_good_as_none(
    this: Played, content: bytes
) -> None:
    """No answer is given to a request that is not its own."""
    client = httpx.MockTransport(lambda _: httpx.Response(200, content=content))
    this.relay._client = httpx.AsyncClient(transport=client)

    assert problem(await this.note(THERE))[:2] == (503, "no_owner")


async def test_a_replica_that_knows_of_no_owner_yet_says_so_at_once(this: Played) -> None:
    """While it reads anew who has what, nothing is held."""
    this.controller._committer.ready = False
    answers = [await this.note(THERE), await this.client.get(f"/v1/streams/{THERE}/explain")]
    this.controller._committer.ready = True

    assert [problem(answer)[:2] for answer in answers] == [(503, "unavailable")] * 2


async def test_no_more_wait_than_may() -> None:
    """The next one is told to come back, and those that wait are answered."""
    opened = asyncio.Event()
    async with played(limits=Limits(waiting_requests=5)) as this:

        async def wait() -> None:
            await opened.wait()

        this.owner.before = wait
        asked = [asyncio.create_task(this.note(THERE)) for _ in range(5)]
        await until(lambda: bool(this.owner.frames))
        over = await this.note(THERE)
        opened.set()
        answers = await asyncio.gather(*asked)
        after = await this.note(THERE)

    assert (problem(over)[:2], {each.status_code for each in (*answers, after)}) == (
        (503, "overloaded"),
        {200},
    )


async def test_no_more_bytes_wait_than_may(this: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few large requests fill the memory as many small ones do; one alone always has room."""
    opened = asyncio.Event()

    async def wait() -> None:
        await opened.wait()

    this.owner.before = wait
    monkeypatch.setattr(relay, "MOST_BYTES", 100)
    writers = [f"writer-{n}" for n in range(100)]
    asked = [asyncio.create_task(this.note(THERE, *writers))]
    await until(lambda: bool(this.owner.frames))
    over = await this.note(THERE)
    opened.set()
    answers = [await asked[0], await this.note(THERE)]

    assert (problem(over)[:2], [each.status_code for each in answers]) == (
        (503, "overloaded"),
        [200, 200],
    )


async def test_the_token_goes_along() -> None:
    """The one that was shown here, which the owner judges by itself."""
    guard = Guarded()
    token = guard.token("write", writers=["w"])
    shown = {"authorization": f"Bearer {token}"}
    async with played(guard.gate) as this:
        await this.note(THERE, **shown)
        refused = await this.note(THERE)
        guard.revoke(token)
        revoked = await this.note(THERE, **shown)

    assert [item.authorization for frame in this.owner.frames for item in frame] == [
        f"Bearer {token}".encode()
    ]
    assert [each.status_code for each in (refused, revoked)] == [401, 401]


# Other requests


async def test_other_requests_go_as_they_are(this: Played) -> None:
    """Method, path, query and body; of the headers those that matter; and once only."""
    path = f"/v1/streams/{THERE}/reader-groups/g%2F/readers/r?a=%20b&a=2"
    shown = {"authorization": "Bearer x", "cookie": "c", "x-forwarded-for": "1.2.3.4"}
    await this.client.put(path, json={"position": {}}, headers=shown)
    (asked,) = this.owner.asked

    passed = {"authorization", "content-type", "accept", "noted-time-relayed", "cookie"}
    assert (asked.method, str(asked.url), asked.content) == (
        "PUT",
        f"{OTHER}{path}",
        b'{"position":{}}',
    )
    assert {name: asked.headers[name] for name in passed & asked.headers.keys()} == {
        "authorization": "Bearer x",
        "content-type": "application/json",
        "accept": "*/*",
        "noted-time-relayed": "1",
    }
    assert "x-forwarded-for" not in asked.headers


async def test_their_answers_come_back_as_they_are(this: Played) -> None:
    """Status and body, and the headers that mean something to a caller."""
    given = {
        "retry-after": "7",
        "content-type": "text/x",
        "www-authenticate": "Bearer",
        "allow": "GET",
    }
    this.owner.reply = lambda _: httpx.Response(
        418, content=b"tea", headers=given | {"server": "other", "connection": "close"}
    )
    answer = await this.client.get(f"/v1/streams/{THERE}/explain")

    assert (answer.status_code, answer.content, dict(answer.headers)) == (
        418,
        b"tea",
        given | {"content-length": "3"},
    )


async def test_an_answer_without_a_body_says_nothing_of_its_length(this: Played) -> None:
    """As the owner's own has it: a 204 must not name one."""
    this.owner.reply = lambda _: httpx.Response(204)
    relayed = await this.client.delete(f"/v1/streams/{THERE}")
    own = await this.client.delete(f"/v1/streams/{HERE}")

    assert (relayed.status_code, dict(relayed.headers)) == (own.status_code, dict(own.headers))


READS_OF_MARKS = [
    ("GET", f"/v1/streams/{THERE}"),
    ("GET", f"/v1/streams/{THERE}/marks"),
    ("GET", f"/v1/streams/{THERE}/cut?complete_to=1"),
    ("POST", f"/v1/streams/{THERE}/time-window"),
]


@pytest.mark.parametrize(("method", "path"), READS_OF_MARKS)
async def test_what_marks_tell_is_told_on_the_spot(this: Played, method: str, path: str) -> None:
    """From the database; the owner is not asked."""
    record = StreamRecord("id-there", THERE, settings())
    this.store.commit(Batch(streams=[record], marks=[mark(1, "id-there")]))
    body = {"position": {"0": 10}} if method == "POST" else None
    answer = await this.client.request(method, path, json=body)

    assert (answer.status_code, this.owner.asked) == (200, [])


async def test_who_changed_a_stream_elsewhere_reads_the_change(this: Played) -> None:
    """The marks that the owner has made by its answer are shown, before any notice of them."""
    this.store.commit(Batch(streams=[StreamRecord("id-there", THERE, settings())]))

    def take(_: Item) -> Answer:
        seq = len(this.owner.frames)
        this.store.commit(Batch(marks=[mark(seq, "id-there")]))
        return RESULTS

    this.owner.answer = take
    seen = []
    for _ in range(3):
        await this.note(THERE)
        answer = await this.client.get(f"/v1/streams/{THERE}/marks")
        seen.append([each["seq"] for each in answer.json()["marks"]])

    assert seen == [[1], [1, 2], [1, 2, 3]]


@pytest.mark.parametrize("trouble", TROUBLES[:2], ids=lambda each: type(each).__name__)
async def test_a_request_that_reached_nobody_is_passed_on_again(
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
    """Whoever it was sent to has not done it: it is sent to who has the stream by then."""

    def elsewhere(request: httpx.Request) -> httpx.Response:
        if request.url.host == "other":
            this.now_has(ELSEWHERE)
            return httpx.Response(421)
        return httpx.Response(200, json={"at": request.url.host})

    this.owner.reply = elsewhere
    answer = await this.client.get(f"/v1/streams/{THERE}/explain")

    assert answer.json() == {"at": "third"}


async def test_a_request_is_answered_here_where_the_stream_comes_here(this: Played) -> None:
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

    assert (put.json(), noted.content, report.json()) == (body, RESULTS[2], {"position": {}})
    assert [request.method for request in this.owner.asked] == ["PUT", "PUT"]


async def test_a_relayed_request_that_waits_for_a_commit_is_misdirected(this: Played) -> None:
    """Whoever passed it on finds out himself where the stream went."""
    relayed = {"noted-time-relayed": "1"}
    path = f"/v1/streams/{HERE}"
    item = Item(HERE, b"", b'{"notes":[{"writer":"w"}]}')
    put, noted, frame = await this.lose(
        lambda: this.client.put(path, json={}, headers=relayed),
        lambda: this.note(HERE, **relayed),
        lambda: this.client.post("/v1/relay", content=frame_of([item])),
    )

    assert (put.status_code, noted.status_code, answers_of(frame.content)) == (
        421,
        421,
        [NOT_MINE],
    )
    assert (this.owner.asked, this.owner.frames) == ([], [])


@pytest.mark.usefixtures("impatient")
async def test_a_request_for_an_owner_that_is_away_is_told_in_the_end(this: Played) -> None:
    """As notes are."""
    this.owner.trouble = [httpx.ConnectError("nobody listens")] * 1000
    answer = await this.client.get(f"/v1/streams/{THERE}/writers")

    assert (problem(answer)[:2], answer.headers["retry-after"]) == ((503, "no_owner"), "1")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("url", ["http://[::1", "http://other:x", "http://other:99999"])
async def test_an_owner_whose_url_cannot_be_read_is_as_good_as_none(this: Played, url: str) -> None:
    """Whoever let it in: callers are told in the end, and none hangs for ever."""
    this.owner.trouble = [OverflowError("port must be 0-65535")] * 1000
    this.now_has(url)
    await until(lambda: this.controller.elsewhere(THERE) == url)
    answer = await this.note(THERE)

    assert problem(answer)[:2] == (503, "no_owner")


@pytest.mark.parametrize(
    ("url", "called"),
    [
        ("http://replica-1:7464", "http://replica-1:7464"),
        ("https://replica-1/", "https://replica-1"),
        ("http://[::1]:7464", "http://[::1]:7464"),
        ("http://gateway/replica-1/", "http://gateway/replica-1"),
    ],
)
def test_others_call_by_the_url_that_is_advertised(url: str, called: str) -> None:
    """A slash at its end is left out, where paths are added."""
    assert to_call(url) == called


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
def test_what_nobody_could_call_is_not_advertised(url: str) -> None:
    """It is refused with a sentence, before anything is served."""
    with pytest.raises(Rejected, match="--advertise"):
        to_call(url)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/streams/a b/notes",
        "/v1/streams//notes",
        f"/v1/streams/{'x' * 250}/notes",
        "/v1/streams/a✈/explain",
    ],
)
async def test_what_names_no_stream_goes_nowhere(this: Played, path: str) -> None:
    """It is refused here, whichever bucket such a name might fall into."""
    method = "POST" if path.endswith("notes") else "GET"
    answer = await this.client.request(method, path, json={"notes": [{"writer": "w"}]})

    assert (answer.status_code in {404, 405, 422}, this.owner.asked, this.owner.frames) == (
        True,
        [],
        [],
    )
