"""The offsets of a query, as stored in its offset log; no Spark runs here."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition

from noted_time import Rejected
from noted_time.reading import WholeFrom
from spark_integration.checkpoint.query_progress import PlannedBatch, QueryProgress
from spark_integration.checkpoint.source_positions import KafkaTopic
from spark_integration.marks.offset import MarkAhead, NotedOffset, StreamFacts, StreamOffset
from spark_integration.marks.released import Released
from spark_integration.marks.time_range import TimeRange
from spark_integration.marks.watermark import FIRST_MS, LAST_MS
from spark_integration.marks_source.query import MarksQuery
from spark_integration.marks_source.source import MarksReader
from tests.support.offset_log import plan
from tools.trials.served import Served

FLIGHTS = KafkaTopic("flights")


def marks(token: str) -> object:
    """Return an offset of the marks source of that token."""
    return NotedOffset({"flights": StreamOffset()}, token).to_json()


def test_position_comes_from_the_newest_planned_batch(tmp_path: Path) -> None:
    """A search continues at the last batch it found. Older files may be deleted."""
    progress = QueryProgress(str(tmp_path))
    positions = []
    for batch in range(9, 12):
        plan(tmp_path, batch, marks("a"), {"flights": {"0": batch, "1": 2 * batch}})
        positions.append(progress.find_position("a", FLIGHTS))

    assert positions == [{0: 9, 1: 18}, {0: 10, 1: 20}, {0: 11, 1: 22}]


def test_each_marks_source_has_the_events_behind_it(tmp_path: Path) -> None:
    """Two streams are joined, and the second has no offset yet. A log with its own marks follows.

    A source without marks may come before them all.
    """
    log = NotedOffset({"landings": StreamOffset()}, root="/log").to_json()
    plan(tmp_path, 0, {"trains": {}}, marks("a"), {"flights": {"0": 1}}, marks("b"), None, log)
    progress = QueryProgress(f"file://{tmp_path}")

    assert [progress.find_position("a", FLIGHTS), progress.find_position("b", FLIGHTS)] == [
        {0: 1},
        {},
    ]


@pytest.mark.parametrize(
    ("offsets", "version", "says"),
    [
        ([], "v1", "was written by another query"),
        ([marks("z"), {"flights": {"0": 1}}], "v1", "was written by another query"),
        ([marks("a"), {"landings": {"0": 1}}], "v1", r"pass position=KafkaTopic\('landings'\)"),
        ([marks("a"), {"flights": {"0": 1}, "landings": {}}], "v1", "topics 'flights', 'landings'"),
        ([marks("a"), 7], "v1", "offset 7 is not one of Kafka topics"),
        (
            [marks("a"), {"flights": {"0": 1}}, {"flights": {}}],
            "v1",
            "cover one source, but 2 follow them",
        ),
        ([marks("a"), {"flights": {"0": 1}}, None], "v1", "cover one source, but 2 follow them"),
        ([marks("a")], "v1", "cover one source, but 0 follow them"),
        (
            [marks("a"), {"flights": {"0": 1}}],
            "v7",
            "offset log 'v7' of .* needs a newer noted-time",
        ),
    ],
)
def test_unclear_offset_log_is_refused(
    tmp_path: Path, offsets: list[object], version: str, says: str
) -> None:
    """Otherwise the watermark would never advance, without an error."""
    plan(tmp_path, 0, *offsets, version=version)

    with pytest.raises(Rejected, match=says):
        QueryProgress(str(tmp_path)).find_position("a", FLIGHTS)


def test_directory_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="has no batch yet"):
        QueryProgress(str(tmp_path / "nowhere")).find_position("a", FLIGHTS)


def metadata(watermark_ms: int, **conf: str) -> dict[str, object]:
    """Return what Spark writes about a batch."""
    return {"batchWatermarkMs": watermark_ms, "batchTimestampMs": 9, "conf": conf}


def test_planned_batch_is_read_from_the_offset_log(tmp_path: Path) -> None:
    """Another batch is planned after it. Its second source has no offset yet."""
    policy = {"spark.sql.streaming.multipleWatermarkPolicy": "max"}
    plan(tmp_path, 3, {"flights": {"0": 1}}, None, metadata=metadata(30, **policy))
    plan(tmp_path, 4, {"flights": {"0": 2}}, {"trains": {}}, metadata=metadata(40, **policy))

    batch = QueryProgress(str(tmp_path)).read_batch(3)

    assert batch == PlannedBatch("q", 3, 30, "max", ({"flights": {"0": 1}}, None))


def test_batch_before_the_first_mark_has_no_watermark(tmp_path: Path) -> None:
    """Spark writes 0. Older releases wrote no policy."""
    plan(tmp_path, 0, {"flights": {"0": 1}}, metadata={"batchWatermarkMs": 0})

    batch = QueryProgress(str(tmp_path)).read_batch(0)

    assert batch == PlannedBatch("q", 0, None, "min", ({"flights": {"0": 1}},))


def test_batch_that_the_offset_log_lacks_is_refused(tmp_path: Path) -> None:
    """The batch is not planned yet, or its file is deleted."""
    plan(tmp_path, 4, {"flights": {"0": 1}}, metadata=metadata(0))

    with pytest.raises(Rejected, match="it does not have batch 3"):
        QueryProgress(str(tmp_path)).read_batch(3)


def test_watermark_comes_from_the_batch_planned_last(tmp_path: Path) -> None:
    """A sink asks during its batch. An earlier batch is refused."""
    plan(tmp_path, 3, {"flights": {"0": 1}}, metadata=metadata(30))
    plan(tmp_path, 4, {"flights": {"0": 2}}, metadata=metadata(40))
    progress = QueryProgress(str(tmp_path))

    assert progress.read_watermark(4) == 40
    with pytest.raises(Rejected, match="is at batch 4, and this is batch 3"):
        progress.read_watermark(3)


TIMES = st.none() | st.integers(FIRST_MS + 1, LAST_MS)
POSITIONS = st.dictionaries(st.integers(0, 12), st.integers(0, 2**63 - 1), max_size=3)
READ = st.builds(
    StreamOffset,
    st.builds(Released, lower=TIMES),
    POSITIONS,
    ahead=st.lists(st.builds(MarkAhead, needs=POSITIONS), max_size=2).map(tuple),
    facts=st.builds(StreamFacts, whole=st.none() | st.builds(WholeFrom, st.none() | POSITIONS)),
)
OFFSETS = st.builds(
    NotedOffset,
    st.dictionaries(st.sampled_from(["flights", "landings"]), READ),
    times=st.builds(TimeRange, TIMES, TIMES),
    begin=POSITIONS,
)


@given(OFFSETS)
def test_offset_survives_its_json_text(offset: NotedOffset) -> None:
    """It keeps its facts, although a change of facts alone makes no batch."""
    parsed_offset = NotedOffset.from_json(json.loads(json.dumps(offset.to_json())))

    assert parsed_offset == offset
    assert list_facts(parsed_offset) == list_facts(offset)


def list_facts(offset: NotedOffset) -> dict[str, object]:
    return {name: stream_offset.facts for name, stream_offset in offset.streams.items()}


@pytest.mark.parametrize(
    ("stream", "domain", "own"), [("flights", None, "'flights'"), ("ticks", "ship", "'ticks', .*")]
)
def test_checkpoint_with_other_marks_is_refused(
    controller: Served, tmp_path: Path, stream: str, domain: str | None, own: str
) -> None:
    """The stream or domain differs."""
    query = MarksQuery({"ticks": KafkaTopic("ticks")}, controller.url, str(tmp_path), "left")
    reader = MarksReader(query)
    stream_offset = StreamOffset(facts=StreamFacts(domain))
    other = NotedOffset({stream: stream_offset}, "5b1e", run=1).to_json()

    with pytest.raises(Rejected, match=f"is of stream {own}, and the query reads"):
        reader.latestOffset(other, reader.getDefaultReadLimit())
    reader.stop()


def test_task_of_the_marks_source_is_one_row() -> None:
    """The time is the watermark, in microseconds."""
    reader = MarksReader(MarksQuery({}, "", ""))
    (rows,) = reader.read(InputPartition(1500))

    assert rows.to_pydict() == {"time": [datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)]}


def test_offset_of_older_version_is_read() -> None:
    """A query continues from the checkpoint that it had before the renames."""
    text = (
        '{"noted_streams": {"flights": {"mark": {"stream_id": "5f2e", "seq": 4, "lower": 7}, '
        '"segments": {"0": 12}, "facts": {"domain": "default", "whole": {"time": 5}, '
        '"first_lower": 3}}}, "token": "c0ffee", "run": 2, "backlog": true}'
    )
    offset = NotedOffset.from_json(json.loads(text))

    assert json.loads(json.dumps(offset.to_json())) == json.loads(text)
