"""Reads from a checkpoint how far a query has read.

Spark writes the ends of micro-batch N to ``<checkpoint>/offsets/N`` before it runs N, and then
plans N + 1. So a batch planned now begins after the newest file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, takewhile
from typing import Any, TypeVar

from msgspec import Struct

from noted_time import Rejected
from noted_time.client import Json
from spark_integration.checkpoint.files import Files, open_checkpoint, parse_place
from spark_integration.marks.offset import is_noted, is_of_marks
from spark_integration.marks.watermark import MULTIPLE_POLICY
from spark_integration.session.settings import EVENTS_SUFFIX, OWN_PREFIX

# versions of Spark's offset log, which lists sources by place or by name
IN_ORDER = "v1"
BY_NAME = "v2"
NO_OFFSET = "-"

K = TypeVar("K")
V = TypeVar("V")


class PlannedBatch(Struct, frozen=True):
    """A micro-batch as planned, and as repeated after a crash."""

    query_id: str
    batch_id: int
    watermark_ms: int | None
    watermark_policy: str
    offsets: tuple[Any, ...]  # the end of each source as JSON, or `None`; see `order_offsets`


@dataclass
class QueryProgress:
    """The offset log of the query with a `checkpointLocation`."""

    checkpoint: str
    last: int = -1
    _text: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        parse_place(self.checkpoint)

    @cached_property
    def _files(self) -> Files:
        return open_checkpoint(self.checkpoint)

    def find_position(
        self, token: str, position_of: Callable[[Any], Mapping[K, V]]
    ) -> Mapping[K, V]:
        """Return the position of the only events that follow the marks source of a `token`.

        It is empty before their source has an offset. Raises `Rejected` for another query's log.
        """
        _, sources = self._read_newest()
        offsets = order_offsets(sources, token, position_of)
        for place, marks_offset in enumerate(offsets, start=1):
            if is_of_marks(marks_offset) and marks_offset["token"] == token:
                events_offset = _find_only_source(marks_offset["noted_streams"], offsets[place:])
                if events_offset is None:
                    return {}
                return position_of(events_offset)
        raise _build_refusal(self.checkpoint, "was written by another query")

    def find_last_marks(self, streams: Collection[str]) -> Json | None:
        """Return the last offset of the marks of `streams`, `None` before the first batch."""
        if not self._files.list_names("offsets"):
            return None
        _, sources = self._read_newest()
        for offset in order_offsets(sources):
            if is_of_marks(offset) and offset["noted_streams"].keys() == set(streams):
                return offset
        return None

    def read_query_id(self) -> str:
        text = self._files.read("metadata")
        if text is None:
            raise Rejected(f"{self.checkpoint} is not a checkpoint: it has no metadata file")
        return str(json.loads(text)["id"])

    @cached_property
    def begins_at_zero(self) -> Mapping[str, bool]:
        """Whether the first batch began at offset 0 in each partition, by topic."""
        begins_by_topic = dict[str, bool]()
        for source in self._read_newest()[1]:
            text = self._files.read(f"sources/{source}/0") or ""
            with suppress(ValueError, AttributeError):  # of another source
                for topic, first_offsets in json.loads(text.rpartition("\n")[2]).items():
                    begins_at_zero = bool(first_offsets) and not any(first_offsets.values())
                    begins_by_topic[topic] = begins_at_zero and begins_by_topic.get(topic, True)
        return begins_by_topic

    def has_state(self) -> bool:
        return bool(self._files.list_names("state"))

    def read_batch(self, batch_id: int) -> PlannedBatch:
        text = self._files.read(f"offsets/{batch_id}")
        if text is None:
            raise _build_refusal(self.checkpoint, f"does not have batch {batch_id}")
        metadata, sources = self._parse_entry(text)
        policy = metadata.get("conf", {}).get(MULTIPLE_POLICY, "min").lower()
        watermark_ms = _parse_watermark_ms(metadata)
        offsets = order_offsets(sources)
        return PlannedBatch(self.read_query_id(), batch_id, watermark_ms, policy, offsets)

    def read_watermark(self, batch_id: int) -> int | None:
        """Return the watermark in ms of the running batch, the last planned one."""
        metadata, _ = self._read_newest()
        if self.last != batch_id:
            reason = f"is at batch {self.last}, and this is batch {batch_id}"
            raise _build_refusal(self.checkpoint, reason)
        return _parse_watermark_ms(metadata)

    def _read_newest(self) -> tuple[Json, dict[str, Any]]:
        """Read files by name after the first listing; stores list 10 before 9."""
        files = self._files
        next_batch = self.last + 1
        if self.last < 0:
            batch_ids = [int(name) for name in files.list_names("offsets") if name.isdigit()]
            next_batch = max(batch_ids, default=0)
        while (text := files.read(f"offsets/{next_batch}")) is not None:
            self.last = next_batch
            self._text = text
            next_batch += 1
        if self.last < 0:
            raise _build_refusal(self.checkpoint, "has no batch yet")
        return self._parse_entry(self._text)

    def _parse_entry(self, text: str) -> tuple[Json, dict[str, Any]]:
        version, head, *lines = text.split("\n")
        if version not in (IN_ORDER, BY_NAME):
            raise Rejected(f"offset log {version!r} of {self.checkpoint} needs a newer noted-time")
        if version == IN_ORDER:
            lines = [f"{place}:{line}" for place, line in enumerate(lines)]
        metadata = _parse_end(head) or {}
        sources: dict[str, Any] = {}
        for line in lines:
            name, end = line.split(":", 1)
            sources[name] = _parse_end(end)
        return metadata, sources


def _parse_end(text: str) -> Any:  # noqa: ANN401 - any JSON value
    if text == NO_OFFSET:
        return None
    return json.loads(text)


def order_offsets(
    sources: Mapping[str, Any], token: str = "", position_of: Callable[[Any], object] | None = None
) -> tuple[Any, ...]:
    """Return the offsets of sources, with events directly after their marks.

    Numbered sources have the plan's order; named sources are paired:

    - Events that this package reads have the name of their marks and a suffix.
    - The marks of `token` get the only other source that `position_of` can read.
    - If marks and events cannot be paired, all events follow the last marks.

    >>> order_offsets({"b": {"b": {}}, "noted_time_m": {"noted_streams": {"b": {}}, "token": "t"}})
    ({'noted_streams': {'b': {}}, 'token': 't'}, {'b': {}})
    """
    names = sorted(sources, key=lambda name: name.zfill(9))  # as numbers, if they are
    if not all(name.isdigit() for name in names):
        names = _order_names(names, sources, token, position_of)
    return tuple(sources[name] for name in names)


def _order_names(
    names: Sequence[str],
    sources: Mapping[str, Any],
    token: str,
    position_of: Callable[[Any], object] | None,
) -> list[str]:
    marks_names: list[str] = []
    events_names: list[str] = []
    own_names: list[str] = []  # of file logs, and of marks with their events directly after them
    for name in names:
        has_marks = is_of_marks(sources[name]) and name + EVENTS_SUFFIX not in sources
        has_events = not name.startswith(OWN_PREFIX)
        if has_marks:
            marks_names.append(name)
        if has_events:
            events_names.append(name)
        if not (has_marks or has_events):
            own_names.append(name)
    readable_names: set[str] = set()
    if position_of is not None:
        readable_names = {name for name in events_names if _can_read(position_of, sources[name])}
    marks_names.sort(key=lambda name: sources[name]["token"] == token)
    events_names.sort(key=lambda name: (name in readable_names, sources[name] is None))
    if not marks_names:
        return [*events_names, *own_names]
    if len(marks_names) != len(events_names) or len(readable_names) > 1:
        return [*own_names, *marks_names, *events_names]
    return [*own_names, *chain(*zip(marks_names, events_names, strict=True))]


def _can_read(position_of: Callable[[Any], object], offset: Any) -> bool:  # noqa: ANN401 - any JSON value
    with suppress(Rejected, LookupError, TypeError):
        return position_of(offset) is not None
    return False


def _parse_watermark_ms(metadata: Json) -> int | None:
    return metadata["batchWatermarkMs"] or None


def _build_refusal(checkpoint: str, reason: str) -> Rejected:
    return Rejected(f"{checkpoint!r} is not the checkpoint of the query: it {reason}")


def _find_only_source(streams: Iterable[str], later_offsets: Sequence[Any]) -> Any:  # noqa: ANN401 - any JSON value
    events_offsets = list(takewhile(lambda offset: not is_noted(offset), later_offsets))
    if len(events_offsets) != 1:
        raise Rejected(
            f"the marks of stream {','.join(streams)!r} cover one source, but "
            f"{len(events_offsets)} follow them: call with_noted_watermark once for each source, "
            "then union or join the results; put a source that needs no marks before them, as in "
            "other.join(timed), without a name"
        )
    return events_offsets[0]
