"""Readers' lags in time, by segment, reader and reader group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.aggregation.stream import StreamState
from noted_time import TimeWindow
from noted_time.answers import ReaderLag
from noted_time.progress import SegmentTimes, find_largest_lag
from noted_time.reading import ReaderGroup

GROUPS_SHOWN = 1000

SEGMENTS_READ = 50_000  # examining them takes about 20 ms


def locate_position(
    stream: StreamState, position: Mapping[int, int], domain: str | None
) -> SegmentTimes:
    return SegmentTimes(stream.history(domain), stream.aggregator.succession, position)


def find_lags(stream: StreamState, windows: Mapping[str, TimeWindow]) -> dict[str, int | None]:
    lags: dict[str, int | None] = {}
    for domain, window in windows.items():
        last_mark = stream.histories[domain].last
        lags[domain] = None
        if last_mark is not None and window.lower is not None:
            lags[domain] = last_mark.lower - window.lower
    return lags


def find_reader_lags(stream: StreamState, group: ReaderGroup, domain: str) -> dict[str, ReaderLag]:
    position = stream.aggregator.succession.normalise(group.position)
    lags = locate_position(stream, position, domain).lag().segments
    is_read = stream.aggregator.succession.is_read
    segments_by_reader = group.segments_by_reader()
    unfinished_counts = {}
    largest_lags = {}
    for reader in sorted(group.readers):
        segments = segments_by_reader.get(reader, ())
        unfinished_lags = [lags[segment] for segment in segments if not is_read(segment, position)]
        unfinished_counts[reader] = len(unfinished_lags)
        largest_lags[reader] = find_largest_lag(unfinished_lags)
    largest_lag = max((lag for lag in largest_lags.values() if lag is not None), default=0)
    if None in largest_lags.values():  # a reader before all marks has the largest lag
        last_mark = stream.history(domain).last
        first_marks = stream.history(domain).after(0, 1)
        largest_lag = last_mark.lower - first_marks[0].lower + 1 if last_mark is not None else 0
    return {
        reader: ReaderLag(lag, unfinished_counts[reader] * _find_share(lag, largest_lag))
        for reader, lag in largest_lags.items()
    }


def read_groups(streams: Iterable[StreamState]) -> tuple[list[tuple[list[str], int]], int]:
    """Return the lags by stream, group and domain, and how many groups are not measured."""
    labelled_lags: list[tuple[list[str], int]] = []
    group_count = segment_count = hidden_count = 0
    for stream in streams:
        for name in stream.groups:
            position = stream.groups[name].position
            if group_count >= GROUPS_SHOWN or segment_count + len(position) > SEGMENTS_READ:
                hidden_count += 1
                continue
            group_count += 1
            segment_count += len(position)
            lags = find_lags(stream, stream.windows(position))
            labels = [stream.record.name, name]
            labelled_lags += [
                ([*labels, domain], lag) for domain, lag in lags.items() if lag is not None
            ]
    return labelled_lags, hidden_count


def _find_share(lag: int | None, largest: int) -> float:
    if lag is None:
        return 1.0
    return lag / largest if largest else 0.0
