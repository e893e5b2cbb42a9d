"""Queries of one version, each with its checkpoint: `python counting.py GIVEN`, which is JSON.

Each of the `kinds` counts the rows of each second, and keeps what it gives out in a file for each
batch. It prints once all that is there has been counted; then the queries go on until they are
killed. It uses what every version has, by the arguments that the version takes.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from spark_integration import NotedLogSink, read_noted_log, with_noted_watermark
from writer_client import WriterClient


def events(spark: SparkSession, kind: str, given: Mapping[str, Any], checkpoint: str) -> DataFrame:
    """Return what a kind of query reads."""
    where = {"checkpoint_location": checkpoint, **arguments_of(given["url"], given["stream"])}
    if kind in {"log", "sink"}:
        noted = arguments_of(given["url"], given["log"])
        return read_noted_log(spark, given["root"], event_time="time", **noted)
    if kind == "beside":
        source = spark.readStream.format("kafka").option("subscribe", given["stream"])
        source = source.option("kafka.bootstrap.servers", given["bootstrap"])
        records = source.option("startingOffsets", "earliest").load()
        timed = records.select(F.col("timestamp").alias("time"))
        return with_noted_watermark(timed, "time", **where)
    from spark_integration import KafkaRecords, read_noted_kafka  # noqa: PLC0415 - 0.1.0 has none

    topic = KafkaRecords(given["stream"], given["bootstrap"])
    how: dict[str, Any] = {"event_time": "timestamp", "marks": kind, **where}
    return read_noted_kafka(spark, topic, **how).select(F.col("timestamp").alias("time"))


def arguments_of(url: str, stream: str) -> dict[str, Any]:
    """Return what the version is given for a stream; the watermark is exact for windows."""
    try:
        from spark_integration import Noted, WatermarkPolicy  # noqa: PLC0415 - 0.1.0 has none
    except ImportError:
        return {"controller_url": url, "stream": stream, "strict": False}
    return {"noted": Noted(url, stream), "policy": WatermarkPolicy(strict=False)}


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
    spark.streams.awaitAnyTermination()


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
