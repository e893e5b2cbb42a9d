"""The offset of a source with marks, as Spark's offset log has it."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TypeGuard

from msgspec import Struct, field, to_builtins

from noted_time import Rejected
from noted_time.client import Json
from noted_time.coding import convert_from_json
from noted_time.reading import WholeFrom
from spark_integration.marks.own_form import OwnForm
from spark_integration.marks.released import Released, Watermark
from spark_integration.marks.time_range import ALL_TIMES, TimeRange


class StreamFacts(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The facts of a stream that a query claims; a change starts no micro-batch.

    `own_form` is `None` in checkpoints of earlier versions, which read UTC and Unix ms.
    """

    domain: str | None = None
    lag_ms: int = 0
    whole: WholeFrom | None = None  # `None` if the query may lack rows before its first batch
    first_lower: int | None = None
    own_form: OwnForm | None = None


class MarkAhead(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A mark applied in micro-batch `batch`, before the rest of its cut, `needs`, was read."""

    batch: int = 0
    seq: int = 0
    needs: Mapping[int, int] = {}


class StreamOffset(Struct, frozen=True, omit_defaults=True, eq=False):
    """The last applied mark of a stream, and how far a file log has read its segments.

    Two offsets with other facts are equal.
    """

    mark: Released = Released()
    segments: Mapping[int, int] = {}
    topic_id: str | None = None
    ahead: tuple[MarkAhead, ...] = ()  # up to two, in order
    facts: StreamFacts = StreamFacts()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamOffset) and self._place == other._place

    __hash__ = None  # type: ignore[assignment]

    @property
    def _place(self) -> tuple[object, ...]:
        return self.mark, self.segments, self.topic_id, self.ahead


class NotedOffset(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The streams of a source, and what its next micro-batch depends on.

    >>> offset = NotedOffset({"flights": StreamOffset(segments={0: 12})}, run=1)
    >>> offset.to_json()
    {'noted_streams': {'flights': {'segments': {'0': 12}}}, 'run': 1}
    >>> NotedOffset.from_json(offset.to_json()) == offset
    True
    """

    # Spark plans a micro-batch if the offset of a source changes: by rows, or by a mark.
    #
    # `run` counts the batches that are *restated*: they have the last lower again, and nothing else
    # may have changed. `RestatedBatches` decides which they are: the first batch of each run of a
    # query, and batches after a mark that nothing else would start. A batch that is repeated after
    # a crash has the same `run`. Two offsets that differ only in it have the same rows and marks,
    # so claims compare plans without it.
    #
    # `token` is random, and the same in all offsets of a query, which finds itself by it. Marks
    # that come from a source of their own cover the rows of the source after them in Spark's offset
    # log. Only that log says how far these are read, and only after the batch is planned. So the
    # source looks for the entry with its token; without one, the checkpoint is of another query.
    # A file log reads its own rows, in `segments`, and has a `root` and no token.
    streams: Mapping[str, StreamOffset] = field(name="noted_streams")
    token: str = ""
    run: int = 0
    backlog: bool | None = None
    root: str = ""
    times: TimeRange = ALL_TIMES
    begin: Mapping[int, int] = {}  # of the rows in `times`

    @property
    def least(self) -> Released:
        """The mark with the least lower, once all streams have a mark."""
        marks = [stream_offset.mark for stream_offset in self.streams.values()]
        if any(mark.lower is None for mark in marks):
            return Released()
        return min(marks, key=attrgetter("lower"))

    @property
    def is_read(self) -> bool:
        return self.times.are_read(self.least.lower)

    def find_watermark(self, *, strict: bool, lag_ms: int) -> Watermark:
        if self.is_read:
            return Watermark(self.times.end_at, "the range is read to its end_at")
        return Watermark.of(self.least, strict=strict, lag_ms=lag_ms)

    def check_same(self, beginning: NotedOffset) -> None:
        """Raise `Rejected` if this is not an offset of a query that would begin at `beginning`.

        >>> offset = NotedOffset({"flights": StreamOffset()}, root="/log")
        >>> offset.check_same(NotedOffset({"landings": StreamOffset()}, root="/log"))
        Traceback (most recent call last):
            ...
        noted_time.Rejected: the checkpoint is of stream 'flights', under /log, and the query ...
        """
        if not self._is_of_query(beginning):
            raise Rejected(
                f"the checkpoint is of {self}, and the query reads {beginning}: read the former, "
                "or start a query with a new checkpoint"
            )

    def _is_of_query(self, beginning: NotedOffset) -> bool:
        """Return whether a query that begins at `beginning` has these streams and domains.

        A domain that is not known yet may be any.
        """
        if self.root != beginning.root or self.streams.keys() != beginning.streams.keys():
            return False
        for stream, stream_offset in self.streams.items():
            domain = stream_offset.facts.domain
            other_domain = beginning.streams[stream].facts.domain
            if domain and other_domain and domain != other_domain:
                return False
        return True

    def __str__(self) -> str:
        descriptions: list[str] = []
        for name, stream_offset in sorted(self.streams.items()):
            description = f"stream {name!r}"
            if stream_offset.facts.domain:
                description += f", domain {stream_offset.facts.domain!r}"
            descriptions.append(description)
        text = " and ".join(descriptions)
        if self.root:
            text += f", under {self.root}"
        return text

    def to_json(self) -> Json:
        json: Json = to_builtins(self, str_keys=True, order="deterministic")
        if self.times == ALL_TIMES:  # which may be another object than the default
            json.pop("times", None)
        return json

    @classmethod
    def from_json(cls, json: Json) -> NotedOffset:
        offset: NotedOffset = convert_from_json(json, cls)
        return offset


def is_noted(offset: object) -> TypeGuard[Json]:
    return isinstance(offset, dict) and "noted_streams" in offset


def is_of_marks(offset: object) -> TypeGuard[Json]:
    return is_noted(offset) and "root" not in offset


def is_of_log(offset: object) -> TypeGuard[Json]:
    return is_noted(offset) and "root" in offset


def list_facts(offset: Json) -> dict[str, StreamFacts]:
    streams = offset["noted_streams"].items()
    facts_by_stream = {name: stream_offset.get("facts", {}) for name, stream_offset in streams}
    facts: dict[str, StreamFacts] = convert_from_json(facts_by_stream, dict[str, StreamFacts])
    return facts
