"""The options of a query on a file log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from noted_time import Rejected
from noted_time.extending import Time, check_least, format_time
from spark_integration import CatchUp, Ingestion
from spark_integration.extending import OwnForm, TimeRange, check_one_of, convert_time

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
        start_at = self.times.start_at
        end_at = self.times.end_at
        if start_at is not None and end_at is not None and start_at >= end_at:
            raise Rejected(
                f"no range of time: start_at {format_time(start_at)} is not below end_at "
                f"{format_time(end_at)}"
            )

    @property
    def times(self) -> TimeRange:
        """The range in Unix ms."""
        start_at = None if self.start_at is None else convert_time(self.start_at)
        end_at = None if self.end_at is None else convert_time(self.end_at)
        return TimeRange(start_at, end_at)


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


Option = ReadRange | Columns | Batches | CatchUp | Ingestion
