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
from spark_integration.marks.offset import is_of_log, is_of_marks
from spark_integration.marks.watermark import MULTIPLE_POLICY
from spark_integration.session.settings import EVENTS_SUFFIX, OWN_PREFIX

IN_ORDER, BY_NAME = "v1", "v2"  # versions of Spark's offset log: sources by place or by name
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
        for place, marks in enumerate(offsets, start=1):
            if is_of_marks(marks) and marks["token"] == token:
                events = _find_only_source(marks["noted_streams"], offsets[place:])
                return {} if events is None else position_of(events)
        raise _build_refusal(self.checkpoint, "was written by another query")

    def find_last_marks(self, streams: Collection[str]) -> Json | None:
        if not self._files.list_names("offsets"):
            return None
        _, sources = self._read_newest()
        marks = filter(is_of_marks, order_offsets(sources))
        return next((each for each in marks if each["noted_streams"].keys() == set(streams)), None)

    def read_query_id(self) -> str:
        text = self._files.read("metadata")
        if text is None:
            raise Rejected(f"{self.checkpoint} is not a checkpoint: it has no metadata file")
        return str(json.loads(text)["id"])

    @cached_property
    def begins_at_zero(self) -> Mapping[str, bool]:
        """Whether the first batch began at offset 0 in each partition, by topic."""
        found = dict[str, bool]()
        for name in self._read_newest()[1]:
            text = self._files.read(f"sources/{name}/0") or ""
            with suppress(ValueError, AttributeError):  # of another source
                for topic, start in json.loads(text.rpartition("\n")[2]).items():
                    is_zero = bool(start) and not any(start.values())
                    found[topic] = is_zero and found.get(topic, True)
        return found

    def has_state(self) -> bool:
        return bool(self._files.list_names("state"))

    def read_batch(self, batch_id: int) -> PlannedBatch:
        text = self._files.read(f"offsets/{batch_id}")
        if text is None:
            raise _build_refusal(self.checkpoint, f"does not have batch {batch_id}")
        metadata, sources = self._parse_entry(text)
        policy = metadata.get("conf", {}).get(MULTIPLE_POLICY, "min").lower()
        watermark_ms, offsets = _parse_watermark_ms(metadata), order_offsets(sources)
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
        files, following = self._files, self.last + 1
        if self.last < 0:
            listed = (int(name) for name in files.list_names("offsets") if name.isdigit())
            following = max(listed, default=0)
        while (text := files.read(f"offsets/{following}")) is not None:
            self.last, self._text, following = following, text, following + 1
        if self.last < 0:
            raise _build_refusal(self.checkpoint, "has no batch yet")
        return self._parse_entry(self._text)

    def _parse_entry(self, text: str) -> tuple[Json, dict[str, Any]]:
        version, head, *lines = text.split("\n")
        if version not in (IN_ORDER, BY_NAME):
            raise Rejected(f"offset log {version!r} of {self.checkpoint} needs a newer noted-time")
        if version == IN_ORDER:
            lines = [f"{place}:{line}" for place, line in enumerate(lines)]
        named = (line.split(":", 1) for line in (f":{head}", *lines))
        sources = {name: None if end == NO_OFFSET else json.loads(end) for name, end in named}
        return sources.pop("") or {}, sources


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
    if not all(map(str.isdigit, names)):
        names = _order_names(names, sources, token, position_of)
    return tuple(sources[name] for name in names)


def _order_names(
    names: Sequence[str],
    sources: Mapping[str, Any],
    token: str,
    position_of: Callable[[Any], object] | None,
) -> list[str]:
    marks = [n for n in names if is_of_marks(sources[n]) and n + EVENTS_SUFFIX not in sources]
    marks.sort(key=lambda name: sources[name]["token"] == token)
    events = [name for name in names if not name.startswith(OWN_PREFIX)]
    readable = {name for name in events if position_of and _can_read(position_of, sources[name])}
    events.sort(key=lambda name: (name in readable, sources[name] is None))
    own = [name for name in names if name not in {*marks, *events}]
    if not marks:
        return [*events, *own]
    if len(marks) != len(events) or len(readable) > 1:
        return [*own, *marks, *events]
    return [*own, *chain(*zip(marks, events, strict=True))]


def _can_read(position_of: Callable[[Any], object], offset: Any) -> bool:  # noqa: ANN401 - any JSON value
    with suppress(Rejected, LookupError, TypeError):
        return position_of(offset) is not None
    return False


def _parse_watermark_ms(metadata: Json) -> int | None:
    return metadata["batchWatermarkMs"] or None


def _build_refusal(checkpoint: str, reason: str) -> Rejected:
    return Rejected(f"{checkpoint!r} is not the checkpoint of the query: it {reason}")


def _find_only_source(streams: Iterable[str], following: Sequence[Any]) -> Any:  # noqa: ANN401 - any JSON value
    events = list(
        takewhile(lambda offset: not (is_of_marks(offset) or is_of_log(offset)), following)
    )
    if len(events) != 1:
        raise Rejected(
            f"the marks of stream {','.join(streams)!r} cover one source, but {len(events)} follow "
            "them: call with_noted_watermark once for each source, then union or join the results; "
            "put a source that needs no marks before them, as in other.join(timed), without a name"
        )
    return events[0]
