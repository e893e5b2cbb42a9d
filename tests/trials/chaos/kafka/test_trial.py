"""Short trials of Kafka: real processes that are killed."""

from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from noted_time.kafka import Topic
from tests.support.clock import Clock
from tests.support.queries import count_per_second
from tests.support.query_output import QueryOutput
from tests.trials.chaos.kafka.faults import KAFKA_FAULTS
from tests.trials.chaos.kafka.queried import TRIED, make_kafka_trial
from tests.trials.chaos.trial import Plan, Turn
from tools.trials import kafka
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import wait_until

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.spark,
    pytest.mark.anyio,
    pytest.mark.skipif(not kafka.is_installed(), reason=kafka.MISSING),
]

TURNS: tuple[Turn, ...] = (
    ("kill-query", "kill-producer"),
    ("kill-broker", "partition", "kill-far"),
    ("twin", "kill-controller", "kill-observer"),
)


async def test_no_row_is_lost_when_every_process_is_killed(tmp_path: Path) -> None:
    """Every law of `docs/explain/chaos.md` holds, and there was enough to hold it against."""
    plan = Plan(1, turns=lambda _: TURNS)
    verdict = await make_kafka_trial(tmp_path, plan).hold(tmp_path)

    assert not verdict.violations, verdict.violations
    assert {*chain.from_iterable(TURNS)} == KAFKA_FAULTS.keys() - {"pause"}
    count_names = {*TRIED} - {"batches run again"}
    assert min(verdict.tried[count_name] for count_name in count_names) > 0


def test_a_leader_that_is_away_holds_the_query_and_loses_nothing(
    spark: SparkSession, broker: Broker, served: Served, tmp_path: Path
) -> None:
    """Neither rows of other leaders' partitions, nor rows that it takes when it is back."""
    clock = Clock(spark, broker, served, QueryOutput(tmp_path / "checkpoint"))
    with Broker(tmp_path / "second", beside=broker) as second:
        broker.create(clock.name, leaders=(1, 2))
        clock.write(0)
        clock.note(1)
        query = clock.output.start(count_per_second(clock.read(), "timestamp"))
        query.processAllAvailable()
        second.kill()
        clock.write(1, partitions=(0,))
        clock.note(2)
        wait_until(lambda: Topic(broker.config, clock.name).look().unknown == {1})
        second.start()
        clock.write(2)
        clock.note(3)
        query.processAllAvailable()
        query.stop()
        broker.delete(clock.name)

    assert clock.counts == [(0, 4), (1, 2), (2, 4)]
