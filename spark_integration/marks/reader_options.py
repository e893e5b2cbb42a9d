"""The options that readers of topics and of logs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noted_time import BacklogPolicy, Rejected
from noted_time.values import INGESTION_NAME, check_least
from spark_integration.marks.arguments import check_promised


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

    def check_above(self, usual_limit: int | None, source: str) -> None:
        """Raise `Rejected` if the limit is below the usual one."""
        larger_limit = self.max_rows_per_trigger
        if larger_limit is not None and larger_limit < (usual_limit or 1):
            raise Rejected(
                f"max_rows_per_trigger of CatchUp is {larger_limit}: it must be at least the limit "
                f"of {source} ({usual_limit})"
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


def choose_options(options: Sequence[object], fields: Mapping[Any, str]) -> dict[str, Any]:
    option_by_field: dict[str, Any] = {}
    for option in options:
        field = fields.get(type(option))
        if field is None or field in option_by_field:
            type_names = ", ".join(kind.__name__ for kind in fields)
            raise Rejected(f"options are {type_names}, each at most once: not {option!r:.200}")
        option_by_field[field] = option
    return option_by_field
