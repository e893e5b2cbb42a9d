"""What a query asks for whose marks are a source of their own: a value, pickled into its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_integration.marks.arguments import SAFE_POLICY, WatermarkPolicy

if TYPE_CHECKING:
    from noted_time import BacklogPolicy
    from noted_time.reading import WholeFrom
    from spark_integration.checkpoint.source_positions import PositionOf


class AheadLimit(StrEnum):
    """What prevents marks ahead of what is read.

    Options of Spark's Kafka source leave rows to later micro-batches. `AT_ONCE` is the setting
    under which Spark judges late rows by the batch before.
    """

    MOST_ROWS = "maxOffsetsPerTrigger"
    LEAST_ROWS = "minOffsetsPerTrigger"
    DELAY = "maxTriggerDelay"
    AT_ONCE = "spark.sql.streaming.statefulOperator.allowMultiple=false"


@dataclass(frozen=True, slots=True)
class KafkaPlanning:
    """How the planner looks at the topics of a query, one for each stream.

    `ahead`: marks may come before their cuts are read, unless there is a `limit`. `committed`: the
    query is read_committed. `begun` has the streams whose query begins where the topic does, and
    what is known of that at first.
    """

    topics: Mapping[str, str]
    ahead: bool
    limit: AheadLimit | None = None
    committed: bool = False
    begun: Mapping[str, WholeFrom | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MarksQuery:
    """Which marks a query needs, and where to find how far it has read.

    `streams` maps each stream to how its position follows from the offset of the events' source.
    `lag_ms` is how far the watermark is behind the time of the marks, and `backlog` decides whether
    a micro-batch is flagged as one of a backlog.
    """

    streams: Mapping[str, PositionOf]
    controller_url: str
    checkpoint: str
    domain: str | None = None
    policy: WatermarkPolicy = SAFE_POLICY
    kafka: KafkaPlanning | None = None
    lag_ms: int = 0
    backlog: BacklogPolicy | None = None
