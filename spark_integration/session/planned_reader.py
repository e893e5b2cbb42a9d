"""The shell of our streaming sources: a planner beside the driver, and parts for the workers."""

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
    """What plans the micro-batches of one run of a query."""

    def get_initial_offset(self) -> Json:
        """Return the offset at which a new query begins."""

    def read_no_more_than_now(self) -> None:
        """Plan with what there is now, and nothing that comes later."""

    def plan_next_offset(self, start: Json, limit: ReadLimit) -> Json:
        """Return the offset at which the next micro-batch ends."""

    def list_tasks(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; the same ones for the same offsets, at any time."""

    def close(self) -> None:
        """Stop following marks."""


Planner = TypeVar("Planner", bound=MicroBatchPlanner)


class PlannedReader(
    Picklable, DataSourceStreamReader, SupportsTriggerAvailableNow, Generic[Planner]
):
    """One run of a query: plans in a process beside the driver, and is pickled for the workers.

    Only the planning process talks to controller and broker: the planner, and what it imports, is
    made when it is first asked for, and `_secrets` do not reach the workers.
    """

    _secrets: tuple[Any, ...] = ()

    @abstractmethod
    def _create_planner(self) -> Planner:
        """Return the planner of this run."""

    @cached_property
    def _planner(self) -> Planner:
        return self._create_planner()

    def __getstate__(self) -> dict[str, Any]:
        """Return what the workers need, without secrets."""
        return {**self.__dict__, "_secrets": ()}

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Return the offset at which a new query begins."""
        return self._planner.get_initial_offset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Plan with what there is now, and nothing that comes later."""
        self._planner.read_no_more_than_now()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802 - Spark's name
        """Return the offset at which the next micro-batch ends."""
        return self._planner.plan_next_offset(start, limit)

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; the same ones for the same offsets, at any time."""
        return self._planner.list_tasks(start, end)

    def stop(self) -> None:
        """Stop following marks."""
        if "_planner" in self.__dict__:
            self._planner.close()
