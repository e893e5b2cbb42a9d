"""A query on a file log, as a value in Spark's options."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from noted_time import Rejected
from noted_time.client import Json
from noted_time.observing import INGESTION_NAME
from noted_time.stores import parse_root
from noted_time.values import validate_name
from spark_integration.log.offset import LogOffset
from spark_integration.log.options import (
    Batches,
    CatchUp,
    Columns,
    Ingestion,
    Option,
    ReadRange,
    choose_options,
)
from spark_integration.marks.arguments import (
    INGESTED_COLUMN,
    SAFE_POLICY,
    Noted,
    WatermarkPolicy,
    check_promised,
)
from spark_integration.scan.time_range import ALL_TIMES

INGESTION_REMEDY = (
    f"leave event_time out, and the watermark is for {INGESTED_COLUMN}; or pass "
    "Ingestion(max_event_time_lag_ms=…)"
)

OPTION_FIELDS: dict[type[Option], str] = {
    ReadRange: "range",
    Columns: "columns",
    Batches: "batches",
    CatchUp: "catch_up",
    Ingestion: "ingestion",
}


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A stream's log and the options of a read.

    If the stream has only one domain (`is_only`), a checkpoint may name it or not.
    """

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
    ingestion: Ingestion = field(default_factory=Ingestion)
    is_only: bool = False
    ignore: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validate_name("stream", self.stream)
        if self.catch_up is not None:
            self.catch_up.check_above(self.batches.max_rows_per_trigger, "Batches")
        if self.is_ingestion and self.range.times != ALL_TIMES:
            raise Rejected(
                f"start_at and end_at cannot be used with domain={INGESTION_NAME!r}: its marks "
                "have the times when rows came in, not event times; filter by a column of the rows "
                "instead"
            )
        self.ingestion.check_domain(self.domain)

    @classmethod
    def create(  # noqa: PLR0913 - the parameters of `read_noted_log`
        cls,
        root: str | Path,
        noted: Noted,
        options: Sequence[Option],
        *,
        event_time: str | None = None,
        domain: str | None = None,
        policy: WatermarkPolicy = SAFE_POLICY,
    ) -> LogQuery:
        chosen = choose_options(options, OPTION_FIELDS)
        lag_ms = chosen.get("ingestion", Ingestion()).max_event_time_lag_ms
        column = choose_event_time(domain, event_time, lag_ms)
        return cls(str(parse_root(root)), noted.name, noted.url, column, domain, policy, **chosen)

    @property
    def beginning(self) -> LogOffset:
        root = parse_root(self.root)
        if isinstance(root, Path):
            root = Path(os.path.abspath(root))  # noqa: PTH100 - the target of a link may change
        return LogOffset(self.stream, root=str(root), claims=self.policy.batch_after_mark)

    def parse_offset(self, json: Json) -> LogOffset:
        offset = LogOffset.from_json(json)
        if self.is_only:
            offset = offset.rename_domain(self.domain_name)
        return offset.continue_as(self.beginning, self.domain_name)

    @property
    def is_ingestion(self) -> bool:
        return self.domain == INGESTION_NAME

    @property
    def domain_name(self) -> str:
        return self.domain or "default"

    @property
    def column_names(self) -> tuple[str, ...]:
        names = tuple(self.columns.names)
        if not names or self.event_time == INGESTED_COLUMN:
            return names
        return tuple(dict.fromkeys((*names, self.event_time)))


def choose_event_time(domain: str | None, event_time: str | None, max_lag_ms: int | None) -> str:
    """Return the column of the watermark, or raise `Rejected`.

    >>> choose_event_time("ingestion", None, None), choose_event_time("ingestion", "departure",
    ...     5000)
    ('_ingested', 'departure')
    """
    is_stamp = event_time in (None, INGESTED_COLUMN)
    if domain != INGESTION_NAME:
        if event_time is None:
            raise Rejected("pass the column of the event time: event_time=")
        return event_time
    if is_stamp and max_lag_ms is not None:
        raise Rejected("max_event_time_lag_ms needs event_time=, the column that lags")
    column = event_time or INGESTED_COLUMN
    if max_lag_ms is None:
        check_promised(domain, column, INGESTION_REMEDY)
    return column
