"""All other requests for a stream that another replica has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from controller.store.port import Batch, StreamRecord
from tests.replicas.played import HERE, OTHER, RESULTS, THERE, Played, settings
from tests.support.stored import mark

if TYPE_CHECKING:
    from controller.api.frames import Item
    from controller.api.notes import Answer

pytestmark = pytest.mark.anyio


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
