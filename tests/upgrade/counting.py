"""Queries of one version, each with its checkpoint: `python counting.py GIVEN`, which is JSON.

Each of the `kinds` counts the rows of each second, and keeps what it gives out in a file for each
batch. Once all that is there has been counted, that is printed; they end with the standard input.
It uses what each version has, by the call that the version has for it.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

import spark_integration
from spark_integration import NotedLogSink, read_noted_log, with_noted_watermark
from writer_client import WriterClient

IS_FIRST_RELEASE = not hasattr(spark_integration, "Noted")
OF_TOPIC = {"ahead", "committed", "topic"}


def events(spark: SparkSession, kind: str, given: Mapping[str, Any], checkpoint: str) -> DataFrame:
    """Return what a kind of query reads."""
    url, stream = given["url"], given["stream"]
    if kind in OF_TOPIC:
        return read_topic(spark, kind, given, checkpoint)
    where: dict[str, Any] = {"controller_url": url, "strict": False}
    if kind in {"log", "sink"}:
        log = given["log"]
        if not IS_FIRST_RELEASE:
            noted, where = of_present(url, log)
            return read_noted_log(spark, given["root"], noted, event_time="time", **where)
        return read_noted_log(spark, given["root"], log, event_time="time", **where)
    source = spark.readStream.format("kafka").option("subscribe", stream)
    source = source.option("startingOffsets", "earliest")
    records = source.option("kafka.bootstrap.servers", given["bootstrap"]).load()
    timed = records.select(F.col("timestamp").alias("time"))
    if not IS_FIRST_RELEASE:
        noted, where = of_present(url, stream)
        return with_noted_watermark(timed, "time", noted, checkpoint_location=checkpoint, **where)
    where |= {"stream": stream, "checkpoint_location": checkpoint}
    return with_noted_watermark(timed, "time", **where)


def of_present(url: str, stream: str) -> tuple[Any, dict[str, Any]]:
    """Return the stream and the policy, as values."""
    from spark_integration import Noted, WatermarkPolicy  # noqa: PLC0415 - 0.1.0 has none

    return Noted(url, stream), {"policy": WatermarkPolicy(strict=False)}


def read_topic(
    spark: SparkSession, kind: str, given: Mapping[str, Any], checkpoint: str
) -> DataFrame:
    """Return the records of the topic, with marks of one kind."""
    from spark_integration import KafkaRecords, read_noted_kafka  # noqa: PLC0415 - 0.1.0 has none

    noted, where = of_present(given["url"], given["stream"])
    records = KafkaRecords(given["stream"], given["bootstrap"])
    options: dict[str, Any] = {
        "marks": kind,
        "event_time": "timestamp",
        "checkpoint_location": checkpoint,
    }
    read = read_noted_kafka(spark, records, noted, **where, **options)
    return read.select(F.col("timestamp").alias("time"))


def main(given: dict[str, Any]) -> None:
    """Start the queries, and let them count."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in given["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    queries = []
    for kind in given["kinds"]:
        directory = Path(given["directory"], kind)
        directory.mkdir(exist_ok=True)
        checkpoint = str(directory / "checkpoint")
        counts = events(spark, kind, given, checkpoint).groupBy(F.window("time", "1 second"))
        writer = counts.count().writeStream.option("checkpointLocation", checkpoint)
        if kind == "sink":
            client = WriterClient(given["url"], "counts", "counter")
            sink: Any = NotedLogSink(
                given["root"], "counts", client, checkpoint_location=checkpoint
            )
        else:
            sink = kept_in(directory)
        queries.append(writer.foreachBatch(sink).start())
    for query in queries:
        query.processAllAvailable()
    sys.stdout.write("counted\n")
    sys.stdout.flush()
    sys.stdin.read()
    for query in queries:
        query.stop()


def kept_in(directory: Path) -> Any:  # noqa: ANN401 - a function
    """Return what keeps the rows of a batch, in place of what it gave out when it ran before."""

    def keep(batch: DataFrame, number: int) -> None:
        rows = batch.select(F.unix_millis("window.start"), "count").collect()
        unseen = directory / f".{number}"
        unseen.write_text(json.dumps([list(row) for row in rows]))
        unseen.rename(directory / f"{number}.json")

    return keep


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
