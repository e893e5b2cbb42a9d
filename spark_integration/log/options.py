"""The options of a query on a file log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from noted_time import BacklogPolicy, Rejected
from noted_time.observing import INGESTION_NAME
from noted_time.values import Time, check_least, format_time
from spark_integration.marks.arguments import check_one_of, check_promised, convert_time
from spark_integration.marks.own_form import OwnForm
from spark_integration.marks.time_range import TimeRange

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


Late = Literal["drop", "keep"]


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Where a query begins and ends.

    The events are from `start_at` (inclusive) to `end_at` (exclusive), as in `read_complete`. Both
    are optional, in Unix ms or as aware `datetime`s.

    With `end_at`, the query reads up to the cut of the first mark with a lower at or above it, and
    its watermark ends there. `start_at` only affects a new query, and `end_at` must not change at a
    restart.

    >>> ReadRange(end_at=60, start_at=60)
    Traceback (most recent call last):
        ...
    noted_time.Rejected: no range of time: start_at 60 is not below end_at 60
    """

    start_at: Time | None = None
    end_at: Time | None = None

    def __post_init__(self) -> None:
        first, last = self.times.start_at, self.times.end_at
        if first is not None and last is not None and first >= last:
            shown = f"start_at {format_time(first)} is not below end_at {format_time(last)}"
            raise Rejected(f"no range of time: {shown}")

    @property
    def times(self) -> TimeRange:
        """The range in Unix ms."""
        bounds = (self.start_at, self.end_at)
        return TimeRange(*(None if time is None else convert_time(time) for time in bounds))


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that a query reads, and their types.

    - `names` are read in addition to `event_time`, by default all.
    - `schema` is the schema of the events, by default of the log's first file: a `StructType` or
      ``"departure timestamp, origin string"``.
    - `late="keep"` adds the column `_late`, true for rows that were read too late, for
      `split_late`.
    - `zone`, `unit` and `format` say how the event times are read, if the stream does not state it:
      the zone of local times, the unit of numbers (`s`, `ms`, `us`, `ns`), or the format of
      texts and digits as in `strptime`.
    """

    names: Sequence[str] = ()
    schema: StructType | str | None = None
    late: Late = "drop"
    zone: str | None = None
    unit: str | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        check_one_of("late", self.late, Late)
        self.own_form.check()

    @property
    def own_form(self) -> OwnForm:
        """How the query itself reads the event times."""
        return OwnForm(self.zone, self.unit, self.format)


@dataclass(frozen=True, slots=True)
class Batches:
    """The size of micro-batches.

    - `max_rows_per_trigger` is the largest number of rows in a batch; `None` means no limit. Each
      segment gives rows in proportion to its unread rows.
    - `cores` is the number of tasks for a large batch, by default the cluster's cores.
    """

    max_rows_per_trigger: int | None = None
    cores: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_rows_per_trigger", "cores"):
            check_least(name, getattr(self, name), 1)


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Other limits while the query has a backlog (FLIP-328), which `policy` decides.

    Batches planned during a backlog have at most `max_rows_per_trigger` rows, by default any
    number. For a topic, this replaces `maxOffsetsPerTrigger` in runs that begin with a backlog.
    """

    policy: BacklogPolicy
    max_rows_per_trigger: int | None = None

    def __post_init__(self) -> None:
        check_least("max_rows_per_trigger", self.max_rows_per_trigger, 1)

    def check_above(self, usual: int | None, source: str) -> None:
        """Raise `Rejected` if the limit is below the usual one."""
        larger = self.max_rows_per_trigger
        if larger is not None and larger < (usual or 1):
            raise Rejected(
                f"max_rows_per_trigger of CatchUp is {larger}: it must be at least the limit of "
                f"{source} ({usual})"
            )


@dataclass(frozen=True, slots=True)
class Ingestion:
    """How a query with ``domain="ingestion"`` uses the marks of an observer.

    `max_event_time_lag_ms` gives `event_time` a watermark this far below the lower. Rows that were
    older when they came in are late.
    """

    max_event_time_lag_ms: int

    def __post_init__(self) -> None:
        check_least("max_event_time_lag_ms", self.max_event_time_lag_ms, 0)


def find_lag_ms(domain: str | None, ingestion: Ingestion | None, remedy: str) -> int:
    """Return how far event times lag behind the marks, or raise `Rejected`."""
    if ingestion is None:
        check_promised(domain, remedy)
        return 0
    if domain != INGESTION_NAME:
        raise Rejected(f"Ingestion(…) goes with domain={INGESTION_NAME!r}")
    return ingestion.max_event_time_lag_ms


Option = ReadRange | Columns | Batches | CatchUp | Ingestion


def choose_options(options: Sequence[object], fields: Mapping[Any, str]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for option in options:
        name = fields.get(type(option))
        if name is None or name in chosen:
            known = ", ".join(kind.__name__ for kind in fields)
            raise Rejected(f"options are {known}, each at most once: not {option!r:.200}")
        chosen[name] = option
    return chosen
