"""Marks as server-sent events, from a replica that does not own the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.replicas.served import note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.processes import ServeProcess

pytestmark = pytest.mark.acceptance


def ids(answer: httpx.Response) -> Iterator[str]:
    """Yield the ids of the events."""
    return (line for line in answer.iter_lines() if line.startswith("id: "))


def test_events_come_from_whichever_replica_is_asked(
    owner: ServeProcess, other: ServeProcess, name: str
) -> None:
    """The one that is asked polls the owner; marks come as they are made."""
    seen = []
    for number, replica in enumerate((owner, other)):
        url = f"{replica.url}/v1/streams/{name}/marks?after={number}"
        with httpx.stream("GET", url, headers={"accept": "text/event-stream"}) as answer:
            coming = ids(answer)
            note(owner, name, 5 + 2 * number)
            seen.append(next(coming))

    assert seen == ["id: 1", "id: 2"]


def test_what_is_refused_is_refused_alike(owner: ServeProcess, other: ServeProcess) -> None:
    """Before any event is sent, by the status."""
    shown = []
    for replica in (owner, other):
        url = f"{replica.url}/v1/streams/nope/marks"
        answer = httpx.get(url, headers={"accept": "text/event-stream"})
        shown.append((answer.status_code, answer.json()["code"]))

    assert shown == [(404, "unknown_stream")] * 2
