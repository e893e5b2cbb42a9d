"""The options of a query over a file log: frozen values, checked on creation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from noted_time import BacklogPolicy, Rejected
from noted_time.observing import INGESTION_NAME
from noted_time.values import Time, check_least, format_time
from spark_integration.marks.arguments import check_one_of, convert_time
from spark_integration.scan.time_range import TimeRange

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


Late = Literal["drop", "keep"]
Order = Literal["share", "time"]
Unstamped = Literal["fail", "null"]


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Where a query begins and ends.

    `start_at` (inclusive) and `end_at` (exclusive), Unix ms or aware `datetime`s, select the events
    that `read_complete` returns, once each. Either may be left out. With `end_at` nothing is read
    beyond the last mark's cut, nor beyond that of the first mark with a lower at or above `end_at`;
    there the watermark becomes `end_at`, and nothing follows. The checkpoint keeps where a query
    began: `start_at` counts only for a new one, and `end_at` must not change.

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
    """Which columns a query reads, and as what.

    `names` are read beside `event_time`, by default all: a Python source cannot learn from Spark
    which ones a query needs. `schema` is the schema of the events, a `StructType` or ``"departure
    timestamp, origin string"``, by default that of the log's first file. `late="keep"` adds the
    column `_late`, true for rows that were read too late: `split_late` puts them into a branch of
    their own before Spark drops them.
    """

    names: Sequence[str] = ()
    schema: StructType | str | None = None
    late: Late = "drop"

    def __post_init__(self) -> None:
        check_one_of("late", self.late, Late)


@dataclass(frozen=True, slots=True)
class Batches:
    """How large a micro-batch may be, and how it is divided.

    `max_rows_per_trigger` is the largest number of its rows, `None` for no limit. `order` decides
    which ones these are: with `share` all segments give rows in proportion to what they have, and
    so reach their ends together; with `time` a batch ends at the cut of a mark, so that rows come
    nearly in the order of their times. The results are the same, see `docs/guides/order.md`.
    `cores` is the number of tasks that a large micro-batch is split into, by default the number of
    cores that the cluster has when the query is defined.
    """

    max_rows_per_trigger: int | None = None
    order: Order = "share"
    cores: int | None = None

    def __post_init__(self) -> None:
        check_one_of("order", self.order, Order)
        for name in ("max_rows_per_trigger", "cores"):
            check_least(name, getattr(self, name), 1)


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Other limits while the query has a backlog (FLIP-328), which `policy` decides.

    The micro-batches planned meanwhile have at most `max_rows_per_trigger` rows, instead of the
    limit of `Batches`. By default there is no limit: catching up then takes fewer and larger
    batches. Of a topic it takes the place of `maxOffsetsPerTrigger`, in runs that begin with a
    backlog.
    """

    policy: BacklogPolicy
    max_rows_per_trigger: int | None = None

    def __post_init__(self) -> None:
        check_least("max_rows_per_trigger", self.max_rows_per_trigger, 1)

    def check_above(self, usual: int | None, source: str) -> None:
        """Raise `Rejected` if its limit is below the `usual` one, whose `source` is named."""
        larger = self.max_rows_per_trigger
        if larger is not None and larger < (usual or 1):
            raise Rejected(
                f"max_rows_per_trigger of CatchUp is {larger}: it must be at least that of "
                f"{source} ({usual})"
            )


@dataclass(frozen=True, slots=True)
class Ingestion:
    """How a query with ``domain="ingestion"`` uses the marks of an observer.

    `max_event_time_lag_ms` gives `event_time` a watermark that far below the lower: rows that were
    older than that on arrival are late. `unstamped="null"` reads rows that came in before the first
    mark still kept, with a null in `_ingested`; by default they fail the query.
    """

    max_event_time_lag_ms: int | None = None
    unstamped: Unstamped = "fail"

    def __post_init__(self) -> None:
        check_one_of("unstamped", self.unstamped, Unstamped)
        check_least("max_event_time_lag_ms", self.max_event_time_lag_ms, 0)

    def check_domain(self, domain: str | None) -> None:
        """Raise `Rejected` if it says something and the marks are of another domain."""
        if domain != INGESTION_NAME and self != Ingestion():
            raise Rejected(f"Ingestion(…) goes with domain={INGESTION_NAME!r}")


Option = ReadRange | Columns | Batches | CatchUp | Ingestion
"""One of the values that `read_noted_log` takes after the stream, each kind once."""


def choose_options(options: Sequence[object], fields: Mapping[Any, str]) -> dict[str, Any]:
    """Return a call's options by the names of fields; raises `Rejected` for two of a kind."""
    chosen: dict[str, Any] = {}
    for option in options:
        name = fields.get(type(option))
        if name is None or name in chosen:
            known = ", ".join(kind.__name__ for kind in fields)
            raise Rejected(f"options are {known}, each once at most: not {option!r:.200}")
        chosen[name] = option
    return chosen
