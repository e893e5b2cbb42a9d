"""Checkpoints of former versions continue: what each kind of query left in its offset log.

Those of marks in a topic, and of tables, have offsets of Spark and of Kafka alone. A batch read of
complete windows leaves none.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from spark_integration.beside.admitted import MarksOffset
from spark_integration.log.offset import LogOffset
from tests.spark.conftest import Reads
from tests.support.noted_stream import NotedStream
from tests.support.query_output import QueryOutput

HERE = Path(__file__).parent
STORED: list[dict[str, Any]] = json.loads((HERE / "stored-offsets.json").read_text())
KINDS = ("noted_log", "noted_marks")
CHECKPOINT = HERE / "checkpoint-0.1.0"
"""Of a query of 0.1.0 that has read `a` and `b` of segment 0, `c` of segment 3, and mark 1."""


def named(stored: dict[str, Any]) -> str:
    """Return what an offset is of, and which version wrote it."""
    return f"{stored['of']}, by {stored['by']}"


@pytest.mark.parametrize("stored", STORED, ids=named)
def test_an_offset_is_read_with_all_that_it_says(stored: dict[str, Any]) -> None:
    """It is written again in the shape that its own version reads: there is a way back."""
    offset = stored["offset"]
    kind = LogOffset if "noted_log" in offset else MarksOffset

    assert kind.from_json(offset).to_json() == offset


def test_each_kind_of_an_offset_of_0_1_0_says_where_the_query_was() -> None:
    """Segments and marks by their domains, and the least mark of those beside another source."""
    log, beside = (next(it["offset"] for it in STORED if each in it["offset"]) for each in KINDS)
    read, marks = LogOffset.from_json(log), MarksOffset.from_json(beside)

    assert (read.segments, read.released("default").seq) == ({0: 12, 3: 7}, 3)
    assert (marks.least.seq, marks.least.lower, marks.token, marks.run) == (3, 99, "5b1e", 1)


@pytest.mark.spark
def test_a_query_continues_from_a_checkpoint_of_0_1_0(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """It reads what came since, and nothing twice; its watermark goes on from the stored mark."""
    flights.append(0, (1000, "a"), (2000, "b"))
    flights.append(3, (1500, "c"))
    flights.note(1800)
    shutil.copytree(CHECKPOINT, output.checkpoint)
    planned = output.checkpoint / "offsets" / "0"
    text = planned.read_text().replace("STREAM_ID", flights.server.get("flights")["id"])
    planned.write_text(text.replace("ROOT", str(flights.root)))
    flights.append(0, (3000, "d"))
    flights.note(2500)
    output.catch_up(read(flights).select("name"))

    assert (output.rows, output.last_lower()) == ([("d",)], 2500)
