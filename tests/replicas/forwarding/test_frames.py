import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from controller.api.gate.access import FORWARDED_PATH
from controller.api.replicas.forwarding import MAX_FRAME, MOST_ITEMS, Item
from controller.api.replicas.shared_secret import SECRET_HEADER
from controller.api.wire.responses import NOT_MINE, Answer
from controller.service import long_reads
from controller.store.port import StoreUnavailable
from tests.replicas.one_replica import (
    HERE,
    THERE,
    Replica,
    decode_answers,
    encode_frame,
    list_statuses,
    run_replica,
)
from tests.support.gates import Guarded
from tests.support.http import problem


def encode_notes(*notes: dict[str, Any]) -> bytes:
    """Return the body of a request with these notes."""
    return msgspec.json.encode({"notes": notes})


async def send_items(replica: Replica, *items: Item) -> list[Answer]:
    """Send these items in a frame, and return the answers."""
    reply = await replica.send(encode_frame(list(items)))
    assert reply.status_code == 200
    return decode_answers(reply.content)


def list_item_statuses(answers: list[Answer]) -> set[int]:
    return {answer.status for answer in answers}


def read_code(answer: Answer) -> tuple[int, str]:
    """Return status and code of a refusal."""
    assert answer.headers[0] == (b"content-type", b"application/problem+json")
    return answer.status, msgspec.json.decode(answer.body)["code"]


def make_item(
    stream: str = HERE, body: bytes = encode_notes({"writer": "w"}), token: str = ""
) -> Item:
    """Return a request with notes that shows that token."""
    return Item(stream, f"Bearer {token}".encode() if token else b"", body)


async def test_item_of_later_version_may_be_longer(this: Replica) -> None:
    """The controller ignores other fields, and answers with the three fields of every version."""
    longer = [HERE, b"", encode_notes({"writer": "w"}), "a field of a later version"]
    reply = await this.send(msgspec.msgpack.encode([longer]))

    ((status, _, headers),) = msgspec.msgpack.decode(reply.content)
    assert (status, headers) == (200, [[b"content-type", b"application/json"]])


async def test_requests_of_frame_are_answered_in_order(this: Replica) -> None:
    """A refused request does not affect the others."""
    good = encode_notes({"writer": "w", "time": 5, "position": {"0": 3}})
    answers = await send_items(
        this,
        make_item(body=good),
        make_item(THERE),
        make_item(body=b"{"),
        make_item(body=encode_notes({"writer": "w", "time": 4})),
        make_item(body=encode_notes({"writer": "w", "times": 4})),
        make_item("not-made-yet-" + HERE),
        make_item(body=encode_notes({"writer": "w", "time": 7})),
    )

    assert answers[0].body == b'{"refused":0,"results":[{"status":"accepted","lower":5}]}'
    assert answers[6].body == b'{"refused":0,"results":[{"status":"accepted","lower":7}]}'
    assert (answers[0].status, answers[1], answers[6].status) == (200, NOT_MINE, 200)
    assert read_code(answers[2]) == (400, "malformed_json")
    assert read_code(answers[3]) == (422, "notes_refused")
    assert read_code(answers[4]) == (422, "invalid_request")
    assert answers[5] == NOT_MINE or read_code(answers[5]) == (404, "unknown_stream")


async def test_requests_of_one_writer_keep_their_order(this: Replica) -> None:
    """Rising times in one frame are all accepted."""
    items = [make_item(body=encode_notes({"writer": "w", "time": time})) for time in range(1, 301)]
    answers = await send_items(this, *items)

    assert list_item_statuses(answers) == {200}
    marks = this.controller.stream(HERE).history(None).after(0, 999)
    assert [mark.seq for mark in marks] == [*range(1, 301)]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/explain", None),
        ("POST", "/notes", {"notes": [{"writer": "w"}]}),
        ("PUT", "", {}),
        ("DELETE", "", None),
        ("POST", "/scale", {"sealed": {"0": 9}, "created": {"1": [0]}}),
        ("POST", "/truncate", {"cut": {"0": 3}}),
        ("PUT", "/reader-groups/g/readers/r", {"position": {"0": 3}}),
        ("POST", "/reader-groups/g/readers/r/offline", {"position": {"0": 1}}),
    ],
)
async def test_misdirected_request_is_not_forwarded_again(
    this: Replica, method: str, path: str, body: object
) -> None:
    """Two replicas that take each other for the owner do not forward it in circles."""
    forwarded_headers = {"noted-time-forwarded": "1"}
    url = f"/v1/streams/{THERE}{path}"
    answer = await this.client.request(method, url, json=body, headers=forwarded_headers)

    requests = this.owner.asked, this.owner.frames
    assert (answer.status_code, requests, this.store.streams()[1:]) == (421, ([], []), [])


async def test_failed_commit_is_reported_to_each_caller(this: Replica) -> None:
    """No note of the frame is accepted."""
    this.store.watch.failures = [StoreUnavailable("the disk is full")]
    answers = await send_items(this, make_item(), make_item())

    assert [read_code(answer) for answer in answers] == [(503, "unavailable")] * 2


# Authorization of requests


@pytest.fixture
async def replica_with_tokens() -> AsyncIterator[tuple[Replica, Guarded]]:
    """A replica that requires tokens, and the tokens."""
    guard = Guarded()
    guard.token("admin")
    async with run_replica(guard.gate) as replica:
        yield replica, guard


async def test_requests_of_frame_are_checked_by_their_tokens(
    replica_with_tokens: tuple[Replica, Guarded],
) -> None:
    """Each request of a frame is authorized as if it were sent alone."""
    replica, guard = replica_with_tokens
    revoked_token = guard.token("write")
    guard.revoke(revoked_token)
    tokens = {
        "": (401, "unauthenticated"),
        "nonsense": (401, "unauthenticated"),
        revoked_token: (401, "unauthenticated"),
        guard.token("read"): (403, "forbidden"),
        guard.token("write", streams=["another"]): (403, "forbidden"),
        guard.token("write", writers=["x"]): (403, "foreign_writer"),
    }
    good = [guard.token("write"), guard.token("write", streams=[HERE], writers=["w"])]
    items = [make_item(token=token) for token in (*tokens, *good)]
    answers = await send_items(replica, *items)

    assert [read_code(answer) for answer in answers[:-2]] == list(tokens.values())
    assert list_item_statuses(answers[-2:]) == {200}


async def test_frame_without_secret_is_refused(
    replica_with_tokens: tuple[Replica, Guarded],
) -> None:
    """Without the secret of the replicas, its body is not read, also with a valid token."""
    replica, guard = replica_with_tokens
    secret = replica.store.replicas_secret()
    token = {b"authorization": f"Bearer {guard.token('admin')}".encode()}
    header_sets = [
        {},
        {SECRET_HEADER: b""},
        {SECRET_HEADER: secret[:-1]},
        {SECRET_HEADER: secret + b"x"},
        token,
    ]
    with capture_logs() as logs:
        for headers in header_sets:
            answer = await replica.client.post(FORWARDED_PATH, content=b"x", headers=headers)
            assert problem(answer)[:2] == (403, "forbidden")
            assert secret.decode() not in answer.text

    assert secret.decode() not in repr(logs)


async def test_changed_secret_is_read_again(this: Replica) -> None:
    """The replica reads the secret again before it refuses a frame."""
    was = this.store.replicas_secret()
    assert (await this.send(encode_frame([]))).status_code == 200
    this.store._secret = b"another"
    now = asyncio.get_running_loop().time()
    this.forwarding.secret._again_at = now  # as a second later
    later_reply = await this.send(encode_frame([]))
    earlier_reply = await this.send(encode_frame([]), was)

    assert (later_reply.status_code, problem(earlier_reply)[:2]) == (200, (403, "forbidden"))


async def test_refused_frames_read_database_once_second(
    this: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(this.store, "replicas_secret", read_secret := Mock(return_value=b"secret"))
    replies = await asyncio.gather(*(this.send(b"", b"guessed") for _ in range(50)))

    assert ({*list_statuses(replies)}, read_secret.call_count) == ({403}, 1)


async def test_large_frame_lets_others_run(this: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies that do not fit are explained briefly: by their first fault, a few at a time.

    The clock of the test advances by a millisecond whenever it is read, which is once an item.
    """
    ticks = itertools.count(step=0.001)
    monkeypatch.setattr(long_reads, "perf_counter", ticks.__next__)
    bad = [{"writer": 1, "time": "x", "unknown": True}] * 40
    frame = encode_frame([make_item(body=encode_notes(*bad))] * 200)
    turns = 0

    async def beat() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    heart = asyncio.create_task(beat())
    answers = decode_answers((await this.send(frame)).content)
    heart.cancel()

    for answer in answers:
        assert len(msgspec.json.decode(answer.body)["errors"]) == 1
    assert turns > len(answers) / 10


# Invalid frames


async def test_frame_over_limit_is_refused(this: Replica) -> None:
    """A frame of exactly the limit is read."""
    empty_frame = encode_frame([make_item(body=b"")])
    body = b" " * (MAX_FRAME - len(empty_frame) - 3)  # its length takes five bytes then, not two
    whole_frame = encode_frame([make_item(body=body)])
    over = problem(await this.send(whole_frame + b" "))
    answers = await send_items(this, make_item(body=body))

    assert len(whole_frame) == MAX_FRAME
    assert (over[:2], read_code(answers[0])) == ((413, "too_large"), (400, "malformed_json"))


async def test_frame_with_too_many_requests_is_refused(this: Replica) -> None:
    """Half a million tiny requests would block the loop for seconds."""
    tiny = Item("", b"", b"")
    over = problem(await this.send(encode_frame([tiny] * (MOST_ITEMS + 1))))
    answers = await send_items(this, *[tiny] * MOST_ITEMS)

    assert (over[:2], len(answers)) == ((400, "malformed_frame"), MOST_ITEMS)


NAMES = st.one_of(st.sampled_from([HERE, THERE, "", "a/b", "✈", "x" * 300, "\x00"]), st.text())
ITEMS = st.builds(
    Item,
    stream=NAMES,
    authorization=st.one_of(st.just(b""), st.binary(max_size=40)),
    body=st.one_of(st.just(encode_notes({"writer": "w"})), st.binary(max_size=60)),
)
STATUSES = {200, 400, 404, 421, 422}


@pytest.fixture(scope="module")
async def hardy() -> AsyncIterator[Replica]:
    """A replica that all examples share."""
    async with run_replica() as replica:
        yield replica


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(ITEMS, max_size=5))
async def test_any_frame_has_answer_for_each_request(hardy: Replica, sent: list[Item]) -> None:
    """No answer is a server fault, and the next frame is accepted."""
    answers = await send_items(hardy, *sent)

    assert len(answers) == len(sent)
    assert list_item_statuses(answers) <= STATUSES
    assert (await send_items(hardy, make_item()))[0][0] == 200


def break_frame(items: list[Item], changes: list[tuple[float, int, bytes]]) -> bytes:
    """Return a frame with some of its bytes changed, removed or added."""
    frame = bytearray(encode_frame(items))
    for share, length, replacement in changes:
        begin = int(share * len(frame))
        frame[begin : begin + length] = replacement
    return bytes(frame)


CHANGES = st.tuples(st.floats(0, 1), st.integers(0, 4), st.binary(max_size=4))
BROKEN = st.builds(
    break_frame, st.lists(ITEMS, min_size=1, max_size=3), st.lists(CHANGES, min_size=1, max_size=3)
)
PARTS = st.one_of(st.none(), st.integers(-(2**63), 2**64 - 1), st.text(), st.binary())
OTHERS = st.recursive(PARTS, st.lists).map(msgspec.msgpack.encode)
"""Frames of anything else that can be packed."""


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=st.one_of(st.binary(), BROKEN, OTHERS))
@example(frame=b"\xdd\xff\xff\xff\xff")  # the largest number of requests
@example(frame=b"\x91\x93\xa1s\xc6\xff\xff\xff\xff")  # the largest length of a token
@example(frame=b"\x91\x93\xa1\xff\xc4\x00\xc4\x00")  # the name of the stream is not text
async def test_broken_frame_is_answered_or_refused(hardy: Replica, frame: bytes) -> None:
    """Each request of a valid frame is answered; an invalid frame is refused as a whole."""
    reply = await hardy.send(frame)

    if reply.status_code == 200:
        assert list_item_statuses(decode_answers(reply.content)) <= STATUSES
    else:
        assert problem(reply)[:2] == (400, "malformed_frame")
    assert (await send_items(hardy, make_item()))[0][0] == 200
