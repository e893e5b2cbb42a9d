"""Append a Kafka topic to a Delta table that says in each commit up to when it is complete.

Needs a controller, a broker, what produce_to_kafka.py produced and noted there, and the extra
`delta`.
"""

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from noted_time_extensions.tables import NotedTable, TableClaims
from spark_integration import KafkaRecords, Noted, WatermarkPolicy, kafka_package, read_noted_kafka

CONTROLLER = os.environ.get("NOTED_TIME_URL", "http://127.0.0.1:7464")
BROKER = os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")
TABLE = f"delta:{Path('flights-table').absolute()}"
CHECKPOINT = str(Path("table-checkpoint").absolute())

spark = (
    SparkSession.builder.config("spark.jars.packages", kafka_package())
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)


def flights_of(records: DataFrame) -> DataFrame:
    origin = F.col("key").cast("string")
    return records.select(F.col("timestamp").alias("departure"), origin.alias("origin"))


flights = read_noted_kafka(
    spark,
    KafkaRecords("flights", BROKER, parse=flights_of),
    Noted(controller=CONTROLLER),
    checkpoint_location=CHECKPOINT,
    event_time="departure",
    # the last mark reaches the table even if no record follows
    policy=WatermarkPolicy(batch_after_mark=True),
)
claims = TableClaims(CHECKPOINT, "flights", "departure")
query = (
    flights.writeStream.foreachBatch(NotedTable(TABLE, claims))
    .option("checkpointLocation", CHECKPOINT)
    .start()
)
query.processAllAvailable()
query.stop()
