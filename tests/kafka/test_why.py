"""`noted-time why` for readers of a topic: a consumer group, and a checkpoint of Spark."""

from pathlib import Path

import pytest

from demo.trials.kafka import Broker
from demo.trials.served import Served
from tests.cli.conftest import Commands
from tests.support.offset_log import plan

pytestmark = pytest.mark.acceptance
TEN = 1_357_034_400_000
MINUTE = 60_000


@pytest.fixture
def noted_topic(broker: Broker, served: Served, topic: str) -> str:
    """Return a topic with one noted record in each of two minutes."""
    for minute in (1, 2):
        end = TEN + minute * MINUTE
        broker.send(topic, [(0, "a", end - 1)])
        served.post(topic, {"writer": "shop", "time": end, "position": {"0": minute, "1": 0}})
    return topic


def test_why_names_the_group_that_lags(broker: Broker, served: Served, noted_topic: str) -> None:
    """This includes groups that never committed."""
    run, group = Commands(served.url), f"group:{noted_topic}@{broker.address}/{noted_topic}"
    new = run("why", group)
    broker.commit(noted_topic, noted_topic, {0: 1, 1: 0})
    behind = run("why", group, str(TEN + 2 * MINUTE))
    broker.commit(noted_topic, noted_topic, {0: 2, 1: 0})
    read = run("why", group, str(TEN + 2 * MINUTE))

    assert [each.status for each in (new, behind, read)] == [3, 3, 0]
    assert f"because group {noted_topic!r} has committed no offset" in new.out
    assert f"because {group} is 1m behind {noted_topic}\n" in behind.out
    assert read.out.startswith(f"{group} is complete to 2013-01-01T10:02:00Z")


def test_why_lists_a_topic_without_stream(served: Served, noted_topic: str, tmp_path: Path) -> None:
    """The query's other topic is evaluated."""
    offsets = [{noted_topic: {"0": 1, "1": 0}}, {"untracked": {"0": 5}}, {"sourceVersion": 1}]
    about = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    plan(tmp_path, 0, *offsets, metadata=about)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1\n{}")
    done = Commands(served.url)("why", str(tmp_path), "--json")

    hops = {each["dataset"]: each for each in done.json["hops"]}
    assert done.status == 3
    assert [*hops] == [str(tmp_path), noted_topic, "untracked"]
    assert hops[noted_topic]["complete_to"] == TEN + 2 * MINUTE
    assert "it cannot be read: there is no stream" in hops["untracked"]["sentence"]
    assert "there is no stream 'untracked'" in done.json["sentence"]
