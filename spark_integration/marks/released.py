"""The last mark that a query has applied, and the watermark that follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from noted_time import Mark
from noted_time.values import find_missing_offsets, format_time
from spark_integration.marks.watermark import is_watermark


class Released(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The last mark that a query has applied, stored in its offset log."""

    stream_id: str = ""
    seq: int = 0
    lower: int | None = None  # ms; `None` before the first mark, or if Spark cannot express it
    sealed: bool = False  # whether a sealed stream was read to its end

    def __post_init__(self) -> None:
        if self.lower is not None and not is_watermark(self.lower):
            force_setattr(self, "lower", None)


class Watermark(Struct, frozen=True):
    """The watermark of a micro-batch in ms, or `None`, and its reason.

    >>> Watermark.of(Released("a", 3, 30), strict=True)
    Watermark(ms=29, because='the cut of mark 3 is read: lower 30, less 1 ms (strict)')
    >>> Watermark.of(Released(), strict=True).ms is None
    True
    """

    ms: int | None
    because: str

    @classmethod
    def of(cls, applied_mark: Released, *, strict: bool, lag_ms: int = 0) -> Watermark:
        """Return the watermark after a mark, with event times `lag_ms` behind the marks."""
        if applied_mark.lower is None:
            return cls(None, "no mark has its cut read")
        if applied_mark.sealed:
            return cls(applied_mark.lower, "the sealed stream is read to its end")
        because = (
            f"the cut of mark {applied_mark.seq} is read: lower {format_time(applied_mark.lower)}"
        )
        lower = applied_mark.lower - lag_ms
        if lag_ms:
            because += f", less {lag_ms} ms (max_event_time_lag_ms)"
        if not is_watermark(lower):
            return cls(None, f"{because}, which Spark cannot express")
        if strict:
            return cls(lower - 1, f"{because}, less 1 ms (strict)")
        return cls(lower, because)

    def explain_wait(self, following: Sequence[Mark], position: Mapping[int, int]) -> Watermark:
        """Add the first segment that the next mark needs beyond a position, if any."""
        for mark in following[:1]:
            for missing in find_missing_offsets(position, mark.cut.offsets)[:1]:
                reason = f"mark {mark.seq} needs segment {missing.segment} to {missing.needed}"
                return replace(self, because=f"{self.because}; {reason}, read to {missing.offset}")
        return self


class RestatedBatches:
    """Decides which batches restate the last lower, by a new `run` in their offsets.

    - The first batch of a run restates it, because Spark's commit log keeps only one watermark per
      query (SPARK-50046).
    - So does the batch after the end of a sealed stream, because `NotedLogSink` waits for it.
    - With `batch_after_mark`, so does one batch after each new or restated lower. A restated lower
      counts, because a sink may skip a batch that is repeated after a crash, with its mark.
    """

    def __init__(self, *, batch_after_mark: bool = False) -> None:
        self.has_begun = False
        self._batch_after_mark = batch_after_mark
        self._followed: tuple[int | None, bool] | None = None

    def run(self, run: int, applied_mark: Released) -> int:
        """Return the `run` of the next batch, if the last one applied `applied_mark`."""
        statement = (applied_mark.lower, applied_mark.sealed)
        needs_batch = applied_mark.sealed or (
            self._batch_after_mark and applied_mark.lower is not None
        )
        is_due = not self.has_begun or (needs_batch and statement != self._followed)
        is_followed = self.has_begun or not self._batch_after_mark
        self.has_begun = True
        self._followed = statement if is_followed else None
        return run + is_due
