"""Count the departures of a Kafka topic by hour and airport, each hour once it is complete.

Needs a controller, a broker, and what produce_to_kafka.py produced and noted there.
"""

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_integration import KafkaRecords, Noted, WatermarkPolicy, kafka_package, read_noted_kafka

CONTROLLER = os.environ.get("NOTED_TIME_URL", "http://127.0.0.1:7464")
BROKER = os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")

spark = (
    SparkSession.builder.config("spark.jars.packages", kafka_package())
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", 2)
    .getOrCreate()
)


def flights_of(records: DataFrame) -> DataFrame:
    origin = F.col("key").cast("string")
    return records.select(F.col("timestamp").alias("departure"), origin.alias("origin"))


flights = read_noted_kafka(
    spark,
    KafkaRecords("flights", BROKER, parse=flights_of),
    Noted(controller=CONTROLLER),
    checkpoint_location="checkpoint",
    event_time="departure",
    # the query counts in windows: 10:00 itself is enough to close an hour
    policy=WatermarkPolicy(strict=False),
)
hours = flights.groupBy(F.window("departure", "1 hour"), "origin").count()
output = hours.writeStream.format("console").option("truncate", False)
query = output.option("checkpointLocation", "checkpoint").start()
query.processAllAvailable()
query.stop()
