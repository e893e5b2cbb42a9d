"""How the offsets of Spark's sources, whichever they are, tell a position in the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from noted_time import Rejected
from noted_time.wire import position_from_wire

PositionOf = Callable[[Any], Mapping[int, int]]
"""From a source's offset, as Spark's JSON says it, to segment → exclusive offset."""


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """The position in a topic whose partitions are the segments.

    >>> KafkaTopic("flights")({"flights": {"0": 123, "1": 7}})
    {0: 123, 1: 7}
    """

    topic: str

    def __call__(self, offset: Any) -> Mapping[int, int]:  # noqa: ANN401 - whatever JSON holds
        """Return the position; raises `Rejected` where the offset is not of that topic."""
        try:
            return position_from_wire(offset[self.topic])
        except (KeyError, TypeError) as error:
            message = f"offset {str(offset)[:200]} says nothing of Kafka topic {self.topic!r}"
            raise Rejected(message) from error


@dataclass(frozen=True, slots=True)
class NotedLog:
    """The position in a file log that `read_noted_log` reads.

    >>> NotedLog("flights")({"noted_log": "flights", "segments": {"0": 12}})
    {0: 12}
    """

    stream: str

    def __call__(self, offset: Any) -> Mapping[int, int]:  # noqa: ANN401 - whatever JSON holds
        """Return the position; raises `Rejected` where the offset is not of that log."""
        if not isinstance(offset, dict) or offset.get("noted_log") != self.stream:
            message = f"offset {str(offset)[:200]} is not of file log {self.stream!r}"
            raise Rejected(message)
        return position_from_wire(offset["segments"])
