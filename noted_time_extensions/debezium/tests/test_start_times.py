"""The starts of transactions that heartbeats prove."""

import base64
import json

import pytest

from noted_time import Rejected
from noted_time_extensions.debezium.commit_times import NoTime, ProvenTime
from noted_time_extensions.debezium.start_times import StartTimes, read_heartbeat

NOW = 1_357_034_400_000  # 2013-01-01 10:00 UTC
KEY = b'["shop", {"server": "sales"}]'


def make_times(*, delay_ms: int = 0) -> StartTimes:
    times = StartTimes("sales.orders", ["shop"], delay_ms=delay_ms)
    commit(times, 1)
    times.finish_first_read()
    return times


def commit(times: StartTimes, lsn: int, *, now: int = NOW, **more: object) -> None:
    """Commit an offset whose last commit is at a place of the log."""
    offset = {"ts_usec": now * 1000, "lsn_commit": lsn, "lsn": lsn + 9, "lsn_proc": lsn + 9, **more}
    times.take(KEY, json.dumps(offset).encode(), now)
    times.reach_offsets()


def make_heartbeat(lsn: int, start: int, pid: int | None = None) -> bytes:
    oldest = {"start": start * 1000, "pid": pid, "application": "psql" if pid else None}
    content = base64.b64encode(json.dumps(oldest).encode()).decode()
    message = {"prefix": "noted-time", "content": content}
    return json.dumps({"op": "m", "source": {"lsn": lsn}, "message": message}).encode()


def beat(times: StartTimes, lsn: int, ago: int, pid: int | None = None, *, now: int = NOW) -> None:
    times.take_heartbeat("sales", make_heartbeat(lsn, NOW - ago, pid), now)
    times.reach_offsets()


def test_a_heartbeat_counts_once_its_place_is_committed() -> None:
    """The offset's other places may exceed it while earlier commits are outstanding."""
    times = make_times(delay_ms=100)
    beat(times, lsn=8, ago=5000)
    commit(times, 7)
    before = times.judge(NOW)
    commit(times, 8)

    assert before == NoTime("the next heartbeat message of connector 'shop' is awaited")
    assert times.judge(NOW) == ProvenTime(NOW - 5100)


def test_a_snapshot_holds_heartbeats_too() -> None:
    times = make_times()
    commit(times, 7, snapshot="INITIAL")
    beat(times, lsn=6, ago=5000)

    assert times.judge(NOW) == NoTime("connector 'shop' takes a snapshot (initial)")


def test_an_old_transaction_is_named() -> None:
    times = make_times()
    beat(times, lsn=2, ago=5000, pid=42)
    for seconds in (0, 30, 61):
        now = NOW + seconds * 1000
        beat(times, lsn=3, ago=5000, pid=42, now=now)
        commit(times, 5, now=now)
    claim = times.judge(NOW + 61_000)

    assert claim == ProvenTime(
        NOW - 5000,
        "the oldest transaction in the database of connector 'shop' began at "
        "2013-01-01T09:59:55Z: pid 42, psql",
    )


def test_missing_heartbeats_are_warned_of_once() -> None:
    times = make_times()
    for seconds in (61, 62, 63):
        commit(times, 5, now=NOW + seconds * 1000)
        claim = times.judge(NOW + seconds * 1000)
    (warning,) = times.pop_warnings()

    sentence = "connector 'shop' has sent no heartbeat message for a minute"
    assert claim == NoTime(sentence)
    assert warning.startswith(f"{sentence}: see the log of its worker. The query of")


def test_a_start_below_a_proven_one_is_counted() -> None:
    times = make_times(delay_ms=1000)
    for lsn, ago in ((2, 5000), (3, 5900), (4, 6500)):
        beat(times, lsn, ago)
    commit(times, 9)

    assert (times.judge(NOW), times.steps_back) == (ProvenTime(NOW - 6000), 1)
    assert (
        "began at 2013-01-01T09:59:53.500Z, below 2013-01-01T09:59:55Z" in (times.pop_warnings()[0])
    )


def test_a_missing_topic_of_heartbeats_is_the_reason() -> None:
    """The first heartbeat creates it."""
    times = make_times()
    times.miss_heartbeats("sales", "Kafka topic 'sales.message' is missing")
    missing = times.judge(NOW)
    beat(times, lsn=1, ago=5000)

    assert missing == NoTime("Kafka topic 'sales.message' is missing")
    assert times.judge(NOW) == ProvenTime(NOW - 5000)


def test_another_database_is_refused() -> None:
    times = StartTimes("sales.orders", ["shop"])

    with pytest.raises(Rejected, match="--by start is for PostgreSQL, and connector 'shop'"):
        times.take(KEY, b'{"ts_sec": 5, "file": "binlog.1", "pos": 4}', NOW)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"no JSON",
        b'{"source": {"lsn": 5}}',
        b'{"source": {"lsn": 5}, "message": {"prefix": "noted-time", "content": ""}}',
        b'{"source": {"lsn": 5}, "message": {"prefix": "noted-time", "content": "?"}}',
        b'{"source": {"lsn": 5}, "message": {"prefix": "other", "content": "e30="}}',
    ],
)
def test_other_messages_are_no_heartbeats(value: bytes | None) -> None:
    assert read_heartbeat(value) is None
