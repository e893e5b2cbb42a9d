"""A sensor of what a consumer group has read, without Airflow: on a real broker."""

import json
from types import SimpleNamespace

import pytest

from demo.trials.kafka import Broker
from noted_time import Rejected
from noted_time_airflow.waiting import Verdict, Wanted
from noted_time_airflow.watching import CHECK_FAILURES, judge_error, make_offsets_reader, poll_once
from tests.support.calls import HOUR_MS
from tests.support.claimed import TEN
from tests.support.served import Served

pytestmark = pytest.mark.acceptance


def look(broker: Broker, served: Served, wanted: Wanted) -> Verdict:
    """Look once, as the sensor does."""
    kafka = SimpleNamespace(conn_id="kafka_default", extra=json.dumps(broker.config))
    try:
        return poll_once(wanted, (served.url, None), kafka)
    except CHECK_FAILURES as error:
        return judge_error(error)


def test_a_group_is_waited_for_until_it_has_committed(broker: Broker, served: Served) -> None:
    """Of a topic of another name; the log says how far it is."""
    topic, wanted = "read-by-a-group", Wanted(TEN, "sold", group="loader", topic="read-by-a-group")
    broker.create(topic, 1)
    broker.send(topic, [(0, str(n), TEN) for n in range(2)])
    served.make("sold", expected_writers=["oslo"], mark_interval_ms=0)
    for end, time in enumerate((TEN - HOUR_MS, TEN), start=1):
        served.post("sold", {"writer": "oslo", "time": time, "position": {"0": end}})
    seen = [look(broker, served, wanted)]
    for offset in (1, 2):
        broker.commit("loader", topic, {0: offset})
        seen.append(look(broker, served, wanted))

    unknown = "group 'loader' has committed no offset: correct the name, or have it commit after it"
    so_far = "the offsets reach the mark of 2013-01-01T09:00:00Z"
    by = "by 1 writer, all that are expected"
    began = "began count as read, because Kafka does not keep where it began"
    remark = f"records before group 'loader' {began}"
    done = f"sold is complete to 2013-01-01T10:00:00Z, read by group 'loader', {by}, {remark}"
    found = {"complete_to": TEN, "seq": 2, "cut": {"0": 2}}
    assert seen == [
        Verdict("waiting", f"group 'loader': {unknown} has written"),
        Verdict("waiting", f"group 'loader': {so_far}; {remark}"),
        Verdict("complete", done, found=found),
    ]


@pytest.mark.parametrize("extra", [None, "", "kafka:9092", '["kafka:9092"]'])
def test_a_connection_without_settings_is_refused(extra: str | None) -> None:
    """With what to write."""
    with pytest.raises(Rejected, match="'kafka_default' has no settings of Kafka's client: write"):
        make_offsets_reader(Wanted(TEN), SimpleNamespace(conn_id="kafka_default", extra=extra))
