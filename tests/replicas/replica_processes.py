"""Replicas as processes, their streams, and calls of them."""

from typing import NamedTuple

from controller.aggregation.owned_streams import bucket_of
from tests.support.processes import ServeProcess
from tests.support.scrapes import samples
from tools.trials.calls import HTTP
from tools.trials.waiting import wait_until

BUCKETS = 64
ONLY_HERE = {"noted-time-forwarded": "1"}
"""Only the owner of the stream answers a request with this header."""


def wait_until_shared(*replicas: ServeProcess) -> None:
    """Wait until exactly these replicas share all buckets evenly, and know each other."""
    fair = -(-BUCKETS // len(replicas))

    def are_even() -> bool:
        counts = []
        for replica in replicas:
            buckets = read_buckets(replica)
            count = buckets.get("this", 0)
            if count + buckets.get("other", 0) != BUCKETS:
                return False
            counts.append(count)
        return sum(counts) == BUCKETS and max(counts) <= fair

    wait_until(are_even)


def read_buckets(replica: ServeProcess) -> dict[str, float]:
    """Return the numbers of own, other and free buckets, as the replica sees them."""
    text = HTTP.get(f"{replica.url}/metrics", headers=replica.headers).text
    return {owner: count for (owner,), count in samples(text, "noted_time_buckets").items()}


def owns(replica: ServeProcess, stream: str) -> bool:
    """Return whether the replica owns the bucket of a stream, which need not exist."""
    headers = ONLY_HERE | replica.headers
    answer = HTTP.get(f"{replica.url}/v1/streams/{stream}/explain", headers=headers)
    return answer.status_code in {200, 404}


def find_owned_name(replica: ServeProcess, prefix: str = "s") -> str:
    """Return the name of a stream in a bucket of the replica."""
    seen_buckets: set[int] = set()
    for number in range(10 * BUCKETS):
        name = f"{prefix}-{number}"
        if bucket_of(name, BUCKETS) not in seen_buckets and owns(replica, name):
            return name
        seen_buckets.add(bucket_of(name, BUCKETS))
    raise AssertionError("the replica has no bucket")


def note_time(replica: ServeProcess, stream: str, time: int) -> int:
    """Note a time at ten times its offset, and return the status of the answer."""
    note = {"writer": "w", "time": time, "position": {"0": 10 * time}}
    return replica.ask("POST", f"/streams/{stream}/notes", {"notes": [note]}).status_code


def read_lowers(replica: ServeProcess, stream: str) -> list[tuple[int, int]]:
    """Return seq and lower of the stream's marks."""
    return [(mark["seq"], mark["lower"]) for mark in replica.get(f"{stream}/marks")["marks"]]


class Two(NamedTuple):
    """Two replicas of one database."""

    a: ServeProcess
    b: ServeProcess
