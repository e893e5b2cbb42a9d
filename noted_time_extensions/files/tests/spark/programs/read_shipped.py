"""Reads a log as a batch and as a stream, in a Spark whose Python may lack the package."""

import json
import os
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from noted_time_extensions.files import read_complete, read_noted_log
from spark_integration import Noted
from tests.support.spark_sessions import SETTINGS
from tools.trials.starting import retry_start


def session(program_input: dict[str, Any]) -> SparkSession:
    """Return a session of a Spark in this process, or of a local Connect server."""
    builder = SparkSession.builder
    if program_input.get("remote"):
        os.environ["SPARK_TESTING"] = "1"  # the local server picks a free port
        builder = builder.remote("local[1]")
        builder = builder.config("spark.connect.grpc.binding.address", "127.0.0.1")
    else:
        builder = builder.master("local[1]")
    for name, value in {**SETTINGS, **program_input.get("settings", {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(program_input: dict[str, Any]) -> None:
    """Print the result of each step: the number of rows, or the error."""
    spark = session(program_input)
    log = (spark, program_input["root"], Noted("flights", controller=program_input["url"]))
    tries = count()  # each try needs its own checkpoint: a memory sink cannot use one twice

    def batch() -> int:
        return read_complete(*log, 0, 3000, event_time="time").count()

    def stream() -> int:
        frame = read_noted_log(*log, event_time="time")
        events = frame.writeStream.format("memory").queryName("events")
        events = events.option("checkpointLocation", f"{program_input['checkpoint']}-{next(tries)}")
        events.trigger(availableNow=True).start().awaitTermination()
        return spark.table("events").count()

    def add() -> int:
        if program_input.get("remote"):
            spark.addArtifacts(program_input["package"], pyfile=True)
        else:
            spark.sparkContext.addPyFile(program_input["package"])
        return 0

    steps = {"batch": batch, "stream": stream, "add": add}
    print(json.dumps([run_step(steps[step]) for step in program_input["steps"]]), flush=True)  # noqa: T201 - the answer
    spark.stop()


def run_step(step: Callable[[], int]) -> int | str:
    """Return the step's result, or its error."""
    try:
        return retry_start(step)
    except (PySparkException, Py4JError) as error:
        return str(error)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
