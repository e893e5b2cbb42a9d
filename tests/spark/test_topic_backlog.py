"""The backlog flag of marks with a topic; no Spark runs here."""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest
from msgspec import structs
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from noted_time import BacklogPolicy, Mark, Rejected, StreamCut
from spark_integration import CatchUp
from spark_integration.checkpoint.source_positions import KafkaTopic
from spark_integration.kafka.read import _limit_rows
from spark_integration.marks.feed import FeedMarks
from spark_integration.marks.offset import NotedOffset, StreamOffset
from spark_integration.marks.release import Releaser
from spark_integration.marks.released import Released
from spark_integration.marks_source.query import MarksQuery
from spark_integration.marks_source.topics import TopicPlanner
from tests.support.feeds import LocalFeed
from tests.support.offset_log import plan

BEHIND = BacklogPolicy(reader_lag_ms=10)
LAGGING = BacklogPolicy(watermark_lag_ms=60_000)
HOUR_AGO = time.time_ns() // 1_000_000 - 3_600_000


@dataclass
class LastMark(LocalFeed):
    """A stream with a lower that the query has, and its last mark."""

    lower: int | None
    last: int | None
    is_quiet: bool = False

    def take(self) -> FeedMarks:
        """See `MarksFeed`."""
        cut = StreamCut({0: 9})
        last = self.last
        marks = [] if last is None else [Mark(2, last, last, cut)]
        self.last = None
        return FeedMarks("s", marks, is_quiet=self.is_quiet)


def make_planner(
    policy: BacklogPolicy | None, checkpoint: Path, *streams: LastMark
) -> TopicPlanner:
    """Return the planner of a query on topics with these streams."""
    streams_by_name = {f"flights{n}": stream for n, stream in enumerate(streams)}
    positions = {name: KafkaTopic(name).among_others for name in streams_by_name}
    query = MarksQuery(positions, "", str(checkpoint), backlog=policy)
    return TopicPlanner(
        query, {name: Releaser(stream_feed) for name, stream_feed in streams_by_name.items()}, {}
    )


def build_offset(*streams: LastMark) -> NotedOffset:
    """Return the start offset of a batch with these lowers."""
    mark = {f"flights{n}": Released("s", 1, stream.lower) for n, stream in enumerate(streams)}
    return NotedOffset(
        {name: StreamOffset(released_mark) for name, released_mark in mark.items()}, "t"
    )


@pytest.mark.parametrize(
    ("policy", "streams", "flag"),
    [
        (BEHIND, [LastMark(90, 100)], False),
        (BEHIND, [LastMark(89, 100)], True),
        (BEHIND, [LastMark(None, 100)], True),
        (BEHIND, [LastMark(90, None)], None),
        (BEHIND, [LastMark(100, 100), LastMark(5, 50)], True),
        (BEHIND, [LastMark(100, 100), LastMark(50, 50)], False),
        (LAGGING, [LastMark(HOUR_AGO, HOUR_AGO)], True),
        (LAGGING, [LastMark(HOUR_AGO, HOUR_AGO, is_quiet=True)], False),
        (BacklogPolicy(60_000, rule="sticky"), [LastMark(HOUR_AGO, HOUR_AGO, is_quiet=True)], None),
        (LAGGING, [LastMark(None, HOUR_AGO)], None),
        (None, [LastMark(5, 100)], None),
    ],
)
def test_backlog_flag_says_if_a_stream_was_behind_at_planning(
    tmp_path: Path, policy: BacklogPolicy | None, streams: list[LastMark], *, flag: bool | None
) -> None:
    """One of several streams is enough. Silent writers are not a backlog."""
    own_streams = map(
        replace, streams
    )  # a feed gives its mark once, and a process may repeat the test
    planner = make_planner(policy, tmp_path, *own_streams)
    end_offset = planner.plan(build_offset(*streams), ReadAllAvailable())

    assert end_offset.backlog is flag
    assert NotedOffset.from_json(json.loads(json.dumps(end_offset.to_json()))) == end_offset


@pytest.mark.parametrize(
    ("starting", "is_behind"), [({"flights0": {}}, True), ({}, False), ({"flights0": {0: 9}}, True)]
)
def test_new_query_is_as_far_behind_as_its_first_lower(
    tmp_path: Path, starting: dict[str, dict[int, int]], *, is_behind: bool
) -> None:
    """It has no lower yet, and its first rows are an hour old."""
    planner = make_planner(LAGGING, tmp_path, LastMark(None, HOUR_AGO))

    assert planner.judge_backlog(planner.follow_last(), starting) is is_behind


def test_sticky_catch_up_has_no_backlog_in_the_next_run(tmp_path: Path) -> None:
    """The flag in its last offset says so, under the rule `sticky`."""
    sticky = BacklogPolicy(reader_lag_ms=10, rule="sticky")
    flags = []
    for flag in True, False:
        stream = LastMark(5, 100)
        start = structs.replace(build_offset(stream), backlog=flag)
        planner = make_planner(sticky, tmp_path, stream)
        flags.append(planner.plan(start, ReadAllAvailable()).backlog)

    assert flags == [True, False]


def test_change_of_the_flag_alone_plans_no_batch(tmp_path: Path) -> None:
    """The last offset stays until there is a mark to let in."""
    stream = LastMark(95, 100)
    planner = make_planner(BEHIND, tmp_path, stream)
    first = planner.plan(build_offset(stream), ReadAllAvailable())
    plan(tmp_path, 0, first.to_json(), {"flights0": {"0": 1}})
    stream.last = 200

    assert (planner.plan(first, ReadAllAvailable()), first.backlog) == (first, False)


def test_connect_refuses_the_larger_limit_only() -> None:
    """The call cannot read a checkpoint on the server."""
    remote = cast("SparkSession", object())
    query = MarksQuery({}, "", "checkpoint")
    catch_up = CatchUp(BEHIND)
    limit = {"maxOffsetsPerTrigger": 4}

    assert _limit_rows(remote, catch_up, {}, query, (None, {})) == {}
    with pytest.raises(Rejected, match="CatchUp with maxOffsetsPerTrigger needs the checkpoint"):
        _limit_rows(remote, catch_up, limit, query, (None, {}))
