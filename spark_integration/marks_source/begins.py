"""Finds rows that were deleted from a Kafka topic before a query began."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from noted_time import Rejected, Unreachable
from noted_time.reading import WholeFrom

if TYPE_CHECKING:
    from noted_time.kafka import TopicLook

log = logging.getLogger("noted_time.spark")

COMPACTED_TOPIC = "it is compacted, so rows are missing wherever their key came again"
DELETED_ROWS = "rows before offsets {} were deleted before the query began; "
EMPTIED_PARTITIONS = "no row is left in partitions {}; "


class TopicLike(Protocol):
    """One Kafka topic, see `noted_time.kafka.Topic`."""

    name: str

    def look(self, *, committed: bool = False) -> TopicLook: ...

    def begins(self) -> Mapping[int, int]: ...

    def settings(self) -> Mapping[str, str]: ...


def find_whole_from(topic: TopicLike, look: TopicLook) -> WholeFrom:
    """Return which rows a query lacks that began at the topic's start."""
    try:
        is_compacted = "compact" in topic.settings().get("cleanup.policy", "")
    except Rejected as error:
        return WholeFrom(unknown=str(error))
    if is_compacted:
        return WholeFrom(unknown=COMPACTED_TOPIC)
    begins = topic.begins()
    if leaderless := look.partitions - begins.keys():
        raise Unreachable(f"partitions {sorted(leaderless)} have no leader")
    return WholeFrom(begins)


def warn_of_deleted(
    topic: str, begins: Mapping[int, int], look: TopicLook, whole_from: WholeFrom
) -> None:
    deleted_ends = {partition: begin for partition, begin in begins.items() if begin}
    emptied_partitions = [
        partition for partition, begin in deleted_ends.items() if look.ends.get(partition) == begin
    ]
    facts = ""
    if deleted_ends:
        facts += DELETED_ROWS.format(deleted_ends)
    if emptied_partitions:
        facts += EMPTIED_PARTITIONS.format(emptied_partitions)
    log.warning("Kafka topic %r: %s%s", topic, facts, whole_from.sentence)
