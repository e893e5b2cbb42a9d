"""Replicas as processes, their streams, and calls of them."""

from contextlib import suppress
from typing import Any, NamedTuple

import httpx

from controller.aggregation.owned_streams import bucket_of
from demo.trials.calls import HTTP
from demo.trials.waiting import wait_until
from noted_time.client import Json
from tests.support.processes import ServeProcess
from tests.support.scrapes import samples

BUCKETS = 64
ONLY_HERE = {"noted-time-forwarded": "1"}
"""Only the owner of the stream answers a request with this header."""


def wait_until_shared(*replicas: ServeProcess) -> None:
    """Wait until exactly these replicas share all buckets evenly, and know each other."""
    fair = -(-BUCKETS // len(replicas))

    def are_even() -> bool:
        counts = [read_buckets(each) for each in replicas]
        mine = [each.get("this", 0) for each in counts]
        known = all(each.get("this", 0) + each.get("other", 0) == BUCKETS for each in counts)
        return known and sum(mine) == BUCKETS and max(mine) <= fair

    wait_until(are_even)


def read_buckets(replica: ServeProcess) -> dict[str, float]:
    """Return the numbers of own, other and free buckets, as the replica sees them."""
    text = HTTP.get(f"{replica.url}/metrics", headers=replica.headers).text
    return {owner: count for (owner,), count in samples(text, "noted_time_buckets").items()}


def owns(replica: ServeProcess, stream: str) -> bool:
    """Return whether the replica owns the bucket of a stream, which need not exist."""
    shown = ONLY_HERE | replica.headers
    answer = HTTP.get(f"{replica.url}/v1/streams/{stream}/explain", headers=shown)
    return answer.status_code in {200, 404}


def find_owned_name(replica: ServeProcess, prefix: str = "s") -> str:
    """Return the name of a stream in a bucket of the replica."""
    seen: set[int] = set()
    for number in range(10 * BUCKETS):
        name = f"{prefix}-{number}"
        if bucket_of(name, BUCKETS) not in seen and owns(replica, name):
            return name
        seen.add(bucket_of(name, BUCKETS))
    raise AssertionError("the replica has no bucket")


def make_stream(replica: ServeProcess, stream: str, **settings: Any) -> str:  # noqa: ANN401 - any setting
    """Create a stream that marks every advance, unless the settings differ."""
    return str(replica.create(stream, **settings)["id"])


def note_time(replica: ServeProcess, stream: str, noted: int | None, writer: str = "w") -> int:
    """Note a time at ten times its offset, or join; returns the status of the answer."""
    said: Json = {"writer": writer}
    if noted is not None:
        said |= {"time": noted, "position": {"0": 10 * noted}}
    url = f"{replica.url}/v1/streams/{stream}/notes"
    return HTTP.post(url, json={"notes": [said]}).status_code


def read_lowers(replica: ServeProcess, stream: str) -> list[tuple[int, int]]:
    """Return seq and lower of the stream's marks."""
    return [(mark["seq"], mark["lower"]) for mark in replica.get(f"{stream}/marks")["marks"]]


def get_status(replica: ServeProcess, path: str) -> int:
    """Return the status of a GET, 0 if no replica answers."""
    with suppress(httpx.TransportError):
        return HTTP.get(f"{replica.url}{path}").status_code
    return 0


class Two(NamedTuple):
    """Two replicas of one database."""

    a: ServeProcess
    b: ServeProcess
