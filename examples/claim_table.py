"""Append a stream to a Delta table that says in each commit up to when it is complete.

Needs a controller, the log that note_time.py has written and noted, and the extra `delta`.
"""

import os
from pathlib import Path

from pyspark.sql import SparkSession

from noted_time.tables import complete_to
from spark_integration import Noted, NotedTable, TableClaims, WatermarkPolicy, read_noted_log

CONTROLLER = os.environ.get("NOTED_TIME_URL", "http://127.0.0.1:7464")
TABLE = f"delta:{Path('orders-table').absolute()}"
CHECKPOINT = str(Path("table-checkpoint").absolute())

spark = SparkSession.builder.master("local[2]").getOrCreate()
orders = read_noted_log(
    spark,
    "log",
    Noted(CONTROLLER, "orders"),
    event_time="ordered",
    policy=WatermarkPolicy(batch_after_mark=True),
)
claims = TableClaims(CHECKPOINT, "orders", "ordered")
query = (
    orders.writeStream.foreachBatch(NotedTable(TABLE, claims))
    .option("checkpointLocation", CHECKPOINT)
    .start()
)
query.processAllAvailable()
query.stop()
print(complete_to(TABLE))
