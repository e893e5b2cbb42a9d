"""Makes the archives of `tools.trials.classes`, once in an environment.

Java writes one when a program ends. `python -m tests.support.classes` makes them.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.trials.classes import KAFKA, SPARK

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def make_in_background() -> Iterator[None]:
    """Make missing archives during the block; programs that start meanwhile run without them."""
    if SPARK.exists() and KAFKA.exists():
        yield
        return
    command = ["nice", sys.executable, "-m", "tests.support.classes"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, stdin=quiet, stdout=quiet, stderr=quiet):
        yield


def _make(archive: Path, run: Callable[[str, Path], None]) -> None:
    directory = archive.with_suffix(".making")
    shutil.rmtree(directory, ignore_errors=True)  # incomplete ones
    directory.mkdir(parents=True)
    run(f"-XX:ArchiveClassesAtExit={directory / archive.name}", directory)
    (directory / archive.name).replace(archive)
    shutil.rmtree(directory)


def _count_in_spark(option: str, directory: Path) -> None:
    os.environ["SPARK_SUBMIT_OPTS"] = option
    from pyspark import SparkContext  # noqa: PLC0415 - a broker needs none of this

    from tests.support.spark_sessions import start_spark, wait_for_end  # noqa: PLC0415

    session = start_spark()
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = rows.withWatermark("timestamp", "1 second").groupBy("timestamp").count()
    writer = counts.writeStream.format("parquet").option("path", str(directory / "counts"))
    query = writer.option("checkpointLocation", str(directory / "checkpoint"))
    wait_for_end(query.trigger(availableNow=True).start())
    session.read.parquet(str(directory / "counts")).collect()
    session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.communicate()  # Java ends once its input is closed


def _start_a_broker(option: str, directory: Path) -> None:
    from tools.trials.kafka import Broker  # noqa: PLC0415 - Spark needs none of this

    with Broker(directory, java_options=option) as broker:
        broker.create("topic")
        broker.send("topic", [(0, "value", 0)])


if __name__ == "__main__":
    _make(SPARK, _count_in_spark)
    _make(KAFKA, _start_a_broker)
