"""Which marks may come with a micro-batch before their cuts are read, and when a query must fail.

Spark judges the late rows of micro-batch k by the watermark after batch k - 2. So a mark may come
with batch N if its cut is read by the end of N + 1. What a topic has when N is planned is read by
then, unless the rate is limited, or Spark's own look at the topic lacks a partition. The latter
only happens to partitions that were just added, so none is counted on before the query's own offset
log names it.

That is a forecast, and each mark that rests on it is remembered in the offset: the plan of batch
N + 1 requires that the rest of the cut is still there to be read, the plan of N + 2 that it is
read. Both are judged from the offsets, so a restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from noted_time import Recreated, Rejected
from noted_time.values import find_missing_offsets
from spark_integration.marks.released import Released
from spark_integration.marks_source.admitted import Admitted, MarkAhead

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
    """How far a query has read a topic when it plans micro-batch `batch`, for its messages too.

    `read` are the ends of the batch before, in the partitions that the offset log names. `logs` are
    the ids that the topic may have.
    """

    name: str
    batch: int
    read: Mapping[int, int]
    logs: Collection[str] = ()

    def find_due(self, admitted: Admitted) -> MarkAhead | None:
        """Return the mark of the batch before if its cut is not read yet: it has to be readable.

        Raises `Rejected` if that of an earlier batch is not read: rows of the batch that is planned
        would be judged by a mark that does not cover them.
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

    def check_same(self, admitted: Admitted, look: TopicLook) -> None:
        """Raise `Recreated` if the topic is no longer the one that was read."""
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
        """Return the error of a query whose topic is another one now."""
        return Recreated(f"Kafka topic {self.name!r}", fact, is_certain=is_certain)

    def find_unclear(self, due: MarkAhead | None, look: TopicLook) -> frozenset[int]:
        """Return the partitions without which a look cannot be judged: another may have them.

        Raises `Rejected` if the rest of a cut that is due is not readable: its rows are gone.
        """
        unread = {} if due is None else find_unreached(due.needs, self.read)
        known = {segment: end for segment, end in unread.items() if segment in look.ends}
        unreadable = find_unreached(known, look.ends)
        if due is not None and unreadable:
            raise Rejected(
                f"{self._describe_lack(due, unreadable, look.ends)} Start the query again once the "
                "topic "
                f"has these rows; if they are gone, {NEW_CHECKPOINT}"
            )
        return frozenset(self.read.keys() - look.partitions).union(unread.keys() - known.keys())

    def find_readable(self, look: TopicLook) -> dict[int, int]:
        """Return how far the batch after the one that is planned has read at least."""
        return {
            partition: max(end, look.ends.get(partition, 0)) for partition, end in self.read.items()
        }

    def admit(self, admitted: Admitted, mark: Released, cut: Mapping[int, int]) -> Admitted:
        """Return what is let in with the batch that is planned."""
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
