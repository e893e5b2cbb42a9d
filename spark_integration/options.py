"""The options of a query over a file log: frozen values, checked on creation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from noted_time import BacklogPolicy, Rejected
from noted_time.values import Time, checked_name, shown_time
from noted_time.wing import INGESTION
from spark_integration.time_range import TimeRange, time_ms

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

INGESTED = "_ingested"
"""The column with the time at which a row came in."""

EVENT_TIMES = (
    "name the domain of the event times (domain=), which the writers note, or an observer by "
    "broker-time, timestamp or field"
)

Late = Literal["drop", "keep"]
OnSeal = Literal["close", "hold"]
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

    Once the query has read all of a sealed stream, `on_seal="close"` moves the watermark to the end
    of Spark's time, so every window closes; `"hold"` leaves it at the lower of the last mark.

    >>> ReadRange(end_at=60, start_at=60)
    Traceback (most recent call last):
        ...
    noted_time.Rejected: no range of time: start_at 60 is not below end_at 60
    """

    start_at: Time | None = None
    end_at: Time | None = None
    on_seal: OnSeal = "close"

    def __post_init__(self) -> None:
        check_one_of("on_seal", self.on_seal, OnSeal)
        first, last = self.times.start_at, self.times.end_at
        if first is not None and last is not None and first >= last:
            shown = f"start_at {shown_time(first)} is not below end_at {shown_time(last)}"
            raise Rejected(f"no range of time: {shown}")

    @property
    def times(self) -> TimeRange:
        """The range in Unix ms."""
        bounds = (self.start_at, self.end_at)
        return TimeRange(*(None if time is None else time_ms(time) for time in bounds))


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
    nearly in the order of their times. The results are the same, see `docs/order.md`. `cores` is
    the number of tasks that a large micro-batch is split into, by default the number of cores that
    the cluster has when the query is defined.
    """

    max_rows_per_trigger: int | None = None
    order: Order = "share"
    cores: int | None = None

    def __post_init__(self) -> None:
        check_one_of("order", self.order, Order)
        for name in ("max_rows_per_trigger", "cores"):
            check_positive(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Other limits while the query has a backlog (FLIP-328), which `policy` decides.

    The micro-batches planned meanwhile have at most `max_rows_per_trigger` rows, instead of the
    limit of `Batches`. By default there is no limit: catching up then takes fewer and larger
    batches.
    """

    policy: BacklogPolicy
    max_rows_per_trigger: int | None = None

    def __post_init__(self) -> None:
        check_positive("max_rows_per_trigger", self.max_rows_per_trigger)


@dataclass(frozen=True, slots=True)
class Align:
    """The alignment that a query obeys, and the name of its member, by default the stream's.

    The query reads its log no further ahead of the alignment's slowest member than its drift and
    one mark. See `docs/alignment.md`.
    """

    alignment: str
    member: str | None = None

    def __post_init__(self) -> None:
        checked_name("alignment", self.alignment)
        if self.member is not None:
            checked_name("member", self.member)


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
        if self.max_event_time_lag_ms is not None and self.max_event_time_lag_ms < 0:
            raise Rejected(
                f"max_event_time_lag_ms must be 0 or more, not {self.max_event_time_lag_ms}"
            )


def check_promised(domain: str | None, event_time: str | None, remedy: str = EVENT_TIMES) -> None:
    """Raise `Rejected` if marks are of ingestion and the column is another time than that.

    >>> check_promised("ingestion", "_ingested"), check_promised("default", "departure")
    (None, None)
    >>> check_promised("ingestion", "timestamp")
    Traceback (most recent call last):
        ...
    noted_time.Rejected: marks of ingestion say when rows came in, and promise nothing of ...
    """
    if domain == INGESTION and event_time != INGESTED:
        column = "event times" if event_time is None else repr(event_time)
        said = f"marks of ingestion say when rows came in, and promise nothing of {column}"
        raise Rejected(f"{said}: {remedy}")


Option = ReadRange | Columns | Batches | CatchUp | Align | Ingestion
"""One of the values that `read_noted_log` takes after the stream, each kind once."""


def check_one_of(name: str, value: object, known: Any) -> None:  # noqa: ANN401 - a `Literal`
    """Raise `Rejected` unless a value is one of a `Literal`'s.

    >>> check_one_of("order", "tmie", Order)
    Traceback (most recent call last):
        ...
    noted_time.Rejected: order must be 'share' or 'time', not 'tmie'
    """
    if value not in get_args(known):
        choices = " or ".join(map(repr, get_args(known)))
        raise Rejected(f"{name} must be {choices}, not {value!r:.80}")


def check_positive(name: str, value: int | None) -> None:
    """Raise `Rejected` for a number below 1."""
    if value is not None and value < 1:
        raise Rejected(f"{name} must be at least 1, not {value}")
