"""The segments of a stream: their states, offsets and writers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Literal

from controller.aggregation.stream import StreamState
from controller.aggregation.views.suspect_notes import MEMBERS_EXAMINED
from noted_time.answers import SegmentRow

SEGMENT_WRITERS = 10


class Segments:
    """The segments of one stream, with the marks of one domain."""

    def __init__(self, stream: StreamState, domain: str | None) -> None:
        self._stream = stream
        self._history = stream.history(domain)
        history = self._history
        self._begins: Mapping[int, int] = {}
        if history.first_seq > 1:
            self._begins = history.mark(history.first_seq).cut.offsets
        self._known = {*history.segments(), *(stream.final_cut or ())}
        self._predecessors: dict[int, tuple[int, ...]] = {}
        self._successors: dict[int, list[int]] = {}
        self._writers: dict[int, list[str]] = {}
        self._counts: dict[int, int] = {}
        for event in stream.scale_events:
            self._known |= event.sealed.keys() | event.created.keys()
            for segment, predecessors in event.created.items():
                self._predecessors[segment] = predecessors
                for predecessor in predecessors:
                    self._successors.setdefault(predecessor, []).append(segment)

    def positions(self) -> list[tuple[str, Mapping[int, int]]]:
        aggregator = self._stream.aggregator
        names = islice(aggregator.writers(), MEMBERS_EXAMINED)
        return [(name, aggregator.member(name).position) for name in names]

    def add(self, position: Mapping[int, int]) -> None:
        self._known |= position.keys()

    def page(self, start: int, limit: int) -> list[int]:
        return sorted(self._known)[start : start + limit]

    def count(self, writer: str, segments: Iterable[int]) -> None:
        for segment in segments:
            self._counts[segment] = self._counts.get(segment, 0) + 1
            writers = self._writers.setdefault(segment, [])
            if len(writers) < SEGMENT_WRITERS:
                writers.append(writer)

    def row(self, segment: int) -> SegmentRow:
        stretch = self._history.stretch(segment)
        final = self._find_end(segment)
        return SegmentRow(
            segment=segment,
            state=self._find_state(segment, final),
            predecessors=self._predecessors.get(segment, ()),
            successors=sorted(self._successors.get(segment, ())),
            first_offset=stretch.first_offset if stretch else None,
            last_offset=stretch.last_offset if stretch and final is None else final,
            writers=self._writers.get(segment, ()),
            writers_total=self._counts.get(segment, 0),
        )

    def _find_end(self, segment: int) -> int | None:
        final_cut = self._stream.final_cut
        final = self._stream.aggregator.succession.final.get(segment)
        if final is None and final_cut is not None:
            return final_cut.get(segment, 0)
        return final

    def _find_state(
        self, segment: int, final: int | None
    ) -> Literal["open", "sealed", "truncated"]:
        if final is None:
            return "open"
        return "truncated" if self._begins.get(segment, -1) >= final else "sealed"


def select_named(position: Mapping[int, int], wanted_segments: Collection[int]) -> Iterable[int]:
    if len(position) < len(wanted_segments):
        return [segment for segment in position if segment in wanted_segments]
    return [segment for segment in wanted_segments if segment in position]
