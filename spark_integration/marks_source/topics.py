"""The rows of other sources, as far as Spark's offset log and Kafka show them."""

from __future__ import annotations

import time as clocks
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pyspark.sql.datasource import InputPartition

from noted_time import AnotherLog, Rejected
from noted_time.client import position_to_wire
from noted_time.reading import WholeFrom, combine_whole
from spark_integration.checkpoint.query_progress import QueryProgress
from spark_integration.marks.feed import ControllerFeed
from spark_integration.marks.offset import NotedOffset, StreamFacts, StreamOffset
from spark_integration.marks.planner import Planner
from spark_integration.marks.release import Releaser
from spark_integration.marks_source.ahead import PAUSE_S, TopicPlan
from spark_integration.marks_source.query import MarksQuery

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit


def create_planner(query: MarksQuery, token: str | None, client: Mapping[str, Any]) -> TopicPlanner:
    marks: dict[str, Releaser] = {}
    for stream in query.streams:
        feed = ControllerFeed(query.controller_url, stream, query.domain, token=token)
        marks[stream] = Releaser(feed, query.policy.on_seal)
    if query.kafka is None:
        return TopicPlanner(query, marks, {})
    from noted_time.kafka import Topic  # noqa: PLC0415 - an extra

    plans = {}
    for stream, topic_name in query.kafka.topics.items():
        plans[stream] = TopicPlan(topic_name, Topic(client, topic_name), query.kafka)
    return TopicPlanner(query, marks, plans)


class TopicPlanner(Planner):
    """Plans marks of rows that other sources read. Without a plan in `plans`, marks follow them."""

    def __init__(
        self, query: MarksQuery, marks: Mapping[str, Releaser], plans: Mapping[str, TopicPlan]
    ) -> None:
        whole_by_stream = query.kafka.begun if query.kafka else {}
        streams: dict[str, StreamOffset] = {}
        for stream in query.streams:
            facts = StreamFacts(query.domain, query.lag_ms, whole_by_stream.get(stream))
            streams[stream] = StreamOffset(facts=facts)
        beginning = NotedOffset(streams, uuid.uuid4().hex)
        super().__init__(beginning, query.policy, marks, query.backlog)
        self._query = query
        self._plans = {stream: plans.get(stream) or TopicPlan(stream) for stream in query.streams}
        self._progress = QueryProgress(query.checkpoint)

    def freeze(self) -> None:
        super().freeze()
        for plan in self._plans.values():
            plan.freeze()

    def find_ends(self, start_offset: NotedOffset, limit: ReadLimit) -> NotedOffset:  # noqa: ARG002 - always one row
        positions = self._find_read(start_offset.token) if start_offset.run else {}
        self.judge_backlog(start_offset, positions)
        streams: dict[str, StreamOffset] = {}
        for stream, stream_offset in start_offset.streams.items():
            streams[stream] = self._admit(stream, stream_offset, positions.get(stream, {}))
        return replace(start_offset, streams=streams)

    def list_ranges(
        self, start_offset: NotedOffset, end_offset: NotedOffset
    ) -> Sequence[InputPartition]:
        """Return the mark's row, with the time in ms.

        Spark calls this before it reads a batch, so no row is judged by marks that do not cover it.
        """
        self.check_covered(end_offset)
        strict = self._policy.strict
        watermark_ms = end_offset.find_watermark(strict=strict, lag_ms=self._query.lag_ms).ms
        if start_offset == end_offset or watermark_ms is None:
            return []
        return [InputPartition(watermark_ms)]

    def check_covered(self, end_offset: NotedOffset) -> None:
        self._find_read(end_offset.token)
        for stream, plan in self._plans.items():
            plan.check_judged(end_offset.streams[stream], self._progress.last)

    def follow_last(self) -> NotedOffset:
        """Follow the marks from the last offset in the checkpoint on, and return it."""
        last_json = self._progress.find_last_marks(self._query.streams)
        start_offset = NotedOffset.from_json(last_json) if last_json else self.beginning
        for stream, marks in self.marks.items():
            marks.follow(start_offset.streams[stream].mark)
        return start_offset

    def judge_backlog(
        self, start_offset: NotedOffset, positions: Mapping[str, Mapping[int, int]]
    ) -> bool:
        """Return whether a stream is behind, and keep this for the next offset."""
        behind_streams: list[str] = []
        for stream, marks in self.marks.items():
            is_idle = marks.final_state != "live"
            position = positions.get(stream)
            if self.backlog.look(start_offset, stream, marks, position, idle=is_idle):
                behind_streams.append(stream)
        return bool(behind_streams)

    def wait_for_whole(self) -> tuple[dict[str, WholeFrom | None], dict[str, Mapping[str, int]]]:
        """Wait until marks show the first time of each complete topic.

        Returns it by stream, and by topic the first offsets that a query can read.
        """
        start_offsets = self.follow_last().streams
        while True:
            whole_by_stream: dict[str, WholeFrom | None] = {}
            for stream in self._plans:
                whole_by_stream[stream] = self._find_whole_from(stream, start_offsets[stream])
            if not combine_whole(whole_by_stream.values()).is_pending:
                break
            clocks.sleep(PAUSE_S)
            self.follow_last()
        begins_by_topic: dict[str, Mapping[str, int]] = {}
        for plan in self._plans.values():
            if plan.begun and plan.begun.begins:
                begins_by_topic[plan.name] = position_to_wire(plan.begun.begins)
        return whole_by_stream, begins_by_topic

    def _find_read(self, token: str) -> Mapping[str, Mapping[int, int]]:
        def find_positions(offset: Any) -> dict[str, Mapping[int, int]]:  # noqa: ANN401 - any JSON value
            streams = self._query.streams.items()
            return {stream: position_of(offset) for stream, position_of in streams}

        return self._progress.find_position(token, find_positions)

    def _find_whole_from(self, stream: str, stream_offset: StreamOffset) -> WholeFrom | None:
        plan = self._plans[stream]
        marks = self.marks[stream].history
        has_bound = not self._query.lag_ms
        return plan.find_whole_from(stream_offset.facts.whole, marks, has_bound=has_bound)

    def _admit(
        self, stream: str, stream_offset: StreamOffset, read_to: Mapping[int, int]
    ) -> StreamOffset:
        """Return the end of a micro-batch for a stream, whose rows are read to `read_to`."""
        marks = self.marks[stream]
        plan = self._plans[stream]
        plan.begin_batch(self._progress.last + 1, read_to, marks.stream.logs)
        due = plan.find_due(stream_offset)
        position = read_to
        if plan.is_watched:
            plan.check_limit(due)
            if plan.batch:  # Spark's source has begun
                whole_from = self._find_whole_from(stream, stream_offset)
                facts = replace(stream_offset.facts, whole=whole_from)
                stream_offset = replace(stream_offset, facts=facts)
            waits = marks.has_more(stream_offset.mark)
            look = plan.look(stream_offset, due, waits=waits)
            if look is None and waits:
                return stream_offset
            if look is not None:
                stream_offset = replace(stream_offset, topic_id=look.id or stream_offset.topic_id)
                position = plan.find_position(look)
            AnotherLog.check(stream, marks.stream.logs, stream_offset.topic_id)
        elif due is not None:
            raise Rejected(
                f"mark {due.seq} of stream {stream!r} came before its rows were read: start the "
                "query with read_noted_kafka, as before"
            )
        mark = marks.release(stream_offset.mark, position)
        if mark != stream_offset.mark:
            return plan.admit(stream_offset, mark, marks.get_cut(mark))
        if self._restated.has_begun:
            return stream_offset
        return plan.admit(stream_offset, mark, {})  # a run changes its first offset anyway
