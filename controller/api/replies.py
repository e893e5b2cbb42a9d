"""How the service's values are spelled as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from noted_time import Advance, Hold, TimeWindow
from noted_time.wire import mark_to_wire, position_to_wire, window_to_wire

if TYPE_CHECKING:
    from controller.aggregation.answers import Explanation, WriterRow
    from controller.aggregation.stream import StreamState
    from controller.service.controller import NewMarks
    from noted_time import ReaderGroup, ScaleEvent

Json = dict[str, Any]


def reply(body: Json, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def stream_to_wire(stream: StreamState) -> Json:
    """Spell a stream: settings, creation id, last marks, scale events."""
    last = {key: history.last for key, history in stream.histories.items()}
    return {
        "name": stream.record.name,
        "id": stream.id,
        **asdict(stream.settings),
        "marks": {key: mark and mark_to_wire(mark) for key, mark in last.items()},
        "scale_events": [scale_to_wire(event) for event in stream.scale_events],
    }


def scale_to_wire(event: ScaleEvent) -> Json:
    """Spell a scale event."""
    return {
        "sealed": position_to_wire(event.sealed),
        "created": {str(s): list(predecessors) for s, predecessors in event.created.items()},
    }


def marks_to_wire(found: NewMarks) -> Json:
    """Spell the marks that a poll found."""
    return {
        "stream_id": found.stream.id,
        "scale_events": len(found.stream.scale_events),
        "marks": [mark_to_wire(mark) for mark in found.marks],
    }


def group_to_wire(stream: StreamState, group: ReaderGroup) -> Json:
    """Spell a reader group: position, readers, and the window of each key."""
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
    """Spell one member."""
    return asdict(row) | {"position": position_to_wire(row.position)}


def window_reply(window: TimeWindow) -> Response:
    """Return a time window."""
    return reply(window_to_wire(window))


def explanation_to_wire(explanation: Explanation) -> Json:
    """Spell the decision and its reason."""
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
