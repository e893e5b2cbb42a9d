"""The sensor for a consumer group, without Airflow, on a real broker."""

import asyncio
from types import SimpleNamespace

import pytest

from noted_time import Rejected
from noted_time_airflow.waiting import Condition, PollResult, WaitLog, watch
from tools.trials.calls import HOUR_MS, TEN
from tools.trials.kafka import Broker
from tools.trials.served import Served

pytestmark = pytest.mark.acceptance

SETTINGS = SimpleNamespace(conn_id="kafka_eu", extra='{"client.id": "sensor"}')


async def test_group_is_waited_for_until_it_has_committed(broker: Broker, served: Served) -> None:
    """The topic has another name than the stream. Each sentence says how far the group has read."""
    topic = "read-by-a-group"
    address = (served.url, None)
    results = []
    broker.create(topic, 1)
    broker.send(topic, [(0, str(n), TEN) for n in range(2)])
    served.make("sold", expected_writers=["oslo"], mark_interval_ms=0)
    for end, time in enumerate((TEN - HOUR_MS, TEN), start=1):
        served.post("sold", {"writer": "oslo", "time": time, "position": {"0": end}})
    condition = Condition(
        dataset=f"group:loader@{broker.address}/{topic}",
        complete_to=TEN,
        stream="sold",
        kafka_conn_id="kafka_eu",
        poke_interval=0.1,
    )
    for offset in (0, 1, 2):
        if offset:
            await asyncio.to_thread(broker.commit, "loader", topic, {0: offset})
        results.append(
            await watch(condition, address, SETTINGS, timeout_s=0, wait_log=WaitLog(print, print))
        )

    unknown = "group 'loader' has committed no offset: correct the name, or have it commit after it"
    so_far = "the offsets reach the mark of 2013-01-01T09:00:00Z"
    vouched_by = "by 1 writer, all that are expected"
    began = "began count as read, because Kafka does not keep where it began"
    remark = f"records before group 'loader' {began}"
    sentence = (
        f"sold is complete to 2013-01-01T10:00:00Z, read by group 'loader', {vouched_by}; {remark}"
    )
    position_found = {"complete_to": TEN, "seq": 2, "cut": {"0": 2}}
    assert results == [
        PollResult("timed out", f"{unknown} has written"),
        PollResult(
            "timed out",
            f"sold is not known to be complete to 2013-01-01T10:00:00Z: {so_far}; {remark}",
        ),
        PollResult("complete", sentence, found=position_found),
    ]


@pytest.mark.parametrize("extra", ["kafka:9092", '["kafka:9092"]', "7"])
def test_connection_without_settings_is_refused(extra: str) -> None:
    condition = Condition(dataset="group:g@kafka:9092/t", complete_to=TEN, kafka_conn_id="kafka_eu")

    with pytest.raises(Rejected, match="connection 'kafka_eu' is not a JSON object of settings"):
        condition.open(None, SimpleNamespace(conn_id="kafka_eu", extra=extra))
