"""Build the JSON of answers whose fields differ from the values of the service."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from controller.aggregation.group_backlog import GroupBacklog
from controller.aggregation.stream import StreamState
from controller.store.port import StreamSummary
from noted_time.answers import (
    GroupAnswer,
    SealAnswer,
    SegmentTimeAnswer,
    SegmentTimesAnswer,
    StreamAnswer,
)
from noted_time.progress import SegmentTimes
from noted_time.reading import ReaderGroup
from noted_time.values import State


def states_of(stream: StreamState, group: ReaderGroup) -> dict[str, State]:
    """Return by domain whether a group can expect more marks, as states of a writer."""
    states: dict[str, State] = {}
    for domain, window in stream.windows(group.position).items():
        last = stream.histories[domain].last
        is_at_end = last is None or window.lower_seq == last.seq
        is_quiet = is_at_end and stream.aggregator.domains[domain].is_quiet
        if window.sealed:
            states[domain] = "finished"
        elif is_quiet:
            states[domain] = "idle"
        else:
            states[domain] = "live"
    return states


def windows_of(stream: StreamState, group: ReaderGroup) -> dict[str, Any]:
    """Return dicts, because msgspec makes tuples lists."""
    windows = stream.windows(group.position)
    return {domain: window._asdict() for domain, window in windows.items()}


def build_stream(
    summary: StreamSummary,
    answer: type[StreamAnswer] = StreamAnswer,
    **more: Any,  # noqa: ANN401 - the other fields of the answer
) -> StreamAnswer:
    record = summary.record
    seal = record.seal
    return answer(
        **asdict(record.settings),
        name=record.name,
        id=record.id,
        marks={domain: summary.last_marks.get(domain) for domain in record.settings.domains},
        scale_events=summary.scales,
        seal=None if seal is None else SealAnswer(at=seal.at, cut=seal.final_cut),
        logs=record.logs,
        event_time_forms=record.event_time_forms,
        **more,
    )


def build_group(
    stream: StreamState,
    group: ReaderGroup,
    backlog: GroupBacklog,
    answer: type[GroupAnswer] = GroupAnswer,
    **more: Any,  # noqa: ANN401 - the other fields of the answer
) -> GroupAnswer:
    segments = group.segments_by_reader()
    return answer(
        position=group.position,
        readers={reader: segments.get(reader, {}) for reader in sorted(group.readers)},
        windows=windows_of(stream, group),
        states=states_of(stream, group),
        backlog=backlog.backlog,
        backlog_causes=backlog.causes,
        backlog_began_at=backlog.began_at,
        **more,
    )


def build_segment_times(times: SegmentTimes) -> SegmentTimesAnswer:
    lag = times.lag()
    segments = {
        segment: SegmentTimeAnswer(lower=lower, lag=lag.segments[segment])
        for segment, lower in sorted(times.lowers.items())
    }
    return SegmentTimesAnswer(segments=segments, order=times.order(), lag=lag.lag)
