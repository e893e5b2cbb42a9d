"""Arguments that all readers with marks share, and their checks."""

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
    """Raise `Rejected` unless `value` is one of the values of a `Literal`.

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
    """A stream with noted times, at the controller with that `url`.

    - `url` may list several addresses of the controller, separated by commas.
    - `stream` may be left out for a Kafka topic, because its stream has the same name by default.
      For several topics it may be a mapping, topic → stream.
    - `token` needs the scope `read`. By default it is the variable NOTED_TIME_TOKEN from when the
      driver was started. It stays in the driver's memory, and is not part of any plan, checkpoint
      or task.
    """

    url: str = ""
    stream: str | Mapping[str, str] | None = None
    token: str | None = field(default=None, repr=False, kw_only=True)

    @property
    def name(self) -> str:
        """The stream's name; raises `Rejected` if it is missing or invalid."""
        if not isinstance(self.stream, str):
            raise Rejected("name the stream: Noted(url, stream)")
        return validate_name("stream", self.stream)


@dataclass(frozen=True, slots=True)
class WatermarkPolicy:
    """How the watermark of a query follows the marks.

    - `strict` sets the watermark 1 ms below the lower of the last admitted mark. Spark closes a
      window whose end is at or below the watermark, but it also drops single rows at the
      watermark. So by default joins and deduplication lose nothing, and a window that ends at the
      lower stays open until the next mark. With `strict=False` the watermark is the lower, which is
      exact only for windowed aggregations.
    - `on_seal="close"` moves the watermark to the end of Spark's time, once the query has read a
      sealed stream to its end. So all windows close. `"hold"` leaves it at the last mark's lower.
    - `dedup_retention_ms` is how long after its event time `dropDuplicatesWithinWatermark`
      remembers an event.
    - `batch_after_mark` adds a micro-batch after a mark that no other batch follows. A mark sets
      the watermark of the next batch, but a query without state plans that batch only for new
      rows. With the added batch, the claim of a table or a derived stream reaches the mark, with
      availableNow in the same run. This costs one batch each time the stream becomes quiet. A query
      with state does not need it.
    - `first_windows` applies if rows of a Kafka topic may have been deleted before the query began
      at its earliest offsets. If the upper of the first mark whose cut reaches these offsets is a
      bound, it bounds their times. `"partial"` returns the windows that may lack rows, with a
      warning. `"skip"` leaves out all rows up to that upper.
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
        """Raise `Rejected` for "skip", if the reader cannot find the rows to leave out."""
        if self.first_windows == "skip":
            remedy = 'leave first_windows="skip" out, or use read_noted_kafka(marks="ahead")'
            raise Rejected(f"{reader} does not look for rows deleted before its query: {remedy}")


SAFE_POLICY = WatermarkPolicy()
"""The policy with which queries of all kinds keep all rows."""


def check_promised(
    domain: str | None, event_time: str | None, remedy: str = EVENT_TIMES_REMEDY
) -> None:
    """Raise `Rejected` if ingestion marks are used for another column than ingestion time.

    >>> check_promised("ingestion", "_ingested"), check_promised("default", "departure")
    (None, None)
    >>> check_promised("ingestion", "timestamp")
    Traceback (most recent call last):
        ...
    noted_time.Rejected: marks of ingestion say when rows came in, and promise nothing of ...
    """
    if domain == INGESTION_NAME and event_time != INGESTED_COLUMN:
        column = "event times" if event_time is None else repr(event_time)
        reason = f"marks of ingestion say when rows came in, and promise nothing of {column}"
        raise Rejected(f"{reason}: {remedy}")


def convert_time(time: Time) -> int:
    """Return a bound in Unix ms; raises `Rejected` if it is not a whole ms, or not Spark's time.

    >>> convert_time(1_357_034_220_000)
    1357034220000
    """
    ms = unix_ms_of(time)
    if isinstance(time, datetime) and ms != unix_ms_of(time, up=True):
        raise Rejected(f"{time!r} has sub-millisecond precision; bounds are whole milliseconds")
    if not is_watermark(ms):
        raise Rejected(f"time {ms} is not one that Spark can express: it takes the years 1 to 9999")
    return ms
