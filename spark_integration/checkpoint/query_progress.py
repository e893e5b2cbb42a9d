"""How far a query has read, from the offset log in its checkpoint.

Spark writes the end offsets of micro-batch N into ``<checkpoint>/offsets/N`` before it runs the
batch, and asks the sources where N + 1 ends after that. So everything up to the newest file's
offsets is read before any batch that is planned now, whether it was committed, is running or will
be run again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from noted_time import Rejected
from noted_time.client import Json
from spark_integration.checkpoint.files import Files, checkpoint_files, place_of
from spark_integration.checkpoint.named_sources import covered_by, in_order
from spark_integration.marks.released import is_of_marks
from spark_integration.marks.watermark import MULTIPLE

IN_ORDER, BY_NAME = "v1", "v2"
"""The versions of Spark's offset log: offsets in the order of the plan, and by name."""

NO_OFFSET = "-"

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Planned:
    """A micro-batch as Spark planned it, which stays the same when the batch runs again.

    `watermark_ms` is the watermark of the batch in Unix ms, `None` if the query has none yet: Spark
    writes 0 then. `watermark_policy` says which of several watermarks that is, `"min"` or `"max"`.
    `offsets` are the ends of the sources as JSON values, in the order of the plan, or as `in_order`
    has them; `None` for one that has no offset yet.
    """

    query_id: str
    batch_id: int
    watermark_ms: int | None
    watermark_policy: str
    offsets: tuple[Any, ...]


@dataclass
class QueryProgress:
    """The offset log of one query, followed batch by batch.

    `checkpoint` is the query's `checkpointLocation`: a path, or a URI of an object store. Raises
    `Rejected` for one that cannot be read. Reading raises what `checkpoint_files` raises, and what
    it returns.
    """

    checkpoint: str
    last: int = -1
    """The last batch that was planned, as of the last question."""
    _text: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        place_of(self.checkpoint)

    @cached_property
    def _files(self) -> Files:
        return checkpoint_files(self.checkpoint)

    def position(self, token: str, position_of: Callable[[Any], Mapping[K, V]]) -> Mapping[K, V]:
        """Return the position of the events whose marks come from the source named by `token`.

        Their source comes right after it in the offset log, as it does in the union, unless it is
        named: see `covered_by`. Empty while that source has no offset; raises `Rejected` if this is
        the log of another query, or if the marks may cover more sources than one.
        """

        def accepts(offset: object) -> bool:
            with suppress(Rejected):
                return position_of(offset) is not None
            return False

        _, sources = self._newest()
        for name, marks in sources.items():
            if is_of_marks(marks) and marks["token"] == token:
                found = covered_by(sources, name, accepts)
                events = _only_source(marks["noted_marks"], found)
                return {} if events is None else position_of(events)
        raise _not_ours(self.checkpoint, "was written by another query")

    def last_marks(self, streams: Collection[str]) -> Json | None:
        """Return the last offset of the marks of these streams, `None` if there is none yet."""
        if not self._files.names("offsets"):
            return None
        _, sources = self._newest()
        names, offsets = ",".join(sorted(streams)), sources.values()
        return next((o for o in offsets if is_of_marks(o) and o["noted_marks"] == names), None)

    def query_id(self) -> str:
        """Return the id of the query, which stays the same across restarts."""
        text = self._files.read("metadata")
        if text is None:
            raise Rejected(
                f"{self.checkpoint} is no checkpoint of a query: it has no metadata file"
            )
        return str(json.loads(text)["id"])

    def has_state(self) -> bool:
        """Whether operators of the query keep state."""
        return self._files.has("state")

    def planned(self, batch_id: int) -> Planned:
        """Return what Spark planned for a batch, which need not be the last one.

        Raises `Rejected` if the offset log does not have the batch: it is not planned yet, or Spark
        has deleted its file (`spark.sql.streaming.minBatchesToRetain`).
        """
        text = self._files.read(f"offsets/{batch_id}")
        if text is None:
            raise _not_ours(self.checkpoint, f"does not have batch {batch_id}")
        metadata, sources = self._entry(text)
        policy, offsets = metadata.get("conf", {}).get(MULTIPLE, "min").lower(), in_order(sources)
        return Planned(self.query_id(), batch_id, _watermark_ms(metadata), policy, offsets)

    def watermark(self, batch_id: int) -> int | None:
        """Return the watermark in ms with which the running batch `batch_id` was planned.

        Operators of that batch emit what the watermark has passed. `None` if the query has none
        yet. Raises `Rejected` if the batch is not the last one planned.
        """
        metadata, _ = self._newest()
        if self.last != batch_id:
            reason = f"is at batch {self.last}, and this is batch {batch_id}"
            raise _not_ours(self.checkpoint, reason)
        return _watermark_ms(metadata)

    def _newest(self) -> tuple[Json, dict[str, Any]]:
        """Return what Spark wrote of the last planned batch: its metadata, the offsets by name.

        The files are listed once. Then the file after the last one is asked for by its name: in the
        order of names, in which stores list, 10 comes before 9.
        """
        files, following = self._files, self.last + 1
        if self.last < 0:
            listed = (int(name) for name in files.names("offsets") if name.isdigit())
            following = max(listed, default=0)
        while (text := files.read(f"offsets/{following}")) is not None:
            self.last, self._text, following = following, text, following + 1
        if self.last < 0:
            raise _not_ours(self.checkpoint, "has no batch yet")
        return self._entry(self._text)

    def _entry(self, text: str) -> tuple[Json, dict[str, Any]]:
        version, head, *lines = text.split("\n")
        if version not in (IN_ORDER, BY_NAME):
            raise Rejected(
                f"offset log of {self.checkpoint} is {version!r}, and this noted-time reads "
                f"{IN_ORDER!r} and {BY_NAME!r}: install one that knows the Spark that wrote it"
            )
        if version == IN_ORDER:
            lines = [f"{place}:{line}" for place, line in enumerate(lines)]
        # in the order of names, and of numbers, which version 2 has for sources without a name
        named = sorted((line.partition(":") for line in lines), key=lambda each: each[0].zfill(9))
        metadata = _value(head) or {}
        return metadata, {name: _value(offset) for name, _, offset in named}


def _value(text: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    return None if text == NO_OFFSET else json.loads(text)


def _watermark_ms(metadata: Json) -> int | None:
    return metadata["batchWatermarkMs"] or None


def _not_ours(checkpoint: str, reason: str) -> Rejected:
    return Rejected(f"{checkpoint!r} is not the checkpoint of the query: it {reason}")


def _only_source(stream: str, events: Sequence[Any]) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the offset of the one source that the marks cover.

    A second source would be read under marks that say nothing of it, and its rows dropped as late.
    One that is merely joined cannot be distinguished from one that was put into a union.
    """
    if len(events) != 1:
        raise Rejected(
            f"the marks of stream {stream!r} cover one source, but {len(events)} follow them: "
            "call with_noted_watermark once for each source, then union or join the results; a "
            "source that needs no marks comes before them, as in other.join(timed), and cannot be "
            "in a query of named sources, whose order Spark does not keep"
        )
    return events[0]
