"""Build the JSON of answers whose fields differ from the values of the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.aggregation.group_backlog import GroupBacklog
from controller.aggregation.stream import StreamState
from controller.store.port import StreamSummary
from noted_time import ReaderGroup, SegmentTimes
from noted_time.answers import (
    GroupAnswer,
    SealAnswer,
    SegmentTimeAnswer,
    SegmentTimesAnswer,
    StreamAnswer,
)
from noted_time.answers.json_fields import list_fields
from noted_time.client import Json
from noted_time.values import State


def convert(answer: type[Any], value: object = None, /, **more: object) -> Json:
    """Return an answer's JSON object with the fields `more`, and all other fields from the value.

    >>> from noted_time import Waiting
    >>> convert(Waiting, Waiting("UA", 5, 20, 80), time=None)
    {'writer': 'UA', 'time': None, 'held_for_ms': 20, 'times_out_in_ms': 80}
    """
    return {each.name: _find(each.attribute, value, more) for each in list_fields(answer)}  # type: ignore[arg-type]


def _find(name: str, value: object, more: Mapping[str, object]) -> object:
    return more[name] if name in more else getattr(value, name)


def states_of(stream: StreamState, group: ReaderGroup) -> dict[str, State]:
    """Return by domain whether a group can expect more marks, as states of a writer."""
    states: dict[str, State] = {}
    for domain, window in stream.windows(group.position).items():
        last = stream.histories[domain].last
        is_at_end = last is None or window.lower_seq == last.seq
        is_quiet = is_at_end and stream.aggregator.domains[domain].is_quiet
        states[domain] = "finished" if window.sealed else "idle" if is_quiet else "live"
    return states


def windows_of(stream: StreamState, group: ReaderGroup) -> dict[str, Any]:
    """Return dicts, because msgspec makes tuples lists."""
    windows = stream.windows(group.position)
    return {domain: window._asdict() for domain, window in windows.items()}


def build_stream(summary: StreamSummary, answer: type[Any] = StreamAnswer, **more: object) -> Json:
    record = summary.record
    return convert(
        answer,
        record.settings,
        name=record.name,
        id=record.id,
        marks={each: summary.last_marks.get(each) for each in record.settings.domains},
        scale_events=summary.scales,
        seal=record.seal and convert(SealAnswer, record.seal, cut=record.seal.final_cut),
        logs=record.logs,
        **more,
    )


def build_group(
    stream: StreamState,
    group: ReaderGroup,
    found: GroupBacklog,
    answer: type[Any] = GroupAnswer,
    **more: object,
) -> Json:
    segments = group.segments_by_reader()
    return convert(
        answer,
        found,
        position=group.position,
        readers={reader: segments.get(reader, {}) for reader in sorted(group.readers)},
        windows=windows_of(stream, group),
        states=states_of(stream, group),
        **more,
    )


def build_segment_times(times: SegmentTimes) -> Json:
    lag = times.lag()
    segments = {
        segment: convert(SegmentTimeAnswer, lower=lower, behind=lag.segments[segment])
        for segment, lower in sorted(times.lowers.items())
    }
    return convert(SegmentTimesAnswer, segments=segments, order=times.order(), behind=lag.behind)
