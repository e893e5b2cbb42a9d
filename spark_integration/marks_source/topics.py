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
    url, domain, on_seal = query.controller_url, query.domain, query.policy.on_seal
    marks = {
        stream: Releaser(ControllerFeed(url, stream, domain, token=token), on_seal)
        for stream in query.streams
    }
    if query.kafka is None:
        return TopicPlanner(query, marks, {})
    from noted_time.kafka import Topic  # noqa: PLC0415 - an extra

    plans = {}
    for stream, name in query.kafka.topics.items():
        plans[stream] = TopicPlan(name, Topic(client, name), query.kafka)
    return TopicPlanner(query, marks, plans)


class TopicPlanner(Planner):
    """Plans marks of rows that other sources read. Without a plan in `plans`, marks follow them."""

    def __init__(
        self, query: MarksQuery, marks: Mapping[str, Releaser], plans: Mapping[str, TopicPlan]
    ) -> None:
        begun = query.kafka.begun if query.kafka else {}
        facts = {s: StreamFacts(query.domain, query.lag_ms, begun.get(s)) for s in query.streams}
        streams = {stream: StreamOffset(facts=each) for stream, each in facts.items()}
        beginning = NotedOffset(streams, uuid.uuid4().hex)
        super().__init__(beginning, query.policy, marks, query.backlog)
        self._query = query
        self._plans = {stream: plans.get(stream) or TopicPlan(stream) for stream in query.streams}
        self._progress = QueryProgress(query.checkpoint)

    def freeze(self) -> None:
        super().freeze()
        for plan in self._plans.values():
            plan.freeze()

    def find_ends(self, begun: NotedOffset, limit: ReadLimit) -> NotedOffset:  # noqa: ARG002 - always one row
        read = self._find_read(begun.token) if begun.run else {}
        self.judge_backlog(begun, read)
        streams = {
            stream: self._admit(stream, each, read.get(stream, {}))
            for stream, each in begun.streams.items()
        }
        return replace(begun, streams=streams)

    def list_ranges(self, begun: NotedOffset, ended: NotedOffset) -> Sequence[InputPartition]:
        """Return the mark's row, with the time in ms.

        Spark calls this before it reads a batch, so no row is judged by marks that do not cover it.
        """
        self.check_covered(ended)
        strict, lag_ms = self._policy.strict, self._query.lag_ms
        ms = ended.find_watermark(strict=strict, lag_ms=lag_ms).ms
        return [] if begun == ended or ms is None else [InputPartition(ms)]

    def check_covered(self, ended: NotedOffset) -> None:
        self._find_read(ended.token)
        for stream, plan in self._plans.items():
            plan.check_judged(ended.streams[stream], self._progress.last)

    def follow_last(self) -> NotedOffset:
        """Follow the marks from the last offset in the checkpoint on, and return it."""
        last = self._progress.find_last_marks(self._query.streams)
        begun = NotedOffset.from_json(last) if last else self.beginning
        for stream, marks in self.marks.items():
            marks.follow(begun.streams[stream].mark)
        return begun

    def judge_backlog(self, begun: NotedOffset, read: Mapping[str, Mapping[int, int]]) -> bool:
        """Return whether a stream is behind, and keep this for the next offset."""
        found = [
            self.backlog.look(
                begun, stream, marks, read.get(stream), idle=marks.final_state != "live"
            )
            for stream, marks in self.marks.items()
        ]
        return any(found)

    def wait_for_whole(self) -> tuple[dict[str, WholeFrom | None], dict[str, Mapping[str, int]]]:
        """Wait until marks show from when on each topic is complete, and where a query starts."""
        begun = self.follow_last().streams
        while True:
            by_topic = {
                stream: self._find_whole_from(stream, begun[stream]) for stream in self._plans
            }
            if not combine_whole(by_topic.values()).is_pending:
                break
            clocks.sleep(PAUSE_S)
            self.follow_last()
        known = [(plan.name, plan.begun) for plan in self._plans.values()]
        return by_topic, {n: position_to_wire(w.begins) for n, w in known if w and w.begins}

    def _find_read(self, token: str) -> Mapping[str, Mapping[int, int]]:
        streams = self._query.streams
        return self._progress.find_position(
            token, lambda offset: {name: of(offset) for name, of in streams.items()}
        )

    def _find_whole_from(self, stream: str, begun: StreamOffset) -> WholeFrom | None:
        marks, bounded = self.marks[stream].history, not self._query.lag_ms
        return self._plans[stream].find_whole_from(begun.facts.whole, marks, bounded=bounded)

    def _admit(self, stream: str, begun: StreamOffset, read: Mapping[int, int]) -> StreamOffset:
        marks, plan = self.marks[stream], self._plans[stream]
        plan.begin_batch(self._progress.last + 1, read, marks.stream.logs)
        due = plan.find_due(begun)
        position = read
        if plan.is_watched:
            plan.check_limit(due)
            if plan.batch:  # Spark's source has begun
                facts = replace(begun.facts, whole=self._find_whole_from(stream, begun))
                begun = replace(begun, facts=facts)
            waits = marks.has_more(begun.mark)
            look = plan.look(begun, due, waits=waits)
            if look is None and waits:
                return begun
            if look is not None:
                begun = replace(begun, topic_id=look.id or begun.topic_id)
                position = plan.find_position(look)
            AnotherLog.check(stream, marks.stream.logs, begun.topic_id)
        elif due is not None:
            raise Rejected(
                f"mark {due.seq} of stream {stream!r} came before its rows were read: start the "
                "query with read_noted_kafka, as before"
            )
        mark = marks.release(begun.mark, position)
        if mark != begun.mark:
            return plan.admit(begun, mark, marks.get_cut(mark))
        # a run changes its first offset anyway
        return begun if self._restated.has_begun else plan.admit(begun, mark, {})
