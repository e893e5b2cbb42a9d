"""Applies marks before their cuts are read, and fails a query if that was wrong.

Spark judges the late rows of batch k by the watermark after batch k - 2. So a mark may come with
batch N if its cut is read by the end of N + 1. All rows of the topic when N is planned are read by
then, unless the rate is limited or a partition is new. So a partition counts only once it is in the
query's offset log.

The offset keeps such a mark until its cut is read. The plan of N + 1 requires that the rest can be
read, the plan of N + 2 that it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from noted_time import Recreated, Rejected
from noted_time.values import find_missing_offsets
from spark_integration.marks.offset import MarkAhead, StreamOffset
from spark_integration.marks.released import Released

if TYPE_CHECKING:
    from noted_time.kafka import TopicLook

NEW_CHECKPOINT = "start a query with a new checkpoint"


def find_unreached(needs: Mapping[int, int], position: Mapping[int, int]) -> dict[int, int]:
    """Return the part of a cut that a position does not reach.

    >>> find_unreached({0: 9, 1: 5}, {0: 9, 1: 3, 2: 8})
    {1: 5}
    """
    return {each.segment: each.needed for each in find_missing_offsets(position, needs)}


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """How far a query has read a topic when it plans micro-batch `batch`.

    `read` has the ends of the batch before, `logs` the ids that the topic may have.
    """

    name: str
    batch: int
    read: Mapping[int, int]
    logs: Collection[str] = ()

    def find_due(self, admitted: StreamOffset) -> MarkAhead | None:
        """Return the mark of the batch before, if its cut is not read yet.

        An earlier batch's mark would make rows of the planned batch late.
        """
        for ahead in admitted.ahead:
            unread = find_unreached(ahead.needs, self.read)
            if unread and ahead.batch >= self.batch - 1:
                return ahead
            if unread:
                raise Rejected(
                    f"{self._describe_lack(ahead, unread)} Rows below it would be dropped as late: "
                    f"{NEW_CHECKPOINT}"
                )
        return None

    def check_same(self, admitted: StreamOffset, look: TopicLook) -> None:
        ids = {admitted.topic_id, look.id} - {None}
        if len(ids) > 1 and not ids <= set(self.logs):
            fact = f"its id is {look.id}, and the query has read {admitted.topic_id}"
            raise self.build_recreated(fact, is_certain=True)
        for partition, end in look.ends.items():
            if (read := self.read.get(partition, 0)) > end:
                raise self.build_recreated(
                    f"partition {partition} ends at {end}, and the query has read to {read}"
                )

    def build_recreated(self, fact: str, *, is_certain: bool = False) -> Recreated:
        return Recreated(f"Kafka topic {self.name!r}", fact, is_certain=is_certain)

    def find_unclear(self, due: MarkAhead | None, look: TopicLook) -> frozenset[int]:
        """Return the needed partitions that the broker did not return."""
        unread = {} if due is None else find_unreached(due.needs, self.read)
        known = {segment: end for segment, end in unread.items() if segment in look.ends}
        unreadable = find_unreached(known, look.ends)
        if due is not None and unreadable:
            raise Rejected(
                f"{self._describe_lack(due, unreadable, look.ends)} Start the query again once the "
                f"topic has these rows; if they were deleted, {NEW_CHECKPOINT}"
            )
        return frozenset(self.read.keys() - look.partitions).union(unread.keys() - known.keys())

    def find_readable(self, look: TopicLook) -> dict[int, int]:
        return {
            partition: max(end, look.ends.get(partition, 0)) for partition, end in self.read.items()
        }

    def admit(self, admitted: StreamOffset, mark: Released, cut: Mapping[int, int]) -> StreamOffset:
        ahead = tuple(
            each
            for each in admitted.ahead
            if each.batch >= self.batch - 1 and find_unreached(each.needs, self.read)
        )
        if needs := find_unreached(cut, self.read):
            ahead += (MarkAhead(self.batch, mark.seq, needs),)
        return replace(admitted, mark=mark, ahead=ahead)

    def _describe_lack(
        self, ahead: MarkAhead, unread: Mapping[int, int], ends: Mapping[int, int] | None = None
    ) -> str:
        partition, end = next(iter(unread.items()))
        read = self.read.get(partition, 0)
        has = f"it ends at {ends[partition]}, and" if ends else "but"
        return (
            f"mark {ahead.seq} came with micro-batch {ahead.batch}, as partition {partition} of "
            f"Kafka topic {self.name!r} went up to {end}; {has} the query has read to {read} "
            f"before micro-batch {self.batch}."
        )
