"""An alignment of streams that are not all its owner's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.replicas.served import HTTP, make, note, stream_of

if TYPE_CHECKING:
    from tests.support.processes import ServeProcess

pytestmark = pytest.mark.acceptance


def put(replica: ServeProcess, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """PUT the body; returns the answer."""
    return HTTP.put(f"{replica.url}/v1/{path}", json=body).raise_for_status().json()


def test_a_member_is_where_a_group_of_the_other_controllers_stream_is(
    owner: ServeProcess, other: ServeProcess, name: str
) -> None:
    """Whichever of both is asked; a stream is unknown wherever it would be."""
    far = stream_of(other, "far")
    make(other, far)
    for replica, stream, noted in ((owner, name, 5), (other, far, 50)):
        note(replica, stream, noted)
        position = {"position": {"0": 1000}}
        put(replica, f"streams/{stream}/reader-groups/g/readers/r", position)
    alignment = f"alignments/{stream_of(owner, 'aligned')}"
    put(other, alignment, {"max_drift": 10})
    group = {"stream": far, "group": "g"}
    bounds = [
        put(replica, f"{alignment}/members/far", group)["bound"] for replica in (owner, other)
    ]
    near = put(other, f"{alignment}/members/near", {"stream": name, "group": "g"})
    unknown = {"stream": stream_of(other, "none"), "group": "g"}
    refused = HTTP.put(f"{owner.url}/v1/{alignment}/members/x", json=unknown).json()["code"]
    shown = [HTTP.get(f"{replica.url}/v1/{alignment}").json() for replica in (owner, other)]

    assert (bounds, near["bound"], near["held_by"], refused) == (
        [60, 60],
        15,
        "near",
        "unknown_stream",
    )
    assert [each["members"].keys() for each in shown] == [{"far", "near"}] * 2
