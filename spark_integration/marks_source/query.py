"""A query for marks, as pickled into Spark's plan."""

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
    """An option or setting that prevents marks ahead of their rows.

    Options delay rows; under `AT_ONCE`, Spark judges late rows a batch earlier.
    """

    MOST_ROWS = "maxOffsetsPerTrigger"
    LEAST_ROWS = "minOffsetsPerTrigger"
    DELAY = "maxTriggerDelay"
    AT_ONCE = "spark.sql.streaming.statefulOperator.allowMultiple=false"


@dataclass(frozen=True, slots=True)
class KafkaPlanning:
    """How the planner watches the Kafka topics of a query, one per stream.

    With `ahead` and no `limit`, marks come before their cuts are read. `begun` has the streams
    whose query begins where the topic begins.
    """

    topics: Mapping[str, str]
    ahead: bool
    limit: AheadLimit | None = None
    committed: bool = False
    begun: Mapping[str, WholeFrom | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MarksQuery:
    """The marks that a query needs, `lag_ms` above its watermark."""

    streams: Mapping[str, PositionOf]
    controller_url: str
    checkpoint: str
    domain: str | None = None
    policy: WatermarkPolicy = SAFE_POLICY
    kafka: KafkaPlanning | None = None
    lag_ms: int = 0
    backlog: BacklogPolicy | None = None
