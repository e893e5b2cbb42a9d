"""Plans the micro-batches of one run, by the marks of its streams and the rows of its source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from noted_time.client import Json
from spark_integration.marks.arguments import WatermarkPolicy
from spark_integration.marks.backlog import QueryBacklog
from spark_integration.marks.offset import NotedOffset
from spark_integration.marks.release import Releaser
from spark_integration.marks.released import RestatedBatches

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from noted_time import BacklogPolicy


class Planner(ABC):
    """Follows the marks of a source, and plans its micro-batches."""

    def __init__(
        self,
        beginning: NotedOffset,
        policy: WatermarkPolicy,
        marks: Mapping[str, Releaser],
        backlog: BacklogPolicy | None,
    ) -> None:
        self.beginning = beginning
        self.marks = marks
        self.backlog = QueryBacklog(backlog)
        self._policy = policy
        self._restated = RestatedBatches(batch_after_mark=policy.batch_after_mark)
        self._is_frozen = False

    def close(self) -> None:
        for marks in self.marks.values():
            marks.close()

    def freeze(self) -> None:
        """Read no more than is there now, for `availableNow`."""
        self._is_frozen = True

    def report_latest(self) -> Json | None:
        """Return the present ends and the last watermark, if the source shows them."""
        return None

    @abstractmethod
    def find_ends(self, start_offset: NotedOffset, limit: ReadLimit) -> NotedOffset | None:
        """Return where the next micro-batch ends, with its marks, or `None` to wait."""

    @abstractmethod
    def list_ranges(
        self, start_offset: NotedOffset, end_offset: NotedOffset
    ) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; equal offsets give equal tasks."""

    def plan_next_offset(self, start: Json, limit: ReadLimit) -> Json:
        start_offset = NotedOffset.from_json(start)
        end_offset = self.plan(start_offset, limit)
        if end_offset == start_offset:
            return start
        return end_offset.to_json()

    def list_tasks(self, start: Json, end: Json) -> Sequence[InputPartition]:
        start_offset = NotedOffset.from_json(start)
        end_offset = NotedOffset.from_json(end)
        end_offset.check_same(self.beginning)
        return self.list_ranges(start_offset, end_offset)

    def plan(self, start_offset: NotedOffset, limit: ReadLimit) -> NotedOffset:
        """Follow marks before the source looks for rows, so it finds all rows below their cuts."""
        start_offset.check_same(self.beginning)
        if not (self._is_frozen and self._restated.has_begun):
            for stream, marks in self.marks.items():
                marks.follow(start_offset.streams[stream].mark)
        start_offset.check_same(self._state_facts(self.beginning))
        end_offset = self.find_ends(start_offset, limit)
        if end_offset is None:
            return start_offset
        run = self._restated.run(start_offset.run, start_offset.least)
        end_offset = replace(end_offset, run=run)
        if end_offset == start_offset:
            return start_offset
        return replace(self._state_facts(end_offset), backlog=self.backlog.flag)

    def _state_facts(self, offset: NotedOffset) -> NotedOffset:
        """Return the offset with the facts that the query and its marks state now."""
        streams = {}
        for name, stream_offset in offset.streams.items():
            marks = self.marks[name]
            former_facts = stream_offset.facts
            facts = replace(
                former_facts,
                domain=marks.stream.domain or former_facts.domain,
                lag_ms=self.beginning.streams[name].facts.lag_ms,
                first_lower=marks.find_first_lower(stream_offset.mark, former_facts.first_lower),
            )
            streams[name] = replace(stream_offset, facts=facts)
        return replace(offset, streams=streams)
