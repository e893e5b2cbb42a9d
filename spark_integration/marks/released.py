"""The last mark let into a query, as the query's offset log has it, and whose an offset is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from spark_integration.marks.watermark import is_watermark

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Released:
    """The last mark that was let into a query: `seq` in the stream of creation id `stream_id`.

    The lower itself (ms) is kept too, so that a replayed batch needs no controller; `None` before
    the first mark, and if an offset log names one that Spark cannot express. `sealed`: the end
    of a sealed stream was reached, and its lower is the end of Spark's time.
    """

    stream_id: str = ""
    seq: int = 0
    lower: int | None = None
    sealed: bool = False

    def to_json(self) -> Json:
        """Return the shape that Spark keeps."""
        json = {"stream_id": self.stream_id, "seq": self.seq, "lower": self.lower}
        return {**json, "sealed": True} if self.sealed else json

    @classmethod
    def from_json(cls, json: Json) -> Released:
        """Return it from what Spark kept."""
        released = cls(**json)
        if released.lower is None or is_watermark(released.lower):
            return released
        return replace(released, lower=None)


class Restated:
    """Which batches of a run state the last lower again, by another `run` in their offsets.

    Spark's commit log keeps one watermark for the whole query and not that of each source
    (SPARK-50046): after a restart a join would not advance until its quiet side had a new mark. So
    the first batch of a run differs from the last one, though nothing may have been read. So does
    the batch after the end of a sealed stream: a query without state has no other batch under the
    last watermark, which `NotedLogSink` waits for.
    """

    def __init__(self) -> None:
        self.has_begun = self._is_closed = False

    def run(self, run: int, released: Released, *, is_first_due: bool) -> int:
        """Return the `run` of the next batch, of which `released` is let in by the batch before."""
        is_due = is_first_due and not self.has_begun
        is_due = is_due or (released.sealed and not self._is_closed)
        self.has_begun, self._is_closed = True, released.sealed
        return run + is_due


def is_of_marks(offset: object) -> TypeGuard[Json]:
    """Whether a source's offset is one of a `MarksOffset`.

    >>> is_of_marks({"noted_marks": "flights"}), is_of_marks({"flights": {"0": 1}})
    (True, False)
    """
    return isinstance(offset, dict) and "noted_marks" in offset


def is_of_log(offset: object) -> TypeGuard[Json]:
    """Whether a source's offset is one of a `LogOffset`.

    >>> is_of_log({"noted_log": "flights"}), is_of_log({"flights": {"0": 1}})
    (True, False)
    """
    return isinstance(offset, dict) and "noted_log" in offset
