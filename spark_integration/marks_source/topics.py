"""The rows of other sources, as far as Spark's offset log and Kafka show them."""

from __future__ import annotations

import logging
import time as clocks
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from pyspark.sql.datasource import InputPartition

from noted_time import AnotherLog, Recreated, Rejected, Unreachable
from noted_time.client import position_to_wire
from noted_time.reading import WHOLE_LOG, MarkHistory, WholeFrom, combine_whole
from spark_integration.checkpoint.query_progress import QueryProgress
from spark_integration.marks.feed import ControllerFeed
from spark_integration.marks.offset import MarkAhead, NotedOffset, StreamFacts, StreamOffset
from spark_integration.marks.planner import Planner
from spark_integration.marks.release import Releaser
from spark_integration.marks_source.ahead import TopicPlan
from spark_integration.marks_source.begins import TopicLike, find_whole_from, warn_of_deleted
from spark_integration.marks_source.query import AheadLimit, KafkaPlanning, MarksQuery

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

    from noted_time.kafka import TopicLook

log = logging.getLogger("noted_time.spark")

PLANNING_S = 30.0
PAUSE_S = 0.2

NO_IDS = (
    "Kafka topic %r has no id, as before Kafka 2.8: if it is recreated and soon longer than the "
    "query has read, that is not detected"
)


def create_planner(query: MarksQuery, token: str | None, client: Mapping[str, Any]) -> TopicPlanner:
    url, domain, on_seal = query.controller_url, query.domain, query.policy.on_seal
    marks = {
        stream: Releaser(ControllerFeed(url, stream, domain, token=token), on_seal)
        for stream in query.streams
    }
    if query.kafka is None:
        return TopicPlanner(query, marks, {})
    from noted_time.kafka import Topic  # noqa: PLC0415 - an extra

    topics = query.kafka.topics.items()
    watched = {s: WatchedTopic(Topic(client, topic), query.kafka) for s, topic in topics}
    return TopicPlanner(query, marks, watched)


class WatchedTopic:
    """A Kafka topic that the plans of one run watch."""

    def __init__(
        self, topic: TopicLike, terms: KafkaPlanning, patience_s: float = PLANNING_S
    ) -> None:
        self._topic = topic
        self._terms = terms
        self._patience_s = patience_s
        self._is_known = False
        self._frozen: TopicLook | None = None
        self.begun: WholeFrom | None = None
        self._logged: WholeFrom | None = None

    def freeze(self) -> None:
        self._frozen = self._look_at_topic()

    @property
    def name(self) -> str:
        return self._topic.name

    def check_limit(self, due: MarkAhead | None) -> None:
        limit = self._terms.limit
        if due is not None and limit:
            raise Rejected(
                f"mark {due.seq} of Kafka topic {self._topic.name!r} came before its rows were "
                f"read, and {limit} may now leave them to a later micro-batch, which would drop "
                f"them as late: run the query without {limit} until it has read "
                f"{dict(due.needs)}, and set it then"
            )

    def check_judged(self, ended: StreamOffset, batch: int) -> None:
        if self._terms.limit is AheadLimit.AT_ONCE:
            self.check_limit(next((a for a in ended.ahead if a.batch == batch - 1), None))

    def look(
        self, plan: TopicPlan, admitted: StreamOffset, due: MarkAhead | None, *, waits: bool
    ) -> TopicLook | None:
        """Return the topic's state, or `None` if it is not needed or unknown.

        Each run asks the broker once, to find a recreated topic before it reads rows.
        """
        is_needed = due is not None or not self._is_known
        if not is_needed and not waits:
            return None
        deadline = clocks.monotonic() + self._patience_s
        while True:
            try:
                look = self._frozen or self._look_at_topic()
            except Unreachable as error:
                if not is_needed:
                    log.warning("marks come after their rows for now: %s", error)
                    return None
                if clocks.monotonic() >= deadline:
                    raise
            else:
                fault = self._find_fault(plan, admitted, due, look)
                if fault is None:
                    if not self._is_known and look.id is None:
                        log.warning(NO_IDS, self._topic.name)
                    self._is_known = True
                    return look
                is_certain = isinstance(fault, Recreated) and fault.is_certain
                if is_certain or clocks.monotonic() >= deadline:
                    raise fault
            self._wait()

    def find_position(self, plan: TopicPlan, look: TopicLook) -> Mapping[int, int]:
        is_ahead = self._terms.ahead and not self._terms.limit and self._frozen is None
        return plan.find_readable(look) if is_ahead else plan.read

    def find_whole_from(
        self, known: WholeFrom | None, marks: MarkHistory, *, bounded: bool
    ) -> WholeFrom | None:
        if known is None or not known.is_pending:
            return known
        with suppress(Unreachable):
            if known.begins is None:
                self.begun = self.begun or find_whole_from(self._topic, self._look_at_topic())
            begun = self.begun or known
            whole = begun.resolve(marks, bounded=bounded)
            if whole not in (known, self._logged, WHOLE_LOG):
                warn_of_deleted(self._topic.name, begun.begins or {}, self._look_at_topic(), whole)
            self._logged = known = whole
        return known

    def _look_at_topic(self) -> TopicLook:
        return self._topic.look(committed=self._terms.committed)

    def _wait(self) -> None:
        clocks.sleep(PAUSE_S)
        if self._frozen is not None:
            with suppress(Unreachable):
                self.freeze()

    def _find_fault(
        self, plan: TopicPlan, admitted: StreamOffset, due: MarkAhead | None, look: TopicLook
    ) -> Rejected | Unreachable | None:
        try:
            plan.check_same(admitted, look)
            unclear = plan.find_unclear(due, look)
        except Rejected as error:
            return error
        return self._explain_unclear(min(unclear), look, plan) if unclear else None

    def _explain_unclear(
        self, partition: int, look: TopicLook, plan: TopicPlan
    ) -> Recreated | Unreachable:
        if partition in look.partitions:
            return Unreachable(
                f"partition {partition} of Kafka topic {self._topic.name!r} has no leader, and "
                "the last mark needs its rows: start the query again once it has a leader; no "
                "rows are lost"
            )
        return plan.build_recreated(f"it has no partition {partition}, which the query has read")


class TopicPlanner(Planner):
    """Plans marks of rows that other sources read. Without `watched` topics, marks follow them."""

    def __init__(
        self, query: MarksQuery, marks: Mapping[str, Releaser], watched: Mapping[str, WatchedTopic]
    ) -> None:
        begun = query.kafka.begun if query.kafka else {}
        facts = {s: StreamFacts(query.domain, query.lag_ms, begun.get(s)) for s in query.streams}
        streams = {stream: StreamOffset(facts=each) for stream, each in facts.items()}
        beginning = NotedOffset(streams, uuid.uuid4().hex)
        super().__init__(beginning, query.policy, marks, query.backlog)
        self._query = query
        self._watched = watched
        self._progress = QueryProgress(query.checkpoint)

    def freeze(self) -> None:
        super().freeze()
        for each in self._watched.values():
            each.freeze()

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
        for stream, watched in self._watched.items():
            watched.check_judged(ended.streams[stream], self._progress.last)

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
                stream: self._find_whole_from(stream, begun[stream]) for stream in self._watched
            }
            if not combine_whole(by_topic.values()).is_pending:
                break
            clocks.sleep(PAUSE_S)
            self.follow_last()
        known = [(each.name, each.begun) for each in self._watched.values()]
        return by_topic, {n: position_to_wire(w.begins) for n, w in known if w and w.begins}

    def _find_read(self, token: str) -> Mapping[str, Mapping[int, int]]:
        streams = self._query.streams
        return self._progress.find_position(
            token, lambda offset: {name: of(offset) for name, of in streams.items()}
        )

    def _find_whole_from(self, stream: str, begun: StreamOffset) -> WholeFrom | None:
        marks, bounded = self.marks[stream].history, not self._query.lag_ms
        return self._watched[stream].find_whole_from(begun.facts.whole, marks, bounded=bounded)

    def _admit(self, stream: str, begun: StreamOffset, read: Mapping[int, int]) -> StreamOffset:
        marks, watched = self.marks[stream], self._watched.get(stream)
        name = watched.name if watched else stream
        plan = TopicPlan(name, self._progress.last + 1, read, marks.stream.logs)
        due = plan.find_due(begun)
        position = read
        if watched is not None:
            watched.check_limit(due)
            if plan.batch:  # Spark's source has begun
                facts = replace(begun.facts, whole=self._find_whole_from(stream, begun))
                begun = replace(begun, facts=facts)
            waits = marks.has_more(begun.mark)
            look = watched.look(plan, begun, due, waits=waits)
            if look is None and waits:
                return begun
            if look is not None:
                begun = replace(begun, topic_id=look.id or begun.topic_id)
                position = watched.find_position(plan, look)
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
