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
from itertools import chain, takewhile
from typing import Any, TypeVar

from noted_time import Rejected
from noted_time.client import Json
from spark_integration.checkpoint.files import Files, open_checkpoint, parse_place
from spark_integration.marks.released import is_of_log, is_of_marks
from spark_integration.marks.watermark import MULTIPLE_POLICY
from spark_integration.session.settings import EVENTS_SUFFIX, OWN_PREFIX

IN_ORDER, BY_NAME = "v1", "v2"  # the versions of Spark's offset log, by how it has the sources
NO_OFFSET = "-"

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A micro-batch as Spark planned it, which stays the same when the batch runs again.

    `watermark_ms` is the watermark of the batch in Unix ms, `None` if the query has none yet: Spark
    writes 0 then. `watermark_policy` says which of several watermarks that is, `"min"` or `"max"`.
    `offsets` are the ends of the sources as JSON values, in the order of the plan, or as
    `order_offsets` has them; `None` for one that has no offset yet.
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
    `Rejected` for one that cannot be read. Reading raises what `open_checkpoint` raises, and what
    it returns.
    """

    checkpoint: str
    last: int = -1
    """The last batch that was planned, as of the last question."""
    _text: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        parse_place(self.checkpoint)

    @cached_property
    def _files(self) -> Files:
        return open_checkpoint(self.checkpoint)

    def find_position(
        self, token: str, position_of: Callable[[Any], Mapping[K, V]]
    ) -> Mapping[K, V]:
        """Return the position of the events whose marks come from the source named by `token`.

        Their source comes right after it in the offset log, as it does in the union, or by
        `order_offsets`. Empty while that source has no offset; raises `Rejected` if this is the log
        of another query, or if more sources follow the marks than the one that they cover.
        """
        _, offsets = self._read_newest(token, position_of)
        for place, marks in enumerate(offsets, start=1):
            if is_of_marks(marks) and marks["token"] == token:
                events = _find_only_source(marks["noted_marks"], offsets[place:])
                return {} if events is None else position_of(events)
        raise _build_refusal(self.checkpoint, "was written by another query")

    def find_last_marks(self, streams: Collection[str]) -> Json | None:
        """Return the last offset of the marks of these streams, `None` if there is none yet."""
        if not self._files.list_names("offsets"):
            return None
        _, offsets = self._read_newest()
        names = ",".join(sorted(streams))
        return next((o for o in offsets if is_of_marks(o) and o["noted_marks"] == names), None)

    def read_query_id(self) -> str:
        """Return the id of the query, which stays the same across restarts."""
        text = self._files.read("metadata")
        if text is None:
            raise Rejected(f"{self.checkpoint} is no query's checkpoint: it has no metadata file")
        return str(json.loads(text)["id"])

    def has_state(self) -> bool:
        """Whether operators of the query keep state."""
        return self._files.has_files("state")

    def read_batch(self, batch_id: int) -> PlannedBatch:
        """Return what Spark planned for a batch, which need not be the last one.

        Raises `Rejected` if the offset log does not have the batch: it is not planned yet, or Spark
        has deleted its file (`spark.sql.streaming.minBatchesToRetain`).
        """
        text = self._files.read(f"offsets/{batch_id}")
        if text is None:
            raise _build_refusal(self.checkpoint, f"does not have batch {batch_id}")
        metadata, offsets = self._parse_entry(text)
        policy = metadata.get("conf", {}).get(MULTIPLE_POLICY, "min").lower()
        return PlannedBatch(
            self.read_query_id(), batch_id, _parse_watermark_ms(metadata), policy, offsets
        )

    def read_watermark(self, batch_id: int) -> int | None:
        """Return the watermark in ms with which the running batch `batch_id` was planned.

        Operators of that batch emit what the watermark has passed. `None` if the query has none
        yet. Raises `Rejected` if the batch is not the last one planned.
        """
        metadata, _ = self._read_newest()
        if self.last != batch_id:
            reason = f"is at batch {self.last}, and this is batch {batch_id}"
            raise _build_refusal(self.checkpoint, reason)
        return _parse_watermark_ms(metadata)

    def _read_newest(self, *reader: Any) -> tuple[Json, tuple[Any, ...]]:  # noqa: ANN401 - see `order_offsets`
        """Return what Spark wrote of the last planned batch: its metadata, then the offsets.

        The files are listed once. Then the file after the last one is asked for by its name: in the
        order of names, in which stores list, 10 comes before 9.
        """
        files, following = self._files, self.last + 1
        if self.last < 0:
            listed = (int(name) for name in files.list_names("offsets") if name.isdigit())
            following = max(listed, default=0)
        while (text := files.read(f"offsets/{following}")) is not None:
            self.last, self._text, following = following, text, following + 1
        if self.last < 0:
            raise _build_refusal(self.checkpoint, "has no batch yet")
        return self._parse_entry(self._text, *reader)

    def _parse_entry(self, text: str, *reader: Any) -> tuple[Json, tuple[Any, ...]]:  # noqa: ANN401 - likewise
        version, head, *lines = text.split("\n")
        if version not in (IN_ORDER, BY_NAME):
            raise Rejected(f"offset log {version!r} of {self.checkpoint} takes a newer noted-time")
        if version == IN_ORDER:
            lines = [f"{place}:{line}" for place, line in enumerate(lines)]
        named = (line.split(":", 1) for line in (f":{head}", *lines))
        sources = {name: None if of == NO_OFFSET else json.loads(of) for name, of in named}
        return sources.pop("") or {}, order_offsets(sources, *reader)


def order_offsets(
    sources: Mapping[str, Any], token: str = "", position_of: Callable[[Any], object] | None = None
) -> tuple[Any, ...]:
    """Return the offsets in the order of the plan, or so that events follow their marks.

    Spark keeps no order of sources with names; others have their places for names. Events that we
    read are named after their marks. What others read may be under any marks that are left: of
    several it is what the marks of `token` alone can read by `position_of`, and which ones the
    other marks cover is not told. If not each has one, all follow the last marks.

    >>> order_offsets({"b": {"b": {}}, "noted_time_m": {"noted_marks": "b", "token": "t"}})
    ({'noted_marks': 'b', 'token': 't'}, {'b': {}})
    """
    names = sorted(sources, key=lambda name: name.zfill(9))  # as numbers, if they are
    if all(map(str.isdigit, names)):
        return tuple(sources[name] for name in names)
    marks = [n for n in names if is_of_marks(sources[n]) and n + EVENTS_SUFFIX not in sources]
    marks.sort(key=lambda name: sources[name]["token"] == token)
    others = [name for name in names if not name.startswith(OWN_PREFIX)]
    read = [name for name in others if position_of and _is_read(sources[name], position_of)]
    others.sort(key=lambda name: (name in read, sources[name] is None))
    own = [name for name in names if name not in {*marks, *others}]
    is_clear = len(marks) == len(others) and not read[1:]
    tail = [*chain(*zip(marks, others, strict=False))] if is_clear else [*marks, *others]
    return tuple(sources[name] for name in ([*own, *tail] if marks else [*others, *own]))


def _is_read(offset: Any, position_of: Callable[[Any], object]) -> bool:  # noqa: ANN401 - whatever JSON holds
    with suppress(Rejected, LookupError, TypeError):
        return position_of(offset) is not None
    return False


def _parse_watermark_ms(metadata: Json) -> int | None:
    return metadata["batchWatermarkMs"] or None


def _build_refusal(checkpoint: str, reason: str) -> Rejected:
    return Rejected(f"{checkpoint!r} is not the checkpoint of the query: it {reason}")


def _find_only_source(stream: str, behind: Sequence[Any]) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the offset of the one source behind the marks, up to the next source of ours.

    A second source would be read under marks that say nothing of it, and its rows dropped as late.
    One that is merely joined cannot be distinguished from one that was put into a union.
    """
    events = list(takewhile(lambda offset: not (is_of_marks(offset) or is_of_log(offset)), behind))
    if len(events) != 1:
        raise Rejected(
            f"the marks of stream {stream!r} cover one source, but {len(events)} follow them: "
            "call with_noted_watermark once for each source, then union or join the results; one "
            "that needs no marks comes before them, as in other.join(timed), and cannot be named"
        )
    return events[0]
