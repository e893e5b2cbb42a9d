"""Flink's watermark valve over HTTP: what its tests hold of channels holds of our writers.

The cases are those that Flink tests its `StatusWatermarkValve` with, as far as there are several
channels: a channel is a writer that joined, an idle status the state `idle`, an active one a live
note without a time.
"""

import pytest

from tests.support.http import Caller

S = "/v1/streams/s"
Step = tuple[str, int | str, list[int]]
"""A channel, its watermark or status, and the watermarks that must come out."""

CASES: dict[str, list[Step]] = {
    "nothing before every channel has a watermark": [("0", 0, []), ("1", 0, []), ("2", 0, [0])],
    "the least watermark of all channels": [
        ("0", 0, []),
        ("1", 0, []),
        ("2", 0, [0]),
        ("0", 12, []),
        ("2", 8, []),
        ("2", 10, []),
        ("1", 15, [10]),
        ("2", 17, [12]),
        ("0", 20, [15]),
    ],
    "only active channels count": [
        ("0", 15, []),
        ("1", 10, []),
        ("2", "idle", [10]),
        ("1", 18, [15]),
        ("0", 20, [18]),
    ],
    "channels become idle one after the other": [
        ("0", 25, []),
        ("1", 10, []),
        ("2", 17, [10]),
        ("1", "idle", [17]),
        ("2", "idle", [25]),
    ],
    "the highest watermark is flushed once all are idle": [
        ("0", 10, []),
        ("1", 5, []),
        ("2", 3, [3]),
        ("0", "idle", []),
        ("1", "idle", []),
        ("2", "idle", [10]),
    ],
    "a channel that resumes has to catch up first": [
        ("0", 10, []),
        ("1", 7, []),
        ("2", 3, [3]),
        ("2", "idle", [7]),
        ("2", "active", []),
        ("2", 5, []),
        ("2", 9, []),
        ("1", 12, [9]),
    ],
    "nothing comes while all active channels have to catch up": [
        ("0", 10, []),
        ("1", 7, []),
        ("2", "idle", [7]),
        ("2", "active", []),
        ("0", "idle", []),
        ("1", "idle", []),
    ],
    # beyond Flink's own: a report on such a channel, and its end
    "a channel that has to catch up does so alone": [
        ("0", 10, []),
        ("1", 7, []),
        ("2", "idle", [7]),
        ("2", 5, []),
        ("0", "idle", []),
        ("1", "idle", []),
        ("2", 8, [8]),
    ],
    "the highest watermark is flushed when it too becomes idle": [
        ("0", 10, []),
        ("1", 7, []),
        ("2", "idle", [7]),
        ("2", 5, []),
        ("0", "idle", []),
        ("1", "idle", []),
        ("2", "idle", [10]),
    ],
}


@pytest.mark.parametrize("steps", CASES.values(), ids=list(CASES))
async def test_writers_are_channels_of_flinks_valve(call: Caller, steps: list[Step]) -> None:
    """With `exclude`: time advances without a writer that comes back below the last lower."""
    await call.put(S, {"returning_writer": "exclude", "mark_interval_ms": 0})
    await call.note(*({"writer": channel} for channel in sorted({step[0] for step in steps})))
    came: list[Step] = []
    seq = 0
    for channel, said, _ in steps:
        note = {"writer": channel}
        if isinstance(said, int):
            note |= {"time": said}  # type: ignore[dict-item]
        elif said == "idle":
            note |= {"state": "idle"}
        await call.note(note)
        marks = (await call.get(f"{S}/marks", after=seq)).json()["marks"]
        seq += len(marks)
        came.append((channel, said, [mark["lower"] for mark in marks]))

    assert came == steps
