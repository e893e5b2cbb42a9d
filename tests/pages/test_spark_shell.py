"""The page on Spark elsewhere, run by the shell of PySpark's own distribution."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pyspark
import pytest

from noted_time import Mark, StreamCut
from noted_time.kafka.noted_topic import NotedRecord
from tests.support.page import BLOCK, read_page
from tests.support.processes import environment
from tools.trials.kafka import Broker, connector

pytestmark = [pytest.mark.spark, pytest.mark.acceptance, pytest.mark.needs_spark("4.2")]

PAGE = "docs/guides/spark-elsewhere.md"
NINE = 1_357_030_800_000
TEN = 1_357_034_400_000
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
}
STARTED = """
import org.apache.spark.sql.functions.{col, window}
val perHour = timed.groupBy(window(col("departure"), "1 hour")).count().select("count")
val again = perHour.writeStream.format("console").option("checkpointLocation", "timed").start()
again.processAllAvailable()
"""


def test_programs_of_the_page_count_the_complete_hour(broker: Broker, tmp_path: Path) -> None:
    """Two of three departures are counted, and the next hour is open. A foreign mark fails."""
    for topic, partitions in ("flights", 2), ("flights.noted", 1):
        broker.create(topic, partitions)
    broker.send("flights", [(0, "UA 15", NINE), (1, "AA 1", TEN - 1), (0, "DL 3", TEN)], "EWR")
    mark = Mark(1, TEN, TEN, StreamCut({0: 2, 1: 1}))
    noted_record = NotedRecord("flights", "9f", "default", None, mark)
    broker.send("flights.noted", [(0, noted_record.value, 0)], "default")
    page = read_page(PAGE)
    programs = [block for language, block in BLOCK.findall(page) if language == "scala"]
    column, condition = re.findall(r"`([^`]*topic_id[^`]*)`", page)
    of_another = programs[0].replace("'stream", f"'{column}, stream").replace('"hours"', '"other"')
    of_another = of_another.replace("\n    THEN", f"\n    {condition} THEN")
    output = shell("\n".join([*programs, STARTED, of_another]), broker, tmp_path)

    assert re.findall(r"^\|(.*\d)\|$", output, re.MULTILINE) == [
        "2013-01-01 09:00:00|   EWR|         2",
        "    2",
    ]
    assert "flights.noted has no mark of flights at offset 0" in output


def shell(program: str, broker: Broker, directory: Path) -> str:
    """Return the output of the shell for a program."""
    home = Path(pyspark.__file__).parent
    settings = []
    for name, value in SETTINGS.items():
        settings += ["--conf", f"{name}={value}"]
    ran = subprocess.run(
        [home / "bin" / "spark-shell", "--jars", ",".join(connector()), *settings],
        input=program.replace("127.0.0.1:9092", broker.address),
        env=environment(SPARK_HOME=str(home), SPARK_LOCAL_IP="127.0.0.1"),
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout
