"""A client of rented Spark, under the rules of such platforms, which prints its counts as JSON.

It cannot import the modules in `lacking`, and has no variables. Its session refuses settings, and
its queries end once they have read everything. `count` names the function that counts the complete
seconds.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

REFUSED = ("spark.jars", "spark.executorEnv.", "spark.sql.streaming.")
"""How the settings begin that can neither be read nor set: PySpark itself reads others."""

Asked = Mapping[str, Any]


def impose(spark: SparkSession, request: Asked) -> None:
    """Refuse imports and settings, as Databricks' standard and serverless compute do."""
    for name in [name for name in os.environ if name.startswith("NOTED_TIME_")]:
        del os.environ[name]
    for name in request["lacking"]:
        sys.modules[name] = None  # type: ignore[assignment]
    conf = type(spark.conf)
    conf.get = _make_refusing(conf.get)  # type: ignore[method-assign]
    conf.set = _make_refusing(conf.set)  # type: ignore[method-assign]


def _make_refusing(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(conf: Any, key: str, *arguments: Any) -> Any:  # noqa: ANN401 - as Spark's
        if key.startswith(REFUSED):
            raise AnalysisException(f"[CONFIG_NOT_AVAILABLE] Configuration {key} is not available.")
        return method(conf, key, *arguments)

    return call


def count_marked(spark: SparkSession, request: Asked) -> DataFrame:
    """Count a topic by the marks of its noted topic, and return all output of the query so far."""
    from spark_integration import KafkaRecords, WatermarkPolicy, read_relayed_kafka  # noqa: PLC0415

    events = read_relayed_kafka(
        spark,
        KafkaRecords(request["topic"], request["bootstrap"], client=request.get("client")),
        event_time="timestamp",
        policy=WatermarkPolicy(strict=False),
    )
    return run_to_end(spark, per_second(events), request)


def count_complete(spark: SparkSession, request: Asked) -> DataFrame:
    """Count a window of time of a topic, once it is complete."""
    from spark_integration import KafkaRecords, Noted, read_complete_kafka  # noqa: PLC0415

    return per_second(
        read_complete_kafka(
            spark,
            KafkaRecords(request["topic"], request["bootstrap"]),
            Noted(controller=request["url"], token=request["token"]),
            *request["window"],
            event_time="timestamp",
        )
    )


def count_printed(spark: SparkSession, request: Asked) -> DataFrame:
    """Count a topic by the program of a page, without this package."""
    names = {"spark": spark, "bootstrap": request["bootstrap"], "topic": request["topic"]}
    exec(request["code"], names)  # noqa: S102 - what the page prints
    return run_to_end(spark, per_second(names["events"]), request)


def per_second(events: DataFrame) -> DataFrame:
    """Return (start of the second, count)."""
    counts = events.groupBy(F.window("timestamp", "1 second")).count()
    return counts.select(F.unix_seconds("window.start").alias("second"), "count")


def run_to_end(spark: SparkSession, counts: DataFrame, request: Asked) -> DataFrame:
    """Run a query to the end of its input, and return all its output."""
    writer = counts.writeStream.format("parquet").option(
        "checkpointLocation", request["checkpoint"]
    )
    query = writer.trigger(availableNow=True).start(request["output"])
    query.awaitTermination()
    return spark.read.schema("second LONG, count LONG").parquet(request["output"])


def main(request: Asked) -> None:
    """Count, and print the seconds and their counts, or the error."""
    spark = SparkSession.builder.remote(request["remote"]).getOrCreate()
    impose(spark, request)
    count = {"marked": count_marked, "complete": count_complete, "printed": count_printed}[
        request["count"]
    ]
    try:
        outcome: Any = sorted(tuple(row) for row in count(spark, request).collect())
    except Exception as error:  # noqa: BLE001 - whatever a test expects
        traceback.print_exc()
        outcome = str(error)
    sys.stdout.write(f"{json.dumps(outcome)}\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
