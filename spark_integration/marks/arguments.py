"""Arguments of all functions that read with marks, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from noted_time import Rejected
from noted_time.client.arguments import refuse_url
from noted_time.values import INGESTION_NAME, Time, unix_ms_of, validate_name
from spark_integration.marks.watermark import is_watermark

EVENT_TIMES_REMEDY = (
    "name the domain of the event times (domain=), which the writers note, or an observer by "
    "timestamp or field"
)

OnSeal = Literal["close", "hold"]
FirstWindows = Literal["partial", "skip"]


def check_one_of(name: str, value: object, literal: Any) -> None:  # noqa: ANN401 - a `Literal`
    """Raise `Rejected` unless `value` is in a `Literal`.

    >>> check_one_of("on_seal", "colse", OnSeal)
    Traceback (most recent call last):
        ...
    noted_time.Rejected: on_seal must be 'close' or 'hold', not 'colse'
    """
    if value not in get_args(literal):
        choices = " or ".join(repr(choice) for choice in get_args(literal))
        raise Rejected(f"{name} must be {choices}, not {value!r:.80}")


@dataclass(frozen=True, slots=True, init=False)
class Noted:
    """A stream, and the URL of its controller.

    - `stream` may be left out for a Kafka topic with the stream's name. For several topics it may
      be a mapping, topic → stream.
    - `controller` may list several URLs, separated by commas.
    - `token` needs the scope `read`. By default it is the variable NOTED_TIME_TOKEN of the driver.
      It is not part of plans, checkpoints and tasks.
    """

    stream: str | Mapping[str, str] | None
    controller: str
    token: str | None = field(repr=False)

    @refuse_url("stream, controller=URL")
    def __init__(
        self,
        stream: str | Mapping[str, str] | None = None,
        *,
        controller: str = "",
        token: str | None = None,
    ) -> None:
        object.__setattr__(self, "stream", stream)
        object.__setattr__(self, "controller", controller)
        object.__setattr__(self, "token", token)

    @property
    def name(self) -> str:
        """The stream's name, or `Rejected` if it is missing or invalid."""
        if not isinstance(self.stream, str):
            raise Rejected("name the stream: Noted(stream, controller=URL)")
        return validate_name("stream", self.stream)


@dataclass(frozen=True, slots=True)
class WatermarkPolicy:
    """How the watermark of a query follows the marks.

    - `strict` sets the watermark 1 ms below the lower of the last admitted mark. Spark closes a
      window whose end is at the watermark, but also drops single rows at the watermark. So joins
      and deduplication lose nothing, but a window that ends at the lower stays open until the next
      mark. `strict=False` is exact only for windowed aggregations.
    - `on_seal="close"` closes all windows once the query has read a sealed stream to its end.
      `"hold"` keeps the last mark's lower.
    - `dedup_retention_ms` is how long after its event time `dropDuplicatesWithinWatermark`
      remembers an event.
    - `batch_after_mark` adds a micro-batch after a mark that no other batch follows. A query
      without state needs it for the last claim of a table or derived stream, because a mark sets
      the watermark of the next batch.
    - `first_windows` applies if a Kafka topic lost rows before the query began at its earliest
      offsets. `"partial"` returns their windows with a warning. `"skip"` skips them.
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
        """Raise `Rejected` for "skip", which `reader` does not support."""
        if self.first_windows == "skip":
            remedy = 'leave first_windows="skip" out, or use read_noted_kafka(marks="ahead")'
            raise Rejected(f"{reader} does not look for rows deleted before its query: {remedy}")


SAFE_POLICY = WatermarkPolicy()


def check_promised(domain: str | None, remedy: str = EVENT_TIMES_REMEDY) -> None:
    """Raise `Rejected` if the domain's marks say nothing of event times.

    >>> check_promised("ingestion")
    Traceback (most recent call last):
        ...
    noted_time.Rejected: marks of ingestion say when rows came in, and promise nothing of ...
    """
    if domain == INGESTION_NAME:
        reason = "marks of ingestion say when rows came in, and promise nothing of event times"
        raise Rejected(f"{reason}: {remedy}")


def convert_time(time: Time) -> int:
    """Return a bound in Unix ms, or raise `Rejected` if Spark cannot express it."""
    ms = unix_ms_of(time)
    if isinstance(time, datetime) and ms != unix_ms_of(time, up=True):
        raise Rejected(f"{time!r} has sub-millisecond precision; bounds are whole milliseconds")
    if not is_watermark(ms):
        raise Rejected(f"time {ms} is not one that Spark can express: it takes the years 1 to 9999")
    return ms
