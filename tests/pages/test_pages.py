"""The pages whose examples need nothing but a controller, run as they are printed."""

import shutil
from pathlib import Path

import pytest

from noted_time.kafka.noted_topic import name_noted_topic
from tests.support.offset_log import plan
from tests.support.page import DEFAULT_RETENTION, ROOT, Runner
from tests.support.processes import ServeProcess
from tools.trials.kafka import Broker, connector
from tools.trials.secured_kafka import SecuredBroker

NINE_MS = 1_357_030_800_000
TWENTY_TO_TWELVE = 1_357_040_400_000
PAST_TWELVE = 1_357_041_900_000
HALF = {"0": 25, "1": 12}
WHOLE = {"0": 30, "1": 14}


PACKAGE = '"spark.jars.packages", kafka_package()'
JARS = {PACKAGE: f'"spark.jars", {",".join(connector())!r}'}
"""Tests have the jars of the package already."""

ALONE = ["reference/api", "reference/protocol", "reference/command-line", "guides/seal"]
ALONE += ["guides/periodic-jobs", "guides/symptoms", "guides/complete-days"]
OVER_SPARK = ("guides/order", "guides/complete-windows")
WITH_TOPICS = {
    "guides/observers": ("arrivals",),
    "start/from-with-watermark": ("shop-orders",),
    "guides/kafka-producers guides/kafka-readers guides/kafka-marks": ("flights", "sales"),
}
"""Pages whose examples continue one another, and the topics that they begin with."""


def run_pages(directory: Path, elsewhere: dict[str, str], *pages: str) -> None:
    """Run the examples in order on a new database; they print the output on the page."""
    with ServeProcess(directory).ready() as controller:
        runner = Runner(directory, controller.url, elsewhere)
        copy_examples(directory)
        for page in pages:
            assert runner.run_page(f"docs/{page}.md")


def copy_examples(directory: Path) -> None:
    """Copy the files of examples/ that pages read."""
    shutil.copytree(ROOT / "examples" / "shops", directory / "examples" / "shops")
    shutil.copy(ROOT / "examples" / "flights.parquet", directory / "examples")


@pytest.mark.parametrize(
    "page", [*ALONE, *(pytest.param(page, marks=pytest.mark.spark) for page in OVER_SPARK)]
)
def test_page_runs_with_a_controller_alone(page: str, tmp_path: Path) -> None:
    run_pages(tmp_path, {}, page)


@pytest.mark.spark
@pytest.mark.parametrize("pages", WITH_TOPICS)
def test_pages_run_with_their_topics(pages: str, broker: Broker, tmp_path: Path) -> None:
    for topic in WITH_TOPICS[pages]:
        broker.create(topic, settings=DEFAULT_RETENTION)
        if (noted_topic := name_noted_topic(topic)) in broker.topics():
            broker.delete(noted_topic)  # of another test
    run_pages(tmp_path, on_kafka(broker), *pages.split())


@pytest.mark.spark
def test_the_readme_runs_as_printed(broker: Broker, tmp_path: Path) -> None:
    """It has two producers, shows the holder, and closes the hour of both events by a query."""
    broker.create("departures", settings=DEFAULT_RETENTION)
    with ServeProcess(tmp_path).ready() as controller:
        runner = Runner(tmp_path, controller.url, on_kafka(broker))
        *_, spark = runner.run_page("README.md", "Use it")

    assert [count for _, count in list_hours(spark)] == ["2"]


def test_costs_in_the_readme_are_right(broker: Broker, tmp_path: Path) -> None:
    """Its first command judges a topic by a field of JSON."""
    broker.create("TOPIC")
    broker.send("TOPIC", [(0, f'{{"departure": {NINE_MS}}}', TWENTY_TO_TWELVE)])
    copy_examples(tmp_path)
    runner = Runner(tmp_path, "", {"HOST:9092": broker.address})

    assert runner.run_page("README.md", "What does my delay cost?")


@pytest.mark.spark
def test_secured_brokers_run_as_printed(tmp_path: Path) -> None:
    """A producer and Spark with a password, an observer with a certificate, all over TLS."""
    with (
        SecuredBroker(tmp_path / "secured") as secured_broker,
        ServeProcess(tmp_path).ready() as controller,
    ):
        for name in ("ssl.ca.location", "ssl.certificate.location"):
            shutil.copy(secured_broker.mutual[name], tmp_path)
        secured_broker.create("flights", settings=DEFAULT_RETENTION)
        elsewhere = {
            "127.0.0.1:9093": secured_broker.scram["bootstrap.servers"],
            "127.0.0.1:9094": secured_broker.mutual["bootstrap.servers"],
            "http://127.0.0.1:9095/token": secured_broker.token_url,
            **JARS,
        }
        controller.create("flights")
        runner = Runner(tmp_path, controller.url, elsewhere)

        assert runner.run_page("docs/guides/secured-brokers.md")


def test_printed_positions_of_sinks_are_right(broker: Broker, tmp_path: Path) -> None:
    """They are of a group that read all, of offsets, and of a query that read to the first mark."""
    ends = {int(partition): end for partition, end in WHOLE.items()}
    broker.create("orders")
    for partition, end in ends.items():
        broker.send("orders", [(partition, "sold", 1)] * end)
    broker.commit("connect-orders-jdbc", "orders", ends)
    query = tmp_path / "checkpoint"
    plan(query, 0, {"orders": HALF}, metadata={"batchWatermarkMs": 0})
    (query / "commits").mkdir()
    (query / "commits" / "0").touch()
    elsewhere = on_kafka(broker) | {"s3a://lake/checkpoints/orders": str(query)}
    with ServeProcess(tmp_path).ready() as controller:
        controller.create("orders", expected_writers=["w"])
        for time, position in ((NINE_MS, {}), (TWENTY_TO_TWELVE, HALF), (PAST_TWELVE, WHOLE)):
            controller.note("orders", time, position)
        assert Runner(tmp_path, controller.url, elsewhere).run_page("docs/guides/sinks.md")


def on_kafka(broker: Broker) -> dict[str, str]:
    """Return what stands for the pages' own broker and jars in a test."""
    return {"127.0.0.1:9092": broker.address, **JARS}


def list_hours(output: str) -> list[list[str]]:
    """Return the rows of a table of Spark's that count something in a window."""
    rows = []
    for line in output.splitlines():
        if line.startswith("|{"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return sorted(rows)


def test_printed_costs_of_a_delay_are_right(broker: Broker, tmp_path: Path) -> None:
    """The figures of the month of flights, and of a topic whose records have a field and a key."""
    broker.create("TOPIC")
    broker.send("TOPIC", [(0, f'{{"departure": {NINE_MS}}}', TWENTY_TO_TWELVE)], "UA")
    copy_examples(tmp_path)
    runner = Runner(tmp_path, "", on_kafka(broker))

    assert runner.run_page("docs/start/what-does-my-delay-cost.md")
