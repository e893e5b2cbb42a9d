"""The time that the offsets of connectors prove, and each reason for no time."""

import json
from typing import Any

import pytest

from noted_time import Rejected
from noted_time_extensions.debezium.commit_times import (
    CommitTimes,
    NoTime,
    ProvenTime,
    find_source_name,
)

NOW = 1_357_034_400_000  # 2013-01-01 10:00 UTC
SECOND = 1000


def make_times(*connectors: str, topic: str = "sales.orders", **options: Any) -> CommitTimes:  # noqa: ANN401 - any option
    return CommitTimes(topic, connectors or ("shop",), **options)


def make_offset(time: int, lsn: int, **more: object) -> dict[str, object]:
    """Return an offset of PostgreSQL whose commit was at a time in ms."""
    return {"ts_usec": time * 1000 + 999, "lsn_commit": lsn, **more}


def take(
    times: CommitTimes,
    content: dict[str, object] | None,
    *,
    connector: str = "shop",
    server: str = "sales",
    now: int = NOW,
) -> None:
    value = None if content is None else json.dumps(content).encode()
    times.take(json.dumps([connector, {"server": server}]).encode(), value, now)


def take_all(times: CommitTimes, *contents: dict[str, object] | None) -> None:
    for content in contents:
        take(times, content)
    times.finish_first_read()


def read_reason(times: CommitTimes, now: int = NOW) -> str:
    claim = times.judge(now)
    assert isinstance(claim, NoTime)
    return claim.reason


def test_time_is_the_lesser_of_the_last_two_commits() -> None:
    times = make_times(delay_ms=100)
    take_all(times, make_offset(NOW - 3000, 1), make_offset(NOW - 2000, 2))

    assert times.judge(NOW) == ProvenTime(NOW - 3100)


def test_one_commit_proves_no_time() -> None:
    """Its time may be the clock of the worker."""
    times = make_times()
    take_all(times, make_offset(NOW - 3000, 1), make_offset(NOW - 2000, 1))

    assert read_reason(times) == "the next commit that connector 'shop' reads is awaited"


@pytest.mark.parametrize(
    ("mark", "kind"),
    [
        ({"snapshot": True}, "initial"),
        ({"snapshot": "INITIAL"}, "initial"),
        ({"incremental_snapshot_collections": "[]"}, "incremental"),
    ],
)
def test_a_snapshot_holds_and_the_clock_begins_again(mark: dict[str, object], kind: str) -> None:
    times = make_times()
    take_all(times, make_offset(NOW - 9000, 1), make_offset(NOW - 8000, 2))
    take(times, make_offset(NOW - 7000, 2, **mark))
    during = read_reason(times)
    take(times, make_offset(NOW - 6000, 2))
    after = read_reason(times)
    take(times, make_offset(NOW - 5000, 3))

    assert during == f"connector 'shop' takes a snapshot ({kind})"
    assert after == "the next commit that connector 'shop' reads is awaited"
    assert times.judge(NOW) == ProvenTime(NOW - 6000)


def test_time_ahead_of_the_clock_waits() -> None:
    times = make_times(delay_ms=5000)
    take_all(times, make_offset(NOW + 1, 1), make_offset(NOW + 9000, 2))

    assert read_reason(times) == (
        "the time of connector 'shop', 2013-01-01T10:00:00.001Z, is ahead of this machine's clock"
    )
    assert times.judge(NOW + 2) == ProvenTime(NOW + 1 - 5000)


def test_the_least_time_of_all_connectors_counts() -> None:
    times = make_times("shop", "bank", topic="sales.orders")
    for commit, lsn in ((1, 1), (4, 2)):
        take(times, make_offset(NOW - 9000 + commit, lsn))
        take(times, make_offset(NOW - 8000 + commit, lsn), connector="bank")
    times.finish_first_read()

    assert times.judge(NOW) == ProvenTime(NOW - 8999)


def test_the_least_of_two_parts_counts() -> None:
    times = make_times(topic="sales.orders", routed=True)
    for server, ago in (("sales", 9000), ("stock", 3000)):
        take(times, make_offset(NOW - ago, 1), server=server)
        take(times, make_offset(NOW - ago + 1, 2), server=server)
    times.finish_first_read()

    assert times.judge(NOW) == ProvenTime(NOW - 9000)
    assert times.list_prefixes() == ["sales", "stock"]


@pytest.mark.parametrize(
    "contents",
    [
        [{"ts_sec": 1_357_034_390, "file": "binlog.1", "pos": each} for each in (4, 9)],
        [{"sec": 1_357_034_390, "ord": each, "resume_token": "a"} for each in (1, 2)],
    ],
)
def test_whole_seconds_count_from_their_start(contents: list[dict[str, object]]) -> None:
    times = make_times()
    take_all(times, *contents)

    assert times.judge(NOW) == ProvenTime(1_357_034_390_000)


@pytest.mark.parametrize(
    "offset", [{"commit_lsn": "0000a", "change_lsn": "0000b"}, {"scn": "4711", "commit_scn": "47"}]
)
def test_offsets_without_commit_time_are_refused(offset: dict[str, object]) -> None:
    with pytest.raises(Rejected) as refusal:
        take(make_times(), offset)

    assert str(refusal.value) == (
        "the offsets of connector 'shop' have no commit time, for example those for SQL Server, "
        "Oracle and Db2: use `noted-time observe kafka field BOOTSTRAP sales.orders "
        "--field source.ts_ms --delay 5m`, whose delay is a guess"
    )


def test_connector_that_is_not_of_debezium_is_refused() -> None:
    with pytest.raises(Rejected, match="connector 'shop' is not one of Debezium"):
        make_times().take(b'["shop", {"protocol": "1", "table": "a"}]', b'{"incrementing": 5}', 0)


@pytest.mark.parametrize("topic", ["salesorders", "sales", "my.sales.orders", "sales2.orders"])
def test_a_topic_of_another_prefix_is_refused(topic: str) -> None:
    with pytest.raises(Rejected, match=r"its topics begin with 'sales\.'"):
        take(make_times(topic=topic), make_offset(NOW, 1))


@pytest.mark.parametrize("key", [None, b"7", b"no JSON", b'["shop"]', b'["shop", "sales"]'])
def test_a_topic_that_has_no_offsets_is_refused(key: bytes | None) -> None:
    with pytest.raises(Rejected, match="has no offsets of Kafka Connect, for example the key"):
        make_times().take(key, b"{}", NOW)


def test_an_unknown_connector_holds_and_is_warned_of_once() -> None:
    times = make_times("shop", "shpo")
    take(times, make_offset(NOW, 1))
    take(times, make_offset(NOW, 1), connector="bank")
    times.finish_first_read()
    times.finish_first_read()
    sentence = (
        "Kafka topic 'connect-offsets' has no offset of connector 'shpo', but of 'bank' and 'shop'"
    )

    assert (times.pop_warnings(), times.pop_warnings()) == ([sentence], [])
    assert read_reason(times) == sentence


def test_no_connector_at_all_holds() -> None:
    times = make_times()
    times.finish_first_read()

    assert read_reason(times).endswith("and of no other: see whether it runs, or correct --offsets")


def test_offsets_that_are_not_read_to_their_end_prove_nothing() -> None:
    times = make_times()
    take(times, make_offset(NOW - 3000, 1))
    take(times, make_offset(NOW - 2000, 2))

    assert read_reason(times) == "Kafka topic 'connect-offsets' is being read"


def test_a_deleted_offset_holds_until_its_snapshot_is_over() -> None:
    times = make_times()
    take_all(times, make_offset(NOW - 9000, 1), make_offset(NOW - 8000, 2), None)
    reason = read_reason(times)
    take(times, make_offset(NOW - 7000, 2, snapshot=True))
    take(times, make_offset(NOW - 6000, 2))
    take(times, make_offset(NOW - 5000, 3))

    assert reason == "the offset of connector 'shop' was deleted"
    assert times.judge(NOW) == ProvenTime(NOW - 6000)


@pytest.mark.parametrize("accepts", [False, True])
def test_a_gap_holds_until_it_is_accepted(*, accepts: bool) -> None:
    times = make_times(accepts_gaps=accepts)
    take_all(times, make_offset(NOW - 9000, 1), None, make_offset(NOW - 8000, 2))
    take(times, make_offset(NOW - 7000, 3))

    if accepts:
        assert times.judge(NOW) == ProvenTime(NOW - 8000)
    else:
        assert "was deleted and came again without a snapshot" in read_reason(times)
        assert read_reason(times).endswith("start the observer once with --accept-gap")


def test_a_gap_after_the_start_is_not_accepted_beforehand() -> None:
    times = make_times(accepts_gaps=True)
    take_all(times, make_offset(NOW - 9000, 1), make_offset(NOW - 8000, 2))
    take(times, None)
    take(times, make_offset(NOW - 7000, 3))
    take(times, make_offset(NOW - 6000, 4))

    assert "came again without a snapshot" in read_reason(times)


def test_an_accepted_gap_forgets_a_former_part() -> None:
    """The prefix of the connector was changed."""
    times = make_times(accepts_gaps=True, routed=True)
    take(times, make_offset(NOW - 9000, 1), server="former")
    take(times, None, server="former")
    take(times, make_offset(NOW - 8000, 1))
    take(times, make_offset(NOW - 7000, 2))
    times.finish_first_read()

    assert times.judge(NOW) == ProvenTime(NOW - 8000)


def test_a_time_that_went_back_is_warned_of_and_counted() -> None:
    times = make_times(delay_ms=1000)
    steps = ((9000, 1), (7000, 2), (6500, 3), (8500, 4), (8400, 5))
    take_all(times, *(make_offset(NOW - ago, lsn) for ago, lsn in steps))

    assert times.steps_back == 1
    (warning,) = times.pop_warnings()
    assert warning == (
        "the commit time of connector 'shop' went back from 2013-01-01T09:59:53Z to "
        "2013-01-01T09:59:51.500Z, so changes that were committed in between may come below a "
        "noted time: see whether the clock of the database was set back, or the offset of the "
        "connector"
    )


def test_commits_within_the_delay_are_not_warned_of() -> None:
    times = make_times(delay_ms=1000)
    steps = ((9000, 1), (7000, 2), (7900, 3), (7100, 4))
    take_all(times, *(make_offset(NOW - ago, lsn) for ago, lsn in steps))

    assert (times.steps_back, times.pop_warnings()) == (0, [])


def test_the_clock_of_the_worker_ahead_is_no_step_back() -> None:
    """After a snapshot, the offset has the worker's clock until the next commit."""
    times = make_times()
    take_all(times, make_offset(NOW - 1000, 1, snapshot=True), make_offset(NOW + 500, 1))
    take(times, make_offset(NOW - 800, 2))

    assert (times.judge(NOW), times.steps_back) == (ProvenTime(NOW - 800), 0)


def test_a_stopped_connector_is_named() -> None:
    times = make_times()
    take_all(times, make_offset(NOW - 3000, 1), make_offset(NOW - 2000, 2))

    assert times.judge(NOW + 150_000) == ProvenTime(
        NOW - 3000,
        "connector 'shop' has committed no offset since 2013-01-01T10:00:00Z: see whether it runs",
    )


def test_time_that_does_not_rise_is_warned_of_once() -> None:
    times = make_times()
    take_all(times, make_offset(NOW - 3000, 1), make_offset(NOW - 2000, 2))
    for seconds in (30, 59, 60, 90):
        take(times, make_offset(NOW - 2000, 2), now=NOW + seconds * SECOND)
        claim = times.judge(NOW + seconds * SECOND)
        assert isinstance(claim, ProvenTime)
        assert (claim.stall is None) == (seconds < 60)
    (warning,) = times.pop_warnings()

    assert warning.startswith("the commit time of connector 'shop' has not risen for a minute. If")
    assert "heartbeat.interval.ms=1000\n  heartbeat.action.query=SELECT" in warning


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b'{"source": {"name": "sales"}, "op": "c"}', "sales"),
        (b'{"schema": {}, "payload": {"source": {"name": "sales"}}}', "sales"),
        (b'{"id": 5}', None),
        (b"\x00avro", None),
        (None, None),
    ],
)
def test_source_name_is_found_in_records(value: bytes | None, name: str | None) -> None:
    assert find_source_name(value) == name
