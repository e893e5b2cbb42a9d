"""Arguments that every reader with marks has, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from noted_time import Rejected
from noted_time.observing import INGESTION_NAME
from noted_time.values import Time, unix_ms_of, validate_name
from spark_integration.marks.watermark import is_watermark

INGESTED_COLUMN = "_ingested"
"""The column with the time at which a row came in."""

EVENT_TIMES_REMEDY = (
    "name the domain of the event times (domain=), which the writers note, or an observer by "
    "broker-time, timestamp or field"
)

OnSeal = Literal["close", "hold"]
FirstWindows = Literal["partial", "skip"]


def check_one_of(name: str, value: object, known: Any) -> None:  # noqa: ANN401 - a `Literal`
    """Raise `Rejected` unless a value is one of a `Literal`'s.

    >>> check_one_of("on_seal", "colse", OnSeal)
    Traceback (most recent call last):
        ...
    noted_time.Rejected: on_seal must be 'close' or 'hold', not 'colse'
    """
    if value not in get_args(known):
        choices = " or ".join(map(repr, get_args(known)))
        raise Rejected(f"{name} must be {choices}, not {value!r:.80}")


@dataclass(frozen=True, slots=True)
class Noted:
    """A stream whose time is noted, at the controller with that `url`.

    `url` may be several, separated by commas. `stream` may be left out for a Kafka topic, whose
    stream has its name, and may be a mapping for several: topic → stream. `token` needs the scope
    `read`; by default it is the variable NOTED_TIME_TOKEN of the environment in which the driver
    was started. It stays in the driver's memory and enters no plan, checkpoint or task.
    """

    url: str = ""
    stream: str | Mapping[str, str] | None = None
    token: str | None = field(default=None, repr=False, kw_only=True)

    @property
    def name(self) -> str:
        """The stream's name; raises `Rejected` if there is not one, or it is invalid."""
        if not isinstance(self.stream, str):
            raise Rejected("name the stream: Noted(url, stream)")
        return validate_name("stream", self.stream)


@dataclass(frozen=True, slots=True)
class WatermarkPolicy:
    """How the watermark of a query follows the marks.

    Spark closes a window whose end is at or below the watermark, but it also drops a single row
    whose time is. So by default the watermark is 1 ms below the lower of the last mark that was let
    in (`strict`): joins and deduplication lose nothing, and a window that ends at the lower itself
    stays open until the next mark. `strict=False` makes the watermark the lower, which is exact for
    windowed aggregations, and only for them.

    Once the query has read all of a sealed stream, `on_seal="close"` moves the watermark to the end
    of Spark's time, so every window closes; `"hold"` leaves it at the lower of the last mark.

    Rows may have been deleted from a Kafka topic before a query began at its earliest offsets. The
    upper of the first mark whose cut reaches those offsets bounds their times, if it is a bound.
    `first_windows="partial"` gives the windows that may lack rows, with a warning; `"skip"` leaves
    out all rows up to that upper.

    `dedup_retention_ms` is how long after its event time `dropDuplicatesWithinWatermark` remembers
    an event.

    A mark is in the watermark of the micro-batch after its own, which a query without state only
    has once there are new rows. With `batch_after_mark` the source plans one after a mark that no
    batch follows, so that a table's claim or a derived stream reaches the mark; with availableNow
    in the same run. That costs one micro-batch each time the stream falls quiet. A query with state
    needs none: Spark plans that one itself.
    """

    strict: bool = True
    on_seal: OnSeal = "close"
    dedup_retention_ms: int = 0
    batch_after_mark: bool = False
    first_windows: FirstWindows = "partial"

    def __post_init__(self) -> None:
        check_one_of("on_seal", self.on_seal, OnSeal)
        check_one_of("first_windows", self.first_windows, FirstWindows)

    def check_partial(self, reader: str) -> None:
        """Raise `Rejected` for "skip" of a reader that does not know what to leave out."""
        if self.first_windows == "skip":
            remedy = 'leave first_windows="skip" out, or use read_noted_kafka(marks="ahead")'
            raise Rejected(f"{reader} does not look for rows deleted before its query: {remedy}")


SAFE_POLICY = WatermarkPolicy()
"""The policy under which no query loses a row."""


def check_promised(
    domain: str | None, event_time: str | None, remedy: str = EVENT_TIMES_REMEDY
) -> None:
    """Raise `Rejected` if marks are of ingestion and the column is another time than that.

    >>> check_promised("ingestion", "_ingested"), check_promised("default", "departure")
    (None, None)
    >>> check_promised("ingestion", "timestamp")
    Traceback (most recent call last):
        ...
    noted_time.Rejected: marks of ingestion say when rows came in, and promise nothing of ...
    """
    if domain == INGESTION_NAME and event_time != INGESTED_COLUMN:
        column = "event times" if event_time is None else repr(event_time)
        said = f"marks of ingestion say when rows came in, and promise nothing of {column}"
        raise Rejected(f"{said}: {remedy}")


def convert_time(time: Time) -> int:
    """Return a bound in Unix ms; raises `Rejected` if it falls between two, or Spark has none.

    >>> convert_time(1_357_034_220_000)
    1357034220000
    """
    ms = unix_ms_of(time)
    if isinstance(time, datetime) and ms != unix_ms_of(time, up=True):
        raise Rejected(f"{time!r} has sub-millisecond precision; bounds are whole milliseconds")
    if not is_watermark(ms):
        raise Rejected(f"time {ms} is not one that Spark can express: it takes the years 1 to 9999")
    return ms
