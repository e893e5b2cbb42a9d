"""Read an hour of a Kafka topic in a batch job, all of it, as soon as it is complete.

Needs a controller, a broker, and what produce_to_kafka.py produced and noted there.
"""

import os

from pyspark.sql import SparkSession

from spark_integration import BatchRead, KafkaRecords, Noted, kafka_package, read_complete_kafka

CONTROLLER = os.environ.get("NOTED_TIME_URL", "http://127.0.0.1:7464")
BROKER = os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")
NINE, TEN = 1_357_030_800_000, 1_357_034_400_000  # of 2013-01-01, in Unix ms

spark = SparkSession.builder.config("spark.jars.packages", kafka_package()).getOrCreate()
hour = read_complete_kafka(
    spark,
    KafkaRecords("flights", BROKER),
    Noted(controller=CONTROLLER),
    NINE,
    TEN,
    BatchRead(timeout=60),
    event_time="timestamp",
)
print(hour.count())
