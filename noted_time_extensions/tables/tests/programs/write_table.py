"""Appends the new rows of a source to a table, by NotedTable, and may kill itself.

`dies` says where, in the batch of the number `at`, counted from the start of the program:

- `data`: the files of the rows are written, and the table has no commit of them yet;
- `commit`: the table has the commit, and Spark's own log of commits does not have the batch yet;
- `chance`: `after_s` seconds after the batch began.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread, Timer
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time_extensions.tables import NotedTable, TableClaims
from noted_time_extensions.tables.spark.formats import OpenTable, WriteOptions, open_table
from noted_time_extensions.tables.table_history import TableHistory
from tests.support.spark_sessions import start_spark, wait_for_end
from tools.trials.starting import retry_start, start_query

Given = dict[str, Any]


def die() -> None:
    """Kill this process and all its children, as a power cut does."""
    os.killpg(0, signal.SIGKILL)


class Trapped(OpenTable):
    """A table whose next commit finds a pipe under its name, and the driver dies there.

    The pipe is made with the first row that is written, when the writer has looked at the table
    already. Once the data is written the commit is refused, since its name is taken. The connectors
    then open what took it, to read it; deltalake gives up.
    """

    def __init__(self, table: OpenTable, log: Path) -> None:
        super().__init__()
        self._table = table
        self._log = log

    def history(self) -> TableHistory:
        """Return the commits."""
        return self._table.history()

    def append(self, rows: DataFrame, options: WriteOptions) -> None:
        """Write the rows and die."""
        pipe = self._next()
        Thread(target=die_once_opened, args=(pipe,), daemon=True).start()
        try:
            self._table.append(
                rows.where(F.udf(make_pipe_filter(str(pipe)), "boolean")("name")), options
            )
        finally:
            if pipe.is_fifo():
                pipe.unlink()
                die()

    def commit(self, options: WriteOptions) -> None:
        """Commit without rows."""
        self._table.commit(options)

    def _next(self) -> Path:
        """Return the file of the next commit: ``0…07.json``, or ``v7.metadata.json``."""
        last = max(self._log.glob("*[0-9].json"), default=None, key=read_number)
        if last is not None:
            return last.with_name(f"{read_number(last) + 1:020}.json")
        last = max(self._log.glob("v*.metadata.json"), key=read_number)
        return last.with_name(f"v{read_number(last) + 1}.metadata.json")


def read_number(commit: Path) -> int:
    """Return the number in the name of a commit."""
    return int(commit.name.removeprefix("v").partition(".")[0])


def make_pipe_filter(pipe: str) -> Callable[[str], bool]:
    """Return a filter that keeps all rows, and makes the pipe with the first one."""

    def passes(_: str) -> bool:
        with suppress(FileExistsError):
            os.mkfifo(pipe)
        return True

    return passes


def die_once_opened(pipe: Path) -> None:
    """Wait until another opens the pipe to read, remove it, and die."""
    while not pipe.is_fifo():
        time.sleep(0.001)
    with pipe.open("wb"):
        pipe.unlink()
        die()


def write_and_die(program_input: Given, claims: TableClaims) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes each batch, and dies at the chosen place."""
    write = NotedTable(program_input["table"], claims)
    batches = 0

    def write_or_die(rows: DataFrame, batch_id: int) -> None:
        nonlocal batches
        batches += 1
        dies = program_input["dies"] if batches >= program_input["at"] else ""
        if dies == "chance":
            Timer(program_input["after_s"], die).start()
        elif dies == "data":
            table = claims.tables.get(program_input["table"]) or open_table(program_input["table"])
            if not isinstance(table, Trapped):
                claims.tables[program_input["table"]] = Trapped(table, Path(program_input["log"]))
        write(rows, batch_id)
        if dies == "commit":
            die()

    return write_or_die


def events(spark: SparkSession, program_input: Given) -> DataFrame:
    """Return the rows of a noted log, or of a directory under Spark's own watermark."""
    if "url" in program_input:
        from noted_time_extensions.files import Batches, read_noted_log
        from spark_integration import Noted, WatermarkPolicy

        noted_stream, batches = (
            Noted(program_input["stream"], controller=program_input["url"]),
            Batches(program_input["rows"]),
        )
        policy = WatermarkPolicy(strict=False, batch_after_mark=True)
        return retry_start(
            lambda: read_noted_log(
                spark,
                program_input["root"],
                noted_stream,
                batches,
                event_time="time",
                policy=policy,
            )
        )
    files = spark.readStream.schema("time TIMESTAMP, name STRING").option("maxFilesPerTrigger", 1)
    return files.parquet(program_input["root"]).withWatermark("time", program_input["delay"])


def main(program_input: Given) -> None:
    """Write all that there is."""
    spark = start_spark(program_input["settings"])
    static = 0 if "url" in program_input else 1
    claims = TableClaims(program_input["checkpoint"], "rows", "time", static_sources=static)
    writer = events(spark, program_input).writeStream.foreachBatch(
        write_and_die(program_input, claims)
    )
    writer = writer.option("checkpointLocation", program_input["checkpoint"]).trigger(
        availableNow=True
    )
    wait_for_end(start_query(writer.start))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
