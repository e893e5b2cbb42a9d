"""Base class of the streaming sources, with a planner next to the driver."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from noted_time.client import Json
from spark_integration.session.pickling import Picklable

if TYPE_CHECKING:
    from spark_integration.marks.planner import Planner


class PlannedReader(Picklable, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One run of a query; `_secrets` are not sent to workers, which import no planner."""

    _secrets: tuple[Any, ...] = ()

    @cached_property
    @abstractmethod
    def _planner(self) -> Planner: ...

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_secrets": ()}

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        return self._planner.beginning.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._planner.freeze()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802 - Spark's name
        return self._planner.plan_next_offset(start, limit)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - Spark's name
        return self._planner.report_latest() if "_planner" in self.__dict__ else None

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        return self._planner.list_tasks(start, end)

    def stop(self) -> None:
        if "_planner" in self.__dict__:
            self._planner.close()
