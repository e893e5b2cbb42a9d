"""The last mark let into a query, as its offset log has it, and the watermark that it leads to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from noted_time import Mark
from noted_time.client import Json, position_from_wire, position_to_wire
from noted_time.reading import WholeFrom
from noted_time.values import find_missing_offsets, format_time
from spark_integration.marks.watermark import is_watermark


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


@dataclass(frozen=True, slots=True)
class Watermark:
    """The watermark of a micro-batch in ms, `None` for none, and why it is that.

    >>> Watermark.of(Released("a", 3, 30), strict=True)
    Watermark(ms=29, because='the cut of mark 3 is read: lower 30, less 1 ms (strict)')
    >>> Watermark.of(Released(), strict=True).ms is None
    True
    """

    ms: int | None
    because: str

    @classmethod
    def of(cls, released: Released, *, strict: bool, lag_ms: int = 0) -> Watermark:
        """Return the watermark once a mark was let in, in terms of the event time.

        `lag_ms` is how far that is behind the time of the marks. No row follows the end of a sealed
        stream, so `strict` subtracts nothing there.
        """
        if released.lower is None:
            return cls(None, "no mark has its cut read")
        if released.sealed:
            return cls(released.lower, "the sealed stream is read to its end")
        because = f"the cut of mark {released.seq} is read: lower {format_time(released.lower)}"
        lower = released.lower - lag_ms
        if lag_ms:
            because += f", less {lag_ms} ms (max_event_time_lag_ms)"
        if not is_watermark(lower):
            return cls(None, f"{because}, which Spark cannot express")
        return cls(lower - 1, f"{because}, less 1 ms (strict)") if strict else cls(lower, because)

    def explain_wait(self, following: Sequence[Mark], position: Mapping[int, int]) -> Watermark:
        """Return it with what the first of the following marks waits for, if there is one."""
        for mark in following[:1]:
            for each in find_missing_offsets(position, mark.cut.offsets)[:1]:
                why = f"mark {mark.seq} needs segment {each.segment} to {each.needed}"
                return replace(self, because=f"{self.because}; {why}, read to {each.offset}")
        return self


class Restated:
    """Which batches of a run state the last lower again, by another `run` in their offsets.

    Spark's commit log keeps one watermark for the whole query and not that of each source
    (SPARK-50046): after a restart a join would not advance until its quiet side had a new mark. So
    the first batch of a run differs from the last one, though nothing may have been read. So does
    the batch after the end of a sealed stream: a query without state has no other batch under the
    last watermark, which `NotedLogSink` waits for.

    With `batch_after_mark` a query has one more batch after each lower that a batch states, be it a
    new one or that of the first batch of a run. The latter counts because a sink may skip a batch
    that is run again after a crash: its mark is not read then, so the watermark advances with the
    first batch that is planned anew. What was stated is forgotten with the run.
    """

    def __init__(self, *, batch_after_mark: bool = False) -> None:
        self.has_begun = False
        self._batch_after_mark = batch_after_mark
        self._followed: tuple[int | None, bool] | None = None

    def run(self, run: int, released: Released, *, is_first_due: bool) -> int:
        """Return the `run` of the next batch, of which `released` is let in by the batch before."""
        stated = (released.lower, released.sealed)
        if self.has_begun:
            needs_batch = released.sealed or (self._batch_after_mark and released.lower is not None)
            is_due = needs_batch and stated != self._followed
        else:
            is_due = is_first_due
        is_followed = self.has_begun or not self._batch_after_mark
        self.has_begun, self._followed = True, stated if is_followed else None
        return run + is_due


def whole_to_json(whole: WholeFrom) -> Json:
    """Return what the offset log keeps of it."""
    begins = None if whole.begins is None else position_to_wire(whole.begins)
    kept = {"begins": begins, "time": whole.time, "unknown": whole.unknown or None}
    return {name: value for name, value in kept.items() if value is not None}


def whole_from_json(json: Json) -> WholeFrom | None:
    """Return what an offset says of it, `None` if nothing.

    >>> whole_from_json({"whole": {"begins": {"0": 30}}})
    WholeFrom(begins={0: 30}, time=None, unknown='')
    """
    kept = json.get("whole")
    if kept is None:
        return None
    begins = kept.get("begins")
    return WholeFrom(**{**kept, "begins": begins and position_from_wire(begins)})


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
