"""The controller's answers to a reader, as values."""

from collections.abc import Mapping, Sequence

import httpx
from hypothesis import strategies as st

from noted_time.answers import MarksAnswer
from noted_time.client import position_to_wire
from noted_time.values import Mark, ScaleEvent, StreamCut, join_into
from reader_client.protocol.answers import StreamReply
from tests.support.http import as_json, read_json
from tools.trials.served import Served

STREAM = {
    "id": "a",
    "domains": ["default"],
    "marks": {"default": None},
    "scale_events": [],
    "reader_timeout_ms": 60_000,
    "writer_retention_ms": 60_000,
    "max_time_ahead_ms": None,
    "seal": None,
    "logs": [],
}
MARKS = {
    "stream_id": "a",
    "scale_events": 0,
    "marks": [],
    "sealed": False,
    "final_cut": None,
    "quiet": False,
    "has_more": False,
    "ahead_of_stream": False,
    "first_lower": None,
    "logs": [],
}
"""The fields that readers use, of a stream without marks."""

SEGMENTS = 3
positions = st.dictionaries(st.integers(0, SEGMENTS), st.integers(0, 40), max_size=SEGMENTS)


@st.composite
def chains(draw: st.DrawFn, *, most: int = 20) -> list[Mark]:
    """Draw a chain of marks whose lowers and cuts never go back."""
    marks: list[Mark] = []
    lower = draw(st.integers(-5, 5))
    cut = dict[int, int]()
    for seq in range(1, draw(st.integers(0, most)) + 1):
        join_into(cut, draw(positions))
        marks.append(Mark(seq, lower, lower + draw(st.integers(0, 9)), StreamCut(dict(cut))))
        lower += draw(st.integers(1, 5))
    return marks


def stream_answer(
    stream_id: str = "a", last: Mark | None = None, scales: Sequence[ScaleEvent] = ()
) -> StreamReply:
    """Return an answer of ``GET /streams/{stream}`` with the fields that readers use."""
    scale_events = []
    for event in scales:
        created = {str(segment): list(before) for segment, before in event.created.items()}
        scale_events.append({"sealed": position_to_wire(event.sealed), "created": created})
    wire = STREAM | {
        "id": stream_id,
        "marks": {"default": as_json(last) if last else None},
        "scale_events": scale_events,
    }
    reply: StreamReply = read_json(StreamReply, wire)
    return reply


def marks_answer(
    marks: Sequence[Mark],
    stream_id: str = "a",
    scale_events: int = 0,
    final_cut: Mapping[int, int] | None = None,
) -> MarksAnswer:
    """Return an answer of ``GET /streams/{stream}/marks``."""
    wire = MARKS | {
        "stream_id": stream_id,
        "scale_events": scale_events,
        "marks": [as_json(mark) for mark in marks],
        "sealed": final_cut is not None,
        "final_cut": None if final_cut is None else position_to_wire(final_cut),
    }
    answer: MarksAnswer = read_json(MarksAnswer, wire)
    return answer


def list_readers(served: Served, stream: str) -> object:
    """Return the readers of the group `g`, `None` without the group."""
    try:
        return served.call("GET", f"/{stream}/reader-groups/g")["readers"]
    except httpx.HTTPStatusError:
        return None
