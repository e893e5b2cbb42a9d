"""Maps the offset of a Spark source to a position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from noted_time import Rejected

PositionOf = Callable[[Any], Mapping[int, int]]  # parsed JSON → segment → exclusive offset


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """Maps the offset of a Kafka source to the position in one topic, partition → offset.

    >>> KafkaTopic("flights")({"flights": {"0": 123, "1": 7}})
    {0: 123, 1: 7}

    `client` has settings of librdkafka, which stay in the driver. With it, the topic's id is
    compared with the ids of the stream.
    """

    topic: str
    client: Mapping[str, Any] | None = field(default=None, repr=False, kw_only=True)

    def __call__(self, offset: Any) -> Mapping[int, int]:  # noqa: ANN401 - any JSON value
        """Return the position, or raise `Rejected` if the source reads another topic, too."""
        if isinstance(offset, dict) and len(offset) > 1:
            raise Rejected(
                f"the source reads Kafka topics {_join_names(offset)}, and the marks cover only "
                f"{self.topic!r}: read each topic with a separate source and a separate call of "
                f"with_noted_watermark, position={_join_mappings(offset)}, and union the results; "
                "or give one call a position= function that maps all topics to segments"
            )
        return self.among_others(offset)

    def among_others(self, offset: Any) -> Mapping[int, int]:  # noqa: ANN401 - any JSON value
        """Return the position in this topic, or raise `Rejected` if the offset lacks it."""
        if not _is_of_kafka(offset):
            message = f"offset {str(offset)[:200]} is not one of Kafka topics: pass position="
            raise Rejected(message)
        if offset and self.topic not in offset:
            raise Rejected(
                f"the source reads Kafka topics {_join_names(offset)}, not {self.topic!r}: "
                f"pass position={_join_mappings(offset)}"
            )
        return from_wire(offset.get(self.topic, {}))


def _is_of_kafka(offset: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(offset, dict) and all(isinstance(ends, dict) for ends in offset.values())


def from_wire(json: Mapping[str, int]) -> Mapping[int, int]:
    # Spark's processes import this module, and HTTP is slow to import
    from noted_time.client import position_from_wire  # noqa: PLC0415

    return position_from_wire(json)


def _join_names(topics: Iterable[str]) -> str:
    return ", ".join(repr(topic) for topic in sorted(topics))


def _join_mappings(topics: Iterable[str]) -> str:
    return " or ".join(f"KafkaTopic({topic!r})" for topic in sorted(topics))


@dataclass(frozen=True, slots=True)
class NotedLog:
    """Maps the offset of a `read_noted_log` source to the position in its file log.

    >>> NotedLog("flights")({"noted_streams": {"flights": {"segments": {"0": 12}}}, "root": "/log"})
    {0: 12}
    """

    stream: str

    def __call__(self, offset: Any) -> Mapping[int, int]:  # noqa: ANN401 - any JSON value
        """Return the position, or raise `Rejected` for another source."""
        is_log = isinstance(offset, dict) and "root" in offset
        if not is_log or self.stream not in offset["noted_streams"]:
            message = f"offset {str(offset)[:200]} is not of file log {self.stream!r}"
            raise Rejected(message)
        return from_wire(offset["noted_streams"][self.stream].get("segments", {}))
