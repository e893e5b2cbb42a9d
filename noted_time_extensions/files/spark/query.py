"""A query on a file log, as a value in Spark's options."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from noted_time import Rejected
from noted_time.extending import INGESTION_NAME, WholeFrom, parse_root, validate_name
from noted_time_extensions.files.spark.options import Batches, Columns, Option, ReadRange
from spark_integration import CatchUp, Ingestion, WatermarkPolicy
from spark_integration.extending import (
    ALL_TIMES,
    SAFE_POLICY,
    NotedOffset,
    StreamFacts,
    StreamOffset,
    find_lag_ms,
)

NEW_LOG = WholeFrom()  # until the first micro-batch shows the log's gaps

LAG_REMEDY = "pass Ingestion(max_event_time_lag_ms=…), or name the domain of the event times"

OPTION_FIELDS: dict[type[Option], str] = {
    ReadRange: "range",
    Columns: "columns",
    Batches: "batches",
    CatchUp: "catch_up",
    Ingestion: "ingestion",
}


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A stream's log and the options of a read."""

    root: str
    stream: str
    controller_url: str
    event_time: str
    domain: str | None = None
    policy: WatermarkPolicy = SAFE_POLICY
    range: ReadRange = field(default_factory=ReadRange)
    columns: Columns = field(default_factory=Columns)
    batches: Batches = field(default_factory=Batches)
    catch_up: CatchUp | None = None
    ingestion: Ingestion | None = None
    ignore: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validate_name("stream", self.stream)
        if self.catch_up is not None:
            self.catch_up.check_above(self.batches.max_rows_per_trigger, "Batches")
        find_lag_ms(self.domain, self.ingestion, LAG_REMEDY)
        if self.domain == INGESTION_NAME and self.range.times != ALL_TIMES:
            raise Rejected(
                f"start_at and end_at cannot be used with domain={INGESTION_NAME!r}: its marks "
                "have the times when rows came in, not event times; filter by a column of the rows "
                "instead"
            )

    @property
    def beginning(self) -> NotedOffset:
        root = parse_root(self.root)
        if isinstance(root, Path):
            root = Path(os.path.abspath(root))  # noqa: PTH100 - the target of a link may change
        facts = StreamFacts(self.domain, self.lag_ms, NEW_LOG, own_form=self.columns.own_form)
        return NotedOffset({self.stream: StreamOffset(facts=facts)}, root=str(root))

    @property
    def lag_ms(self) -> int:
        if self.ingestion is None:
            return 0
        return self.ingestion.max_event_time_lag_ms

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that are read, with the event time; none if all are."""
        names = tuple(self.columns.names)
        if not names:
            return ()
        return tuple(dict.fromkeys((*names, self.event_time)))
