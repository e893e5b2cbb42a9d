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
    def find_ends(self, begun: NotedOffset, limit: ReadLimit) -> NotedOffset | None:
        """Return where the next micro-batch ends, with its marks, or `None` to wait."""

    @abstractmethod
    def list_ranges(self, begun: NotedOffset, ended: NotedOffset) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; equal offsets give equal tasks."""

    def plan_next_offset(self, start: Json, limit: ReadLimit) -> Json:
        begun = NotedOffset.from_json(start)
        ended = self.plan(begun, limit)
        return start if ended == begun else ended.to_json()

    def list_tasks(self, start: Json, end: Json) -> Sequence[InputPartition]:
        begun, ended = NotedOffset.from_json(start), NotedOffset.from_json(end)
        ended.check_same(self.beginning)
        return self.list_ranges(begun, ended)

    def plan(self, begun: NotedOffset, limit: ReadLimit) -> NotedOffset:
        """Follow marks before the source looks for rows, so it finds all rows below their cuts."""
        begun.check_same(self.beginning)
        if not (self._is_frozen and self._restated.has_begun):
            for stream, marks in self.marks.items():
                marks.follow(begun.streams[stream].mark)
        begun.check_same(self._state_facts(self.beginning))
        ended = self.find_ends(begun, limit)
        if ended is None:
            return begun
        ended = replace(ended, run=self._restated.run(begun.run, begun.least))
        if ended == begun:
            return begun
        return replace(self._state_facts(ended), backlog=self.backlog.flag)

    def _state_facts(self, offset: NotedOffset) -> NotedOffset:
        streams = {}
        for name, each in offset.streams.items():
            asked, marks = self.beginning.streams[name].facts, self.marks[name]
            facts = replace(
                each.facts,
                domain=marks.stream.domain or each.facts.domain,
                lag_ms=asked.lag_ms,
                first_lower=marks.find_first_lower(each.mark, each.facts.first_lower),
            )
            streams[name] = replace(each, facts=facts)
        return replace(offset, streams=streams)
