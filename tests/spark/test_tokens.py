"""Tokens of a query: they are sent, and appear nowhere else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from noted_time.kafka import Topic
from spark_integration import PositionListener, WatermarkPolicy
from spark_integration.checkpoint.source_positions import KafkaTopic
from spark_integration.marks.released import Released
from spark_integration.marks_source.ahead import PLANNING_S
from spark_integration.marks_source.query import KafkaPlanning, MarksQuery
from spark_integration.marks_source.source import MarksSource
from spark_integration.marks_source.topics import create_planner
from spark_integration.session.sources import build_options
from tests.spark.test_any_source import Ticks
from tests.support.gates import Guarded
from tests.support.queries import count_per_second
from tests.support.query_output import QueryOutput
from tools.trials.served import Served
from tools.trials.waiting import eventually

SECRET = "nt_0123456789ab_s3cr3t"  # noqa: S105 - not a real one


@pytest.fixture
def controller() -> Iterator[Served]:
    """Return a controller that asks for its token."""
    tokens = Guarded()
    with Served(gate=tokens.gate) as server:
        server.token = tokens.token("admin")
        yield server


def list_files_with(token: str, directory: Path) -> list[Path]:
    """Return the files below a directory that contain the token."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return [path for path in files if token.encode() in path.read_bytes()]


@pytest.mark.spark
def test_query_sends_its_token_and_stores_it_nowhere(
    spark: SparkSession,
    controller: Served,
    output: QueryOutput,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither the plan nor the checkpoint has it."""
    token = str(controller.token)
    ticks = Ticks(spark, controller, output.checkpoint)
    ticks.marks.note("w", 1000, {0: 10})
    events = ticks.add_watermark()
    query = output.start(count_per_second(events, "timestamp"))
    output.will_have((0, 10))
    query.stop()
    events.explain(extended=True)
    plan = capsys.readouterr().out

    assert (output.rows, "noted_marks" in plan, token in plan) == ([(0, 10)], True, False)
    assert not list_files_with(token, tmp_path)


def test_workers_are_given_no_secret() -> None:
    """Spark pickles a reader and its source for the workers."""
    marks = MarksQuery({"flights": KafkaTopic("flights")}, "http://127.0.0.1", "/checkpoint")
    source = MarksSource(build_options(marks, SECRET, {"sasl.password": SECRET}))
    schema = StructType([StructField("time", TimestampType())])
    reader = source.streamReader(schema)

    assert reader._secrets == (SECRET, {"sasl.password": SECRET})
    assert MarksSource(build_options(marks)).streamReader(schema)._secrets == (None, {})
    assert (MarksSource.name(), source.schema()) == ("noted_marks", schema)
    assert SECRET.encode() not in cloudpickle.dumps((source, reader))  # type: ignore[no-untyped-call]


def test_planner_uses_the_secrets_of_its_query(controller: Served) -> None:
    """It asks for one domain of the stream and the topic, under the query's policy."""
    controller.stream("flights", "landed", "left").seal()
    topics = {"flights": "arrivals"}
    query = MarksQuery(
        {"flights": KafkaTopic("arrivals")},
        controller.url,
        "/checkpoint",
        domain="landed",
        policy=WatermarkPolicy(on_seal="hold"),
        kafka=KafkaPlanning(topics, ahead=True, committed=True),
    )
    client = {"bootstrap.servers": "127.0.0.1:9", "log_level": 0, "sasl.password": SECRET}
    planner = create_planner(query, controller.token, client)
    (releaser,) = planner.marks.values()
    (topic_plan,) = planner._plans.values()
    topic = topic_plan._topic
    releaser.follow(Released())

    assert isinstance(topic, Topic)
    assert (topic_plan.name, dict(topic.connection)) == ("arrivals", client)
    assert (topic_plan._terms, topic_plan._patience_s) == (query.kafka, PLANNING_S)
    assert releaser._feed.subject == "stream 'flights', domain 'landed'"
    last = Released("", 1, releaser.last_lower)
    assert (releaser.final_state, releaser.has_more(last)) == ("finished", False)
    planner.close()


def test_listener_reports_with_its_token(controller: Served) -> None:
    controller.stream("flights")
    listener = PositionListener(
        "flights", "g", "r", controller=controller.url, token=controller.token
    )
    listener._client.advance({0: 5})

    assert eventually(lambda: controller.read_group("flights", "g"), ({"0": 5}, ["r"]))
    listener.close()
