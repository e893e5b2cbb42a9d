"""Where a producer of a Kafka topic begins, and whether it is still the same topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noted_time.kafka import Topic
from noted_time.reading import waited_for
from noted_time.values import LARGEST_TIME, InvalidNote, Rejected, Unreachable
from writer_client.answers import Found


class TopicEnds:
    """The ends of all partitions of a topic.

    Raises `Rejected` at once if there is no such topic, or no right to describe it, and
    `Unreachable` if Kafka does not answer.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        *,
        domain: str | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        """Connect with the configuration of any client of librdkafka; `domain` is the events'."""
        self._topic = Topic(config, topic)
        self._domain = domain
        self._id = self._topic.look(timeout_s=timeout_s).id

    def look_up(self, known: Mapping[int, int]) -> Found:
        """Return the ends, also of what was not committed, and the largest timestamp below them.

        `known` is the writer's position at the controller: a partition that ends before it is not
        the one that was noted.
        """
        look = self._topic.look()
        if look.unknown:
            raise Unreachable(
                f"partitions {sorted(look.unknown)} of Kafka topic {self._topic.name!r} have no "
                "leader that answers"
            )
        behind = {each.segment: each.offset for each in waited_for(look.ends, known)}
        if behind or look.id != self._id:
            raise self._replaced(f"it ends at {behind}, and {dict(known)} was noted")
        times = self._topic.largest_times()
        new = [min(times[n], LARGEST_TIME) for n in times if look.ends.get(n, 0) > known.get(n, 0)]
        return Found(look.ends, {self._domain: max(new)} if new else {})

    def went_back(self, refused: InvalidNote) -> Rejected:
        """Return the error for events that were delivered below offsets noted before."""
        return self._replaced(f"events were delivered below {refused.last}, which was noted")

    def _replaced(self, fact: str) -> Rejected:
        name = self._topic.name
        return Rejected(
            f"Kafka topic {name!r} was deleted and created again, or lost records: {fact}. Its "
            "stream has the old offsets: delete the stream too, or name another one (stream=), and "
            "start again"
        )
