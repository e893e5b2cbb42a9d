"""Counts the events of a file log per second into JSON files, in the mode that suits its backlog.

It records each mode that it begins. To be killed it waits when a batch has come to the event of a
given name (`wait_at`); then the file `waiting` is there. It ends once the file `stop` is there.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.query import StreamingQuery

from examples.adaptive import Mode, run_adaptively
from examples.flights.starting import connected, started
from noted_time import BacklogPolicy
from spark_integration import Batches, CatchUp, Noted, WatermarkPolicy, read_noted_log
from tests.support.queries import per_second
from tests.support.spark_sessions import start_spark


def stop_when_asked(stop: Path, stopping: threading.Event) -> None:
    """Set the event once the file is there."""
    while not stop.exists():
        time.sleep(0.1)
    stopping.set()


def waiting_at(event: str, waiting: str) -> Callable[[str], bool]:
    """Return a filter that lets all events pass, but that one not while the file is there."""

    def passes(name: str) -> bool:
        if name == event:
            Path(waiting).touch()
            while Path(waiting).exists():
                time.sleep(0.1)
        return True

    return passes


def main(settings: dict[str, str]) -> None:
    """Count until asked to stop."""
    spark = start_spark()
    policy = BacklogPolicy(behind_ms=int(settings.get("behind_ms", 1)))
    passes = F.udf(waiting_at(settings.get("wait_at", ""), settings["waiting"]), "boolean")

    def start(mode: Mode) -> StreamingQuery:
        with Path(settings["modes"]).open("a") as modes:
            modes.write(f"{mode}\n")
        events = connected(
            lambda: read_noted_log(
                spark,
                settings["root"],
                Noted(settings["url"], settings["stream"]),
                Batches(20),
                CatchUp(policy, 40),
                event_time="time",
                policy=WatermarkPolicy(strict=False),
            )
        )
        events = events.where(passes("name"))
        files = per_second(events).writeStream.format("json").outputMode("append")
        files = files.option("checkpointLocation", settings["checkpoint"])
        live = {"processingTime": "100 milliseconds"}
        files = files.trigger(availableNow=True) if mode == "backlog" else files.trigger(**live)
        return started(lambda: files.start(settings["output"]))

    stopping = threading.Event()
    threading.Thread(
        target=stop_when_asked, args=(Path(settings["stop"]), stopping), daemon=True
    ).start()
    run_adaptively(start, policy=policy, dwell_ms=0, stopping=stopping)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
