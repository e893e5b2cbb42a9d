"""The service's values as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from noted_time import Advance, Hold, TimeWindow
from noted_time.wire import mark_to_wire, position_to_wire, window_to_wire

if TYPE_CHECKING:
    from controller.aggregation.inspection import Explanation, WriterRow
    from controller.aggregation.stream import StreamState
    from controller.service.controller import NewMarks
    from controller.store.port import StreamSummary
    from noted_time import ReaderGroup, ScaleEvent

Json = dict[str, Any]


def reply(body: Json, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def stream_to_wire(stream: StreamState) -> Json:
    """Return the JSON of a stream: settings, creation id, last marks, scale events."""
    return summary_to_wire(stream.summary())


def summary_to_wire(summary: StreamSummary) -> Json:
    """Return the JSON of a stream's summary, which is the same."""
    record = summary.record
    last = {key: mark_to_wire(mark) for key, mark in summary.last_marks.items()}
    return {
        "name": record.name,
        "id": record.id,
        **asdict(record.settings),
        "marks": {key: last.get(key) for key in record.settings.keys},
        "scale_events": [scale_to_wire(event) for event in summary.scales],
    }


def scale_to_wire(event: ScaleEvent) -> Json:
    """Return the JSON of a scale event."""
    return {
        "sealed": position_to_wire(event.sealed),
        "created": {str(s): list(predecessors) for s, predecessors in event.created.items()},
    }


def marks_to_wire(found: NewMarks) -> Json:
    """Return the JSON of the marks that a poll found."""
    return {
        "stream_id": found.stream.id,
        "scale_events": len(found.stream.scale_events),
        "marks": [mark_to_wire(mark) for mark in found.marks],
    }


def group_to_wire(stream: StreamState, group: ReaderGroup) -> Json:
    """Return the JSON of a reader group: position, readers, and the window of each key."""
    position = group.position
    return {
        "position": position_to_wire(position),
        "readers": {
            reader: position_to_wire(group.segments_of(reader)) for reader in sorted(group.readers)
        },
        "windows": {
            key: window_to_wire(stream.window(position, key)) for key in stream.settings.keys
        },
    }


def writer_to_wire(row: WriterRow) -> Json:
    """Return the JSON of one member."""
    return asdict(row) | {"position": position_to_wire(row.position)}


def window_reply(window: TimeWindow) -> Response:
    """Return a time window."""
    return reply(window_to_wire(window))


def explanation_to_wire(explanation: Explanation) -> Json:
    """Return the JSON of the decision and its reason."""
    decision = explanation.decision
    return {
        "decision": type(decision).__name__.lower(),
        "lower": explanation.lower,
        "next_lower": decision.lower if isinstance(decision, Advance) else None,
        "waiting_for": [asdict(waiting) for waiting in decision.waiting_for]
        if isinstance(decision, Hold)
        else [],
        "holders": decision.holders if isinstance(decision, Hold) else 0,
        "without": explanation.without,
    }
