"""Base class of the streaming sources, with a planner next to the driver."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from noted_time.client import Json
from spark_integration.session.pickling import Picklable


class MicroBatchPlanner(Protocol):
    """Plans the micro-batches of one run."""

    def get_initial_offset(self) -> Json: ...

    def read_no_more_than_now(self) -> None:
        """Plan up to the current end of the log, for `availableNow`."""

    def plan_next_offset(self, start: Json, limit: ReadLimit) -> Json: ...

    def list_tasks(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; equal offsets give equal tasks."""

    def close(self) -> None: ...


Planner = TypeVar("Planner", bound=MicroBatchPlanner)


class PlannedReader(
    Picklable, DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[Planner]
):
    """One run of a query; `_secrets` are not sent to workers."""

    _secrets: tuple[Any, ...] = ()

    @abstractmethod
    def _create_planner(self) -> Planner: ...

    @cached_property
    def _planner(self) -> Planner:
        return self._create_planner()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_secrets": ()}

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        return self._planner.get_initial_offset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._planner.read_no_more_than_now()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802 - Spark's name
        return self._planner.plan_next_offset(start, limit)

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        return self._planner.list_tasks(start, end)

    def stop(self) -> None:
        if "_planner" in self.__dict__:
            self._planner.close()
