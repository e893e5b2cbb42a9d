"""The query of a trial, in a separate process: records of each second and partition, counted.

Each micro-batch replaces a file of its number, so one that is run again counts once. The process
ends when the query fails; a supervisor starts it again from its checkpoint.
"""

import json
import os
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from spark_integration import (
    KafkaRecords,
    Noted,
    WatermarkPolicy,
    read_noted_kafka,
    read_relayed_kafka,
)
from tests.support.spark_sessions import start_spark
from tools.trials.kafka import connector
from tools.trials.starting import start_query

RESTS_S = (0.0, 0.0, 0.5)
"""How long a batch that is written is not committed, so that some kills come in between."""


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of the query; batches go to the directory `output`.

    If `relayed`, it reads the marks that a relay writes.
    """

    bootstrap: str
    controller: str
    topic: str
    checkpoint: str
    output: str
    relayed: bool = False


def count(parameters: Given) -> None:
    """Run the query until it fails, and raise its error."""
    spark = start_spark({"spark.jars": ",".join(connector())})
    topic = KafkaRecords(
        parameters.topic, parameters.bootstrap, options={"kafka.isolation.level": "read_committed"}
    )
    noted_stream = Noted(controller=parameters.controller)
    policy = WatermarkPolicy(strict=False)
    if parameters.relayed:
        records = read_relayed_kafka(
            spark, topic, noted_stream, event_time="timestamp", policy=policy
        )
    else:
        records = read_noted_kafka(
            spark,
            topic,
            noted_stream,
            checkpoint_location=parameters.checkpoint,
            event_time="timestamp",
            policy=policy,
        )
    counts = records.groupBy(F.window("timestamp", "1 second"), "partition").agg(
        F.count("*").alias("rows"), F.sum("offset").alias("offsets")
    )
    rows = counts.select(F.unix_seconds("window.start"), "partition", "rows", "offsets")
    output = Path(parameters.output)
    writer = (
        rows.writeStream.outputMode("append")
        .foreachBatch(lambda batch, number: keep(batch, number, output))
        .option("checkpointLocation", parameters.checkpoint)
        .trigger(processingTime="1 second")
    )
    start_query(writer.start).awaitTermination()


def keep(batch: DataFrame, number: int, output: Path) -> None:
    """Write the rows of a batch to a new file, and keep those of its earlier runs."""
    rows = sorted(tuple(row) for row in batch.collect())
    unfinished_file = output / f"unfinished-{os.getpid()}"
    unfinished_file.write_text(json.dumps(rows))
    unfinished_file.replace(output / f"{number}-{os.getpid()}.json")
    time.sleep(random.choice(RESTS_S))


if __name__ == "__main__":
    count(Given(**json.loads(sys.argv[1])))
