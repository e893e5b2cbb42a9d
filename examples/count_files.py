"""Count the orders of a file log by hour and shop, each hour once it is complete.

Needs a controller, and the log that note_time.py has written and noted.
"""

import os

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from noted_time_extensions.files import read_noted_log
from spark_integration import Noted, WatermarkPolicy

CONTROLLER = os.environ.get("NOTED_TIME_URL", "http://127.0.0.1:7464")

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", 2)
    .getOrCreate()
)
orders = read_noted_log(
    spark,
    "log",
    Noted("orders", controller=CONTROLLER),
    event_time="ordered",
    policy=WatermarkPolicy(strict=False),
)
counts = orders.groupBy(F.window("ordered", "1 hour"), "shop").count()
query = counts.writeStream.format("console").option("truncate", False).start()
query.processAllAvailable()
query.stop()
