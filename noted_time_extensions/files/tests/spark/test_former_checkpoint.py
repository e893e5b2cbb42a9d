"""A query goes on from a checkpoint of the time when its classes had other names."""

from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from noted_time_extensions.files.tests.support.reads import Reads, write_rows
from tests.support.noted_stream import NotedStream
from tests.support.offset_log import read_plan
from tests.support.query_output import QueryOutput

pytestmark = [pytest.mark.spark, pytest.mark.shows("read_noted_log")]

FORMER_METADATA = '{"id":"723fd3d4-b786-491a-9a35-65c23242665f"}'

FORMER_OFFSETS = """v1
{"batchWatermarkMs":0,"batchTimestampMs":1796061281495,"conf":{}}
{"noted_streams": {"flights": {"mark": {"stream_id": "STREAM_ID", "seq": 1, "lower": 1500}, \
"segments": {"0": 2, "1": 1}, "facts": {"domain": "default", \
"whole": {"time": -9223372036854775808}, "first_lower": 1500, "own_form": {}}}}, "run": 1, \
"root": "ROOT"}"""
"""The first batch of `spark_integration.read_noted_log`, without the settings of the session."""

FORMER_COMMIT = 'v1\n{"nextBatchWatermarkMs":1499}'

MODULE_NAMES = (b"spark_integration", b"noted_time_extensions", b"noted_time.")


def write_former_checkpoint(checkpoint: Path, stream: NotedStream) -> None:
    """Write the files of the first batch as they were recorded, for this stream."""
    stream_id = stream.server.call("GET", f"/{stream.name}")["id"]
    offsets = FORMER_OFFSETS.replace("STREAM_ID", stream_id).replace("ROOT", str(stream.root))
    texts = {"metadata": FORMER_METADATA, "offsets/0": offsets, "commits/0": FORMER_COMMIT}
    for name, text in texts.items():
        path = checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_query_goes_on_from_a_former_checkpoint(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """It reads only the rows that the checkpoint has not."""
    write_rows(flights, 1500)
    write_former_checkpoint(output.checkpoint, flights)
    flights.append(0, (3000, "d"))
    flights.note(2500)
    output.catch_up(read(flights, strict=True).select(F.unix_millis("time"), "name"))

    _, offset = read_plan(output.checkpoint)
    assert output.rows == [(3000, "d")]
    assert offset["noted_streams"]["flights"]["segments"] == {"0": 3, "1": 1}


def test_checkpoint_of_a_query_has_no_module_names(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Neither offsets nor state have one, so modules may be renamed between two runs."""
    write_rows(flights, 1500)
    output.catch_up(read.counts(flights))

    module_lines = [
        path.name
        for path in output.checkpoint.rglob("*")
        if path.is_file() and any(name in path.read_bytes() for name in MODULE_NAMES)
    ]
    assert (module_lines, (output.checkpoint / "state").is_dir()) == ([], True)
