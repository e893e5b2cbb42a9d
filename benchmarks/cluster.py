"""The cost of a cluster for a Spark query, and of noted time against Parquet there.

Two programs count the same file log, one on two workers of this machine, one in a process with two
cores; both use RocksDB. They take samples as `spark_read` does, in turn, without the first, which
compiles.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from pyspark.sql import SparkSession

from benchmarks.figures import Figure, Run, Samples, WrongResult
from benchmarks.processes import controller
from benchmarks.spark_read import SEGMENTS, Counted, write
from benchmarks.stored import sqlite_url
from tools.trials.cluster import Cluster
from tools.trials.spark_programs import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WORKERS = 2
WAYS = ("noted", "built_in")
END_S = 60.0


class Program:
    """A driver that counts on request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        pipes = process.stdin, process.stdout
        self._lines, self._answers = cast("tuple[IO[str], IO[str]]", pipes)

    def rows_per_second(self, way: str) -> float:
        """Count once, or raise `WrongResult` if the driver ended."""
        self._lines.write(f"{way}\n")
        self._lines.flush()
        answer = self._answers.readline()
        if not answer:
            raise WrongResult(f"the driver ended with {self._process.wait(END_S)}")
        return float(answer)


def measure(run: Run) -> list[Figure]:
    rows = 400_000 if run.quick else 4_000_000
    os.environ["JAVA_TOOL_OPTIONS"] = ""  # the cluster's own are for short tests
    run.say(f"a cluster: {rows} rows in {SEGMENTS} segments")
    with ExitStack() as stack:
        server = stack.enter_context(controller(sqlite_url(run.directory / "cluster.db")))
        url = f"http://127.0.0.1:{server.port}"
        directory = run.directory / "cluster"
        cluster = stack.enter_context(Cluster(directory / "spark", workers=WORKERS))
        write(directory / "log", rows, url)
        arguments = [str(directory), str(rows), url]
        masters = (cluster.master, f"local[{WORKERS}]")
        programs = [
            stack.enter_context(_counting(cluster.properties, master, arguments))
            for master in masters
        ]
        return _figures(programs, run)


def _figures(programs: Sequence[Program], run: Run) -> list[Figure]:
    programs_and_ways = list(product(programs, WAYS))
    for program, way in programs_and_ways:
        run.say(f"a cluster: warming up {way}")
        program.rows_per_second(way)
    rounds = []
    for number in range(run.repeats(full=5, quick=1)):
        run.say(f"a cluster: round {number + 1}")
        rounds.append([program.rows_per_second(way) for program, way in programs_and_ways])
    noted_rates, built_in, noted_alone, built_in_alone = (
        Samples(samples) for samples in zip(*rounds, strict=True)
    )
    name = f"Spark on {WORKERS} workers: windowed count "
    alone = f"in one process with {WORKERS} cores"
    return [
        Figure(f"{name}under noted time", "rows/s", noted_rates, noted_alone, f"the same {alone}"),
        Figure(
            f"{name}under noted time", "rows/s", noted_rates, built_in, "Parquet, on the cluster"
        ),
        Figure(f"{name}of Parquet", "rows/s", built_in, built_in_alone, f"the same {alone}"),
    ]


@contextmanager
def _counting(properties: Path, master: str, given: Sequence[str]) -> Iterator[Program]:
    """Start this module as a driver, which ends with the block.

    `spark-submit` would not pass on its input.
    """
    submit = f"--properties-file {properties} --master {master} pyspark-shell"
    log = properties.with_name(f"{master.partition(':')[0]}.log")
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, __file__, *given],
            env={**environment(), "PYSPARK_SUBMIT_ARGS": submit},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
    with process:  # which closes its input, and waits
        yield Program(process)


def main(directory: str, rows: str, url: str) -> None:
    """Count each way named by a line, and print the rows per second."""
    spark = SparkSession.builder.getOrCreate()
    counted_log = Counted(spark, Path(directory), int(rows), url)
    for way in sys.stdin:
        events = counted_log.read_noted() if way.strip() == "noted" else counted_log.built_in()
        print(counted_log.rows_per_second(events), flush=True)  # noqa: T201 - the answer
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
