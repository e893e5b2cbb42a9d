"""Two replicas: whichever is asked, the answers are the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.replicas.served import HTTP, Two, lowers, make, note, seconds_until
from tests.support.page import Runner, steady

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.processes import ServeProcess

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("asked", ["owner", "other"])
def test_every_example_of_the_api_page_runs(two: Two, asked: str, tmp_path: Path) -> None:
    """In the order of the page, with the answers that it shows, through either replica."""
    owner, other = two.by_owner("flights")
    url = owner.url if asked == "owner" else other.url
    answers = Runner(tmp_path, url).run_page("docs/api.md")
    HTTP.delete(f"{url}/v1/streams/flights").raise_for_status()

    assert answers


Call = tuple[str, str, object]


OF_THE_REPLICA = {"date", "connection", "server", "noted-time-owner"}


def told(replica: ServeProcess, stream: str, calls: list[Call]) -> list[object]:
    """Make the calls for a stream; returns of each its status, headers and what stays the same.

    Headers but for those of the moment, and the one that says who has the stream.
    """
    found: list[object] = []
    with httpx.Client(base_url=replica.url, timeout=20) as client:
        for method, path, body in calls:
            sent = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
            headers = {"content-type": "application/json"} if sent else {}
            answer = client.request(
                method, f"/v1/streams/{stream}{path}", content=sent, headers=headers
            )
            kept = sorted(set(answer.headers) - OF_THE_REPLICA)
            text = answer.text.replace(stream, "NAME")
            found.append((method, path, answer.status_code, kept, steady(text) if text else ""))
    return found


def test_what_one_is_told_both_show(owner: ServeProcess, other: ServeProcess, name: str) -> None:
    """At once where the one that is asked was told, and soon at the other; to the last byte."""
    shown = []
    for noted, told_to, asked in ((5, owner, other), (7, other, owner), (9, other, other)):
        note(told_to, name, noted)
        seconds_until(lambda: lowers(asked, name)[-1][1] == noted)  # noqa: B023 - at once
    paths = ("", "/marks", "/cut?complete_to=6", "/explain", "/writers")
    for path in paths:
        answers = [HTTP.get(f"{each.url}/v1/streams/{name}{path}") for each in (owner, other)]
        shown.append([steady(answer.text) for answer in answers])

    assert [one == two for one, two in shown] == [True] * len(paths)
    assert lowers(other, name) == [(1, 5), (2, 7), (3, 9)]


def test_who_notes_where_the_stream_is_not_reads_its_mark_at_once(
    other: ServeProcess, name: str
) -> None:
    """The answer with the new lower came, so the mark is shown, without any wait."""
    with httpx.Client(base_url=f"{other.url}/v1/streams/{name}") as client:
        seen = []
        for noted in range(1, 41):
            client.post("/notes", json={"notes": [{"writer": "w", "time": noted}]})
            marks = client.get("/marks", params={"after": noted - 1}).json()["marks"]
            seen += [mark["lower"] for mark in marks]

    assert seen == list(range(1, 41))


def test_a_join_that_the_other_acknowledged_holds_time_at_once(
    owner: ServeProcess, other: ServeProcess, name: str
) -> None:
    """Whoever took it in: what is noted at the owner afterwards does not go beyond it."""
    note(owner, name, 5, "early")
    joined = note(other, name, None, "late")
    answer = HTTP.post(
        f"{owner.url}/v1/streams/{name}/notes", json={"notes": [{"writer": "early", "time": 9}]}
    )
    held = HTTP.get(f"{owner.url}/v1/streams/{name}/explain").json()["waiting_for"]

    assert (joined, answer.json()["results"], [each["writer"] for each in held]) == (
        200,
        [{"status": "accepted", "lower": 5}],
        ["late"],
    )


def test_a_stream_made_again_is_another_to_both(
    owner: ServeProcess, other: ServeProcess, name: str
) -> None:
    """Whoever removed it and whoever made it: its marks begin anew, under a new id."""
    first = HTTP.get(f"{other.url}/v1/streams/{name}").json()["id"]
    note(owner, name, 5)
    seconds_until(lambda: lowers(other, name) == [(1, 5)])
    HTTP.delete(f"{other.url}/v1/streams/{name}").raise_for_status()
    gone = [HTTP.get(f"{each.url}/v1/streams/{name}").status_code for each in (owner, other)]
    second = make(other, name)
    note(owner, name, 3)
    seconds_until(lambda: lowers(other, name) == [(1, 3)])
    ids = [HTTP.get(f"{each.url}/v1/streams/{name}").json()["id"] for each in (owner, other)]

    assert (gone, first != second, ids) == ([404, 404], True, [second, second])
