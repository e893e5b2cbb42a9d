"""Two replicas: whichever is asked, the answers are the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.replicas.served import HTTP, Two, has, lowers, make, note, seconds_until, stream_of
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

RISING = [{"writer": "a", "time": n, "position": {"0": 10 * n}, "max_time": n + 3} for n in (5, 7)]

CALLS: list[Call] = [
    ("POST", "/notes", {"notes": [{"writer": "a"}]}),
    ("PUT", "", {"mark_interval_ms": 0, "domains": ["default", "order_time"]}),
    ("PUT", "", {"domains": ["default"]}),
    ("PUT", "", {"mark_interval_ms": -1}),
    ("GET", "", None),
    ("POST", "/notes", {"notes": [{"writer": "a"}, {"writer": "b", "time": 4}]}),
    ("POST", "/notes", {"notes": RISING}),
    ("POST", "/notes", {"notes": RISING[:1]}),
    ("POST", "/notes?whatever=1", {"notes": [{"writer": "b", "state": "finished"}]}),
    ("POST", "/notes", {"notes": [{"writer": "b", "state": "idle"}]}),
    ("GET", "/marks?atfer=1", None),
    ("GET", "/reader-groups?limit=0", None),
    ("POST", "/notes", {"notes": [{"writer": "a", "domain": "ship_time", "time": 1}]}),
    ("POST", "/notes", {"notes": [{"writer": "a", "domain": "order_time", "time": 3}]}),
    ("POST", "/notes", {"notes": [{"writer": "b", "state": "finished", "position": {"1": 2}}]}),
    ("POST", "/notes", {"notes": []}),
    ("POST", "/notes", {"note": []}),
    ("POST", "/notes", b"{"),
    ("POST", "/notes", b" " * (1024 * 1024 + 1)),
    ("POST", "/notes", {"notes": [{"writer": "a", "time": 9, "position": {"0": 90, "1": 5}}]}),
    ("GET", "/notes", None),
    ("GET", "/explain", None),
    ("GET", "/explain?domain=order_time", None),
    ("GET", "/explain?domain=ship_time", None),
    ("GET", "/writers?limit=1", None),
    ("GET", "/writers?start=1", None),
    ("GET", "/writers?limit=0", None),
    ("GET", "/writers/a", None),
    ("GET", "/writers/nobody", None),
    ("POST", "/writers/a/hold", {"for_ms": 60_000}),
    ("POST", "/writers/a/hold", {"for_ms": 0}),
    ("DELETE", "/writers/a/hold", None),
    ("GET", "/explain?exclude=a&domain=order_time", None),
    ("GET", "/explain?exclude=nobody", None),
    ("DELETE", "/writers/nobody", None),
    ("GET", "/ledger?domain=order_time", None),
    ("GET", "/ledger?limit=0", None),
    ("PUT", "?comment=it%20is%20slow", {"writer_timeout_ms": 70_000}),
    ("PUT", "?comment=two%0Alines", {"writer_timeout_ms": 80_000}),
    ("DELETE", "/writers/a?unless_noted_since=0&comment=gone", None),
    ("GET", "/changes", None),
    ("GET", "/changes?limit=1&before=2", None),
    ("GET", "/changes?before=0", None),
    ("GET", "/ledger?order=newest", None),
    ("GET", "/writers?domain=order_time&search=a", None),
    ("GET", "/writers?domain=ship_time", None),
    ("GET", "/explain?limit=1", None),
    ("GET", "/history?from=0&to=9000000000000&points=1", None),
    ("GET", "/history?from=5&to=5", None),
    ("GET", "/history?points=0", None),
    ("GET", "/marks", None),
    ("GET", "/marks?after=1&limit=1", None),
    ("GET", "/marks?domain=order_time&wait_ms=10&after=9", None),
    ("GET", "/marks?domain=ship_time", None),
    ("GET", "/marks?wait_ms=30001", None),
    ("GET", "/cut?complete_to=5", None),
    ("GET", "/cut?complete_to=500", None),
    ("GET", "/windows?size_ms=2", None),
    ("GET", "/windows?size_ms=2&origin=1&after=-5&limit=3", None),
    ("GET", "/windows?after=5&wait_ms=10", None),
    ("GET", "/windows?size_ms=0", None),
    ("POST", "/time-window", {"position": {"0": 70}}),
    ("POST", "/time-window", {"position": {"0": -1}}),
    ("POST", "/segment-times", {"position": {"0": 70}}),
    ("POST", "/segment-times", {"position": {"0": 70}, "domain": "ship_time"}),
    ("PUT", "/reader-groups/g/readers/r", {"position": {"0": 70}}),
    ("PUT", "/reader-groups/g/readers/q", {"position": {"1": 1}}),
    ("PUT", "/reader-groups/g/readers/q", {"backlog": True}),
    ("PUT", "/reader-groups/g", {"backlog": {"behind_ms": 1}}),
    ("PUT", "/reader-groups/g", {"backlog": {"behind_ms": 0}}),
    ("GET", "/reader-groups", None),
    ("GET", "/reader-groups/g", None),
    ("GET", "/reader-groups/h", None),
    ("POST", "/reader-groups/g/readers/r/offline", {"position": {"0": 50}}),
    ("POST", "/reader-groups/g/readers/x/offline", {"position": {}}),
    ("POST", "/scale", {"sealed": {"0": 90}, "created": {"2": [0], "3": [0]}}),
    ("POST", "/scale", {"sealed": {"9": 1}, "created": {}}),
    ("POST", "/time-window", {"position": {"2": 0}}),
    ("POST", "/truncate?dry_run=true", {"cut": {"0": 70, "1": 5}}),
    ("GET", "/segments", None),
    ("GET", "/segments?start=1&limit=1&domain=order_time", None),
    ("POST", "/truncate", {"cut": {"0": 70, "1": 5}}),
    ("POST", "/seal", {"cut": {"0": 1}}),
    ("POST", "/seal?comment=the%20end", {"cut": {"3": 9}}),
    ("POST", "/seal", {}),
    ("POST", "/notes", {"notes": [{"writer": "a", "time": 9000}]}),
    ("GET", "/cut?complete_to=500&wait_ms=30000", None),
    ("GET", "/marks?after=9&wait_ms=30000", None),
    ("GET", "/explain?domain=order_time", None),
    ("GET", "/segments", None),
    ("GET", "/marks", None),
    ("GET", "", None),
    ("PATCH", "", {}),
    ("GET", "/nothing", None),
    ("DELETE", "", None),
    ("DELETE", "", None),
    ("GET", "/marks", None),
    ("POST", "/notes", {"notes": [{"writer": "a"}]}),
    ("PUT", "", None),
    ("GET", "/marks", None),
    ("GET", "/writers", None),
    ("DELETE", "", None),
]

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


def test_every_call_is_answered_alike(owner: ServeProcess, other: ServeProcess) -> None:
    """Good and bad ones: status, headers and body are those that the owner itself would give."""
    streams = [stream_of(owner, prefix) for prefix in ("one", "two")]

    assert told(owner, streams[0], CALLS) == told(other, streams[1], CALLS)


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


def test_the_list_of_streams_is_whole_through_both(two: Two) -> None:
    """Whoever made them and whoever has them, page by page."""
    names = [f"listed-{n:02}" for n in range(12)]
    for n, each in enumerate(names):
        make(two[n % 2], each)
    pages = [listed(replica, 5) for replica in two]
    for n, each in enumerate(names):
        HTTP.delete(f"{two[n % 2].url}/v1/streams/{each}").raise_for_status()

    assert [page & set(names) for page in pages] == [set(names)] * 2
    assert len({has(two.a, each) for each in names}) == 2


def listed(replica: ServeProcess, limit: int) -> set[str]:
    """Return the names of all streams that a replica lists, a page at a time."""
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        query = f"after={after}&limit={limit}"
        page = HTTP.get(f"{replica.url}/v1/streams?{query}").json()
        found += [each["name"] for each in page["streams"]]
        after = page["next"]
    assert found == sorted(set(found))
    return set(found)


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
