"""Applies marks before their cuts are read, and fails a query if that was wrong.

Spark judges the late rows of batch k by the watermark after batch k - 2. So a mark may come with
batch N if its cut is read by the end of N + 1. All rows of the topic when N is planned are read by
then, unless the rate is limited or a partition is new. So a partition counts only once it is in the
query's offset log.

The offset keeps such a mark until its cut is read. The plan of N + 1 requires that the rest can be
read, the plan of N + 2 that it is read.
"""

from __future__ import annotations

import logging
import time as clocks
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from noted_time import Recreated, Rejected, Unreachable
from noted_time.reading import WHOLE_LOG, MarkHistory, WholeFrom
from noted_time.values import find_missing_offsets
from spark_integration.marks.offset import MarkAhead, StreamOffset
from spark_integration.marks.released import Released
from spark_integration.marks_source.begins import TopicLike, find_whole_from, warn_of_deleted
from spark_integration.marks_source.query import AheadLimit, KafkaPlanning

if TYPE_CHECKING:
    from noted_time.kafka import TopicLook

log = logging.getLogger("noted_time.spark")

PLANNING_S = 30.0
PAUSE_S = 0.2

NEW_CHECKPOINT = "start a query with a new checkpoint"

NO_IDS = (
    "Kafka topic %r has no id, as before Kafka 2.8: if it is recreated and soon longer than the "
    "query has read, that is not detected"
)

UNWATCHED_TERMS = KafkaPlanning({}, ahead=False)


def find_unreached(needs: Mapping[int, int], position: Mapping[int, int]) -> dict[int, int]:
    """Return the part of a cut that a position does not reach.

    >>> find_unreached({0: 9, 1: 5}, {0: 9, 1: 3, 2: 8})
    {1: 5}
    """
    return {missing.segment: missing.needed for missing in find_missing_offsets(position, needs)}


class TopicPlan:
    """The plan of a stream's rows in one run, from micro-batch to micro-batch.

    Before `batch` is planned, the query has read to `read`, and the topic may have the ids `logs`.
    Without a `topic` to watch, another source reads the rows, and marks follow them.
    """

    def __init__(
        self,
        name: str,
        topic: TopicLike | None = None,
        terms: KafkaPlanning = UNWATCHED_TERMS,
        patience_s: float = PLANNING_S,
    ) -> None:
        self.name = name
        self._topic = topic
        self._terms = terms
        self._patience_s = patience_s
        self.batch = 0
        self.read: Mapping[int, int] = {}
        self.logs: Collection[str] = ()
        self._is_known = False
        self._frozen: TopicLook | None = None
        self.begun: WholeFrom | None = None
        self._logged: WholeFrom | None = None

    @property
    def is_watched(self) -> bool:
        return self._topic is not None

    def begin_batch(
        self, batch: int, position: Mapping[int, int], logs: Collection[str] = ()
    ) -> None:
        """Begin the plan of a micro-batch. `position` has the ends of the batch before."""
        self.batch = batch
        self.read = position
        self.logs = logs

    def freeze(self) -> None:
        if self._topic is not None:
            self._frozen = self._look_at(self._topic)

    def check_limit(self, due: MarkAhead | None) -> None:
        limit = self._terms.limit
        if due is not None and limit:
            raise Rejected(
                f"mark {due.seq} of Kafka topic {self.name!r} came before its rows were "
                f"read, and {limit} may now leave them to a later micro-batch, which would drop "
                f"them as late: run the query without {limit} until it has read "
                f"{dict(due.needs)}, and set it then"
            )

    def check_judged(self, end_offset: StreamOffset, batch: int) -> None:
        if self._terms.limit is not AheadLimit.AT_ONCE:
            return
        for mark_ahead in end_offset.ahead:
            if mark_ahead.batch == batch - 1:
                self.check_limit(mark_ahead)

    def find_due(self, stream_offset: StreamOffset) -> MarkAhead | None:
        """Return the mark of the batch before, if its cut is not read yet.

        An earlier batch's mark would make rows of the planned batch late.
        """
        for ahead in stream_offset.ahead:
            unread = find_unreached(ahead.needs, self.read)
            if unread and ahead.batch >= self.batch - 1:
                return ahead
            if unread:
                raise Rejected(
                    f"{self._describe_lack(ahead, unread)} Rows below it would be dropped as late: "
                    f"{NEW_CHECKPOINT}"
                )
        return None

    def look(
        self, stream_offset: StreamOffset, due: MarkAhead | None, *, waits: bool
    ) -> TopicLook | None:
        """Return the topic's state, or `None` if it is not watched, not needed or unknown.

        Each run asks the broker once, to find a recreated topic before it reads rows.
        """
        topic = self._topic
        if topic is None:
            return None
        is_needed = due is not None or not self._is_known
        if not is_needed and not waits:
            return None
        deadline = clocks.monotonic() + self._patience_s
        while True:
            try:
                look = self._frozen or self._look_at(topic)
            except Unreachable as error:
                if not is_needed:
                    log.warning("marks come after their rows for now: %s", error)
                    return None
                if clocks.monotonic() >= deadline:
                    raise
            else:
                fault = self._find_fault(stream_offset, due, look)
                if fault is None:
                    if not self._is_known and look.id is None:
                        log.warning(NO_IDS, self.name)
                    self._is_known = True
                    return look
                is_certain = isinstance(fault, Recreated) and fault.is_certain
                if is_certain or clocks.monotonic() >= deadline:
                    raise fault
            self._wait()

    def find_position(self, look: TopicLook) -> Mapping[int, int]:
        """Return how far the planned batch will have read for certain."""
        if not self._terms.ahead or self._terms.limit or self._frozen is not None:
            return self.read
        position: dict[int, int] = {}
        for partition, end in self.read.items():
            position[partition] = max(end, look.ends.get(partition, 0))
        return position

    def find_whole_from(
        self, whole_from: WholeFrom | None, marks: MarkHistory, *, has_bound: bool
    ) -> WholeFrom | None:
        """Return the first time whose rows the query has, all of them, once marks show it.

        Until then, and while no broker answers, it is the former `whole_from`.
        """
        topic = self._topic
        if topic is None or whole_from is None or not whole_from.is_pending:
            return whole_from
        try:
            if whole_from.begins is None:
                self.begun = self.begun or find_whole_from(topic, self._look_at(topic))
            begun_whole = self.begun or whole_from
            resolved_whole = begun_whole.resolve(marks, has_bound=has_bound)
            if resolved_whole not in (whole_from, self._logged, WHOLE_LOG):
                begins = begun_whole.begins or {}
                warn_of_deleted(self.name, begins, self._look_at(topic), resolved_whole)
        except Unreachable:
            return whole_from
        self._logged = resolved_whole
        return resolved_whole

    def admit(
        self, stream_offset: StreamOffset, mark: Released, cut: Mapping[int, int]
    ) -> StreamOffset:
        """Return the offset with a mark, which is ahead of its rows if its cut is not read yet."""
        marks_ahead: list[MarkAhead] = []
        for mark_ahead in stream_offset.ahead:
            if mark_ahead.batch >= self.batch - 1 and find_unreached(mark_ahead.needs, self.read):
                marks_ahead.append(mark_ahead)
        needs = find_unreached(cut, self.read)
        if needs:
            marks_ahead.append(MarkAhead(self.batch, mark.seq, needs))
        return replace(stream_offset, mark=mark, ahead=tuple(marks_ahead))

    def check_same(self, stream_offset: StreamOffset, look: TopicLook) -> None:
        ids = {stream_offset.topic_id, look.id} - {None}
        if len(ids) > 1 and not ids <= set(self.logs):
            fact = f"its id is {look.id}, and the query has read {stream_offset.topic_id}"
            raise self._build_recreated(fact, is_certain=True)
        for partition, end in look.ends.items():
            read_to = self.read.get(partition, 0)
            if read_to > end:
                raise self._build_recreated(
                    f"partition {partition} ends at {end}, and the query has read to {read_to}"
                )

    def find_unclear(self, due: MarkAhead | None, look: TopicLook) -> frozenset[int]:
        """Return the needed partitions that the broker did not return."""
        unread = {} if due is None else find_unreached(due.needs, self.read)
        listed_ends = {segment: end for segment, end in unread.items() if segment in look.ends}
        unreadable = find_unreached(listed_ends, look.ends)
        if due is not None and unreadable:
            raise Rejected(
                f"{self._describe_lack(due, unreadable, look.ends)} Start the query again once the "
                f"topic has these rows; if they were deleted, {NEW_CHECKPOINT}"
            )
        absent_partitions = self.read.keys() - look.partitions
        leaderless_partitions = unread.keys() - listed_ends.keys()
        return frozenset(absent_partitions | leaderless_partitions)

    def _look_at(self, topic: TopicLike) -> TopicLook:
        return topic.look(committed=self._terms.committed)

    def _wait(self) -> None:
        clocks.sleep(PAUSE_S)
        if self._frozen is not None:
            with suppress(Unreachable):
                self.freeze()

    def _find_fault(
        self, stream_offset: StreamOffset, due: MarkAhead | None, look: TopicLook
    ) -> Rejected | Unreachable | None:
        try:
            self.check_same(stream_offset, look)
            unclear = self.find_unclear(due, look)
        except Rejected as error:
            return error
        if not unclear:
            return None
        return self._explain_unclear(min(unclear), look)

    def _explain_unclear(self, partition: int, look: TopicLook) -> Recreated | Unreachable:
        if partition in look.partitions:
            return Unreachable(
                f"partition {partition} of Kafka topic {self.name!r} has no leader, and the last "
                "mark needs its rows: start the query again once it has a leader; no rows are lost"
            )
        return self._build_recreated(f"it has no partition {partition}, which the query has read")

    def _build_recreated(self, fact: str, *, is_certain: bool = False) -> Recreated:
        return Recreated(f"Kafka topic {self.name!r}", fact, is_certain=is_certain)

    def _describe_lack(
        self, ahead: MarkAhead, unread: Mapping[int, int], ends: Mapping[int, int] | None = None
    ) -> str:
        partition, end = next(iter(unread.items()))
        read_to = self.read.get(partition, 0)
        has = f"it ends at {ends[partition]}, and" if ends else "but"
        return (
            f"mark {ahead.seq} came with micro-batch {ahead.batch}, as partition {partition} of "
            f"Kafka topic {self.name!r} went up to {end}; {has} the query has read to {read_to} "
            f"before micro-batch {self.batch}."
        )
