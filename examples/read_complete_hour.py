"""Read an hour of a Kafka topic in a batch job, all of it, as soon as it is complete.

Needs a controller, a broker, and what produce_to_kafka.py produced and noted there.
"""

import os
import time

from pyspark.sql import SparkSession

from spark_integration import BatchRead, KafkaRecords, Noted, kafka_package, read_complete_kafka

CONTROLLER = os.environ.get("NOTED_TIME_URL", "http://127.0.0.1:7464")
BROKER = os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")
DAY, HOUR = 86_400_000, 3_600_000  # in ms
TEN = int(time.time() * 1000) // DAY * DAY - 14 * HOUR  # ten o'clock yesterday, in UTC

spark = SparkSession.builder.config("spark.jars.packages", kafka_package()).getOrCreate()
hour = read_complete_kafka(
    spark,
    KafkaRecords("flights", BROKER),
    Noted(controller=CONTROLLER),
    TEN - HOUR,
    TEN,
    BatchRead(timeout=60),
    event_time="timestamp",
)
print(hour.count())
